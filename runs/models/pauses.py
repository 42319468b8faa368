"""Questions of runs, and who answers them by the rules of a step."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.lookups import GreaterThan

from checkpoints import ids
from checkpoints.database import clock, statements
from checkpoints.models import Checkpoint, JsonTextField, SealedJsonField, Thread
from checkpoints.models.fields import SealedTextField
from checkpoints.state import encryption
from checkpoints.text import invisible
from runs import hints
from runs.models.runs import Person, Run
from runs.states import NotificationStage, PauseKind, PauseStatus
from runs.workflows import sequence
from runs.workflows.tool_calls import RISKS

if TYPE_CHECKING:  # generic in the stubs only
    _SmallIntegerField = models.PositiveSmallIntegerField[Any, Any]
else:
    _SmallIntegerField = models.PositiveSmallIntegerField


class Panel(models.Model):
    """Who answers, as a step's `review` rules have it: kept under the digest of that part, so that
    a person's questions are in an index.
    """

    digest = models.CharField(primary_key=True, max_length=64)
    open_to_all = models.BooleanField(
        help_text="The rules name no reviewers: whoever takes part in the thread answers."
    )
    self_approval = models.BooleanField(help_text="Whether who asked for the work may approve it.")
    quorum = models.PositiveSmallIntegerField(help_text="How many different people must approve.")

    def __str__(self) -> str:
        return self.digest[:12]


class PanelMember(models.Model):
    """One name of a panel: a person's or a group's, from a stage of the escalation on."""

    # the constraint below has one
    panel = models.ForeignKey(Panel, models.PROTECT, related_name="members", db_index=False)
    stage = models.PositiveSmallIntegerField(
        help_text="0 from the beginning, else that many stages must have been reached."
    )
    turn = models.PositiveSmallIntegerField(
        default=0,
        help_text=(
            "The stages of the review that they answer, as bits: `runs.workflows.reviews.stages`. "
            "0 for all."
        ),
    )
    username = models.CharField(max_length=150, blank=True)
    group = models.CharField(max_length=150, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["panel", "stage", "username", "group"], name="panel_member_once"
            ),
            models.CheckConstraint(
                condition=Q(username="") ^ Q(group=""), name="panel_member_is_person_or_group"
            ),
        ]
        indexes = [  # which panels name somebody
            models.Index(fields=["username"], condition=~Q(username=""), name="panel_by_username"),
            models.Index(fields=["group"], condition=~Q(group=""), name="panel_by_group"),
        ]

    def __str__(self) -> str:
        return self.username or self.group


UNTOLD = Q(told=NotificationStage.NOTHING) | Q(told=NotificationStage.QUESTION) & ~Q(
    status=PauseStatus.OPEN
)


class PauseQuerySet(models.QuerySet["Pause"]):
    def open(self) -> PauseQuerySet:
        return self.filter(status=PauseStatus.OPEN)

    def untold(self) -> PauseQuerySet:
        """Questions, and ends of questions, that nobody has been planned to be told of."""
        return self.filter(UNTOLD)

    def mark_told(self, pause: Pause) -> int:
        """Note that those who are to know of a pause as it stands are being told; of two who do so
        one gets 0. Needs a transaction.
        """
        if pause.status == PauseStatus.OPEN:
            return self.filter(
                pk=pause.pk, status=PauseStatus.OPEN, told=NotificationStage.NOTHING
            ).update(told=NotificationStage.QUESTION)
        return (
            self.filter(pk=pause.pk, told__lt=NotificationStage.END)
            .exclude(status=PauseStatus.OPEN)
            .update(told=NotificationStage.END)
        )

    def change(self, **fields: Any) -> int:
        """Write what people see of a question, or whom it waits for, and when that was, and tell
        those who watch: every writer but that of a new row uses this.
        """
        changed = self.update(**fields, changed_at=clock.now())
        if changed:
            hints.pauses_changed_on_commit()
        return changed

    def change_each(self, pauses: Sequence[Pause], columns: Collection[str]) -> None:
        """As `change`, of rows that this transaction holds: these columns, as they are on these
        objects.
        """
        for pause in pauses:
            pause.changed_at = clock.now()
        if pauses:
            statements.execute([statements.update(pauses, [*columns, "changed_at"])])
            hints.pauses_changed_on_commit()

    def changed(
        self, *, since: dt.datetime, limit: int
    ) -> models.QuerySet[Pause, tuple[uuid.UUID, dt.datetime]]:
        """The questions that came, changed or went since then, the last ones first, with the
        time.
        """
        return (
            self.filter(changed_at__gte=since)
            .order_by("-changed_at")
            .values_list("pk", "changed_at")[:limit]
        )

    def visible_to(self, user: Person) -> PauseQuerySet:
        return self.filter(run__thread__in=Thread.objects.visible_to(user))

    def naming(self, username: str, groups: Any, *, in_turn: bool = False) -> PauseQuerySet:
        """The questions whose rules name a person or one of these groups, with the stages of the
        escalation that were reached; `in_turn` those whose stage of the review is open. May give
        one twice.
        """
        named = Q(panel__members__username=username) | Q(panel__members__group__in=groups)
        reached = Q(panel__members__stage__lte=models.F("stage"))
        if not in_turn:
            return self.filter(named, reached)
        theirs = F("panel__members__turn").bitand(F("turn"))  # type: ignore[arg-type]  # an int alone, says its annotation
        return self.filter(named, reached, Q(panel__members__turn=0) | Q(GreaterThan(theirs, 0)))

    def due(self, *, now: dt.datetime | clock.FromNow) -> PauseQuerySet:
        """Open questions whose rules act by now, those that have waited longest first."""
        return self.open().filter(next_at__lte=now).order_by("next_at", "pk")

    def answerable(self) -> PauseQuerySet:
        """With all that an answer needs, in one query."""
        return self.select_related("run__thread", "run__work_order", "run__parent", "checkpoint")

    def shown(self) -> PauseQuerySet:
        return self.select_related(
            "run__work_order__created_by", "run__work_order__definition", "run__thread__team"
        )


class RiskField(_SmallIntegerField):
    """The place of a question's risk among `RISKS`, written when the question is asked: what it is
    made of is not to be looked through, and may be sealed.
    """

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.PositiveSmallIntegerField", args, kwargs

    def pre_save(self, instance: models.Model, add: bool) -> Any:
        if add and isinstance(instance, Pause):  # not in a migration
            setattr(instance, self.attname, RISKS.index(instance.risk))
        return super().pre_save(instance, add)


class Pause(ids.HasShownId, models.Model):
    """A question of a run, open or closed; its votes and its decision are rows of `hitl`.

    Each revision of the answerable content is a row of its own, and none is dropped.
    """

    PREFIX = "pse"
    CARD = (
        "step", "phase", "kind", "question", "summary", "content", "facts", "effects",
        "content_digest",
        "revision", "max_revisions", "answers", "labels", "required_inputs", "known",
        "answers_without_input", "calls",
        "attempts", "refined", "outside",
    )  # fmt: skip
    """Columns that its card shows, or that say what may be answered. The evidence of a decision and
    the document of a thread hold them all, so a new one is in both.
    """

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    run = models.ForeignKey(Run, models.PROTECT, related_name="pauses")
    checkpoint = models.ForeignKey(
        Checkpoint,
        models.PROTECT,
        related_name="+",
        help_text="The state the question was asked in.",
    )
    step = models.CharField(max_length=100)
    phase = models.CharField(max_length=64)
    status = models.CharField(max_length=16, choices=PauseStatus, default=PauseStatus.OPEN)
    kind = models.CharField(max_length=16, choices=PauseKind, default=PauseKind.APPROVAL)
    question = SealedTextField(max_length=300)
    summary = SealedTextField(
        default="",
        db_default="",
        max_length=300,
        help_text="What a row says of it: the report's summary, or how its content begins.",
    )
    brief = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whether a row shows all that is decided: question, summary and facts.",
    )
    content = SealedTextField(help_text="Markdown; sanitised when shown.")
    patch_digest = models.CharField(
        max_length=64, blank=True, help_text="The blob that holds the patch under review."
    )
    facts = SealedJsonField(
        default=list, help_text="[label, value] pairs, in the order they are shown."
    )
    effects = SealedJsonField(default=list)
    content_digest = models.CharField(
        max_length=64,
        help_text=(
            "sha256 of content, patch, facts and what is asked for: what a decision is bound to."
        ),
    )
    revision = models.PositiveIntegerField(default=1)
    max_revisions = models.PositiveIntegerField(
        default=3, help_text="How often the step may be sent back."
    )
    required_inputs = JsonTextField(
        default=dict,
        help_text="JSON Schema of what comes with the answer; {} where words are enough.",
    )
    known = SealedJsonField(default=dict, help_text="What the form begins with.")
    answers_without_input = JsonTextField(
        db_column="bare",
        default=list,
        help_text="Answers that bring no data, beside revise and cancel.",
    )
    attempts = models.PositiveIntegerField(
        default=0, help_text="Answers that did not fit required_inputs."
    )
    refined = SealedTextField(
        blank=True, help_text="What was wrong with the last of them, in words."
    )
    calls = SealedJsonField(
        default=list,
        help_text="Tool calls that are decided one by one: `runs.workflows.tool_calls`.",
    )
    outside = SealedJsonField(
        default=dict,
        help_text=(
            "Who without an account is asked too, and what they see: "
            "`runs.workflows.external_reviewers`."
        ),
    )
    review = JsonTextField(
        default=dict,
        help_text=(
            "The step's rules on who answers, by when and how: `runs.workflows.reviews.rules`."
        ),
    )
    risk_rank = RiskField(
        null=True,
        editable=False,
        help_text="Its `risk` as a number, for lists; null where it closed before there was one.",
    )
    stage = models.PositiveSmallIntegerField(
        default=0, help_text="How many stages of the escalation have been reached."
    )
    turn = models.PositiveSmallIntegerField(
        default=0,
        help_text=(
            "The stages of the review that wait for approvals, as bits; 0 where it has none. What "
            "counts are the votes; this is written with them."
        ),
    )
    panel = models.ForeignKey(
        Panel,
        models.PROTECT,
        null=True,
        related_name="pauses",
        db_index=False,
        help_text="Who answers by these rules; null for the usual.",
    )
    approvals = models.PositiveSmallIntegerField(
        default=0, help_text="Votes for going on, where the rules ask for several."
    )
    claimed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+", db_index=False
    )
    claimed_until = models.DateTimeField(null=True, help_text="A claim past this time is none.")
    deadline_at = models.DateTimeField(
        null=True, help_text="When its rules answer it, where nobody has by then."
    )
    extendable_until = models.DateTimeField(
        null=True, help_text="How far people may move the deadline."
    )
    times = JsonTextField(
        default=dict,
        help_text=(
            "When those who may answer are reminded, and when further people are asked: "
            "`runs.definitions.due_times`."
        ),
    )
    reminded = models.PositiveSmallIntegerField(
        default=0, help_text="How many of the reminders have passed."
    )
    next_at = models.DateTimeField(null=True, help_text="When the sweep looks at it next.")
    # the column has the name that processes of the version before read
    answers = JsonTextField(db_column="ways", help_text="Answer → the step it leads to.")
    labels = JsonTextField(default=dict)
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    changed_at = models.DateTimeField(
        default=clock.now, help_text="When it came, went, or became another person's to answer."
    )
    told = models.PositiveSmallIntegerField(
        choices=NotificationStage,
        default=NotificationStage.NOTHING,
        help_text="What was planned to be told of it.",
    )

    objects = PauseQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run"], condition=Q(status=PauseStatus.OPEN), name="pause_one_open_per_run"
            ),
            models.CheckConstraint(
                condition=Q(status=PauseStatus.OPEN, closed_at__isnull=True)
                | (~Q(status=PauseStatus.OPEN) & Q(closed_at__isnull=False)),
                name="pause_closed_at_if_closed",
            ),
            models.CheckConstraint(condition=Q(revision__gte=1), name="pause_revision_from_one"),
            models.CheckConstraint(
                condition=Q(claimed_by__isnull=True, claimed_until__isnull=True)
                | Q(claimed_by__isnull=False, claimed_until__isnull=False),
                name="pause_claim_is_whole",
            ),
            models.CheckConstraint(
                condition=Q(deadline_at__isnull=True)
                | Q(extendable_until__isnull=False, deadline_at__lte=F("extendable_until")),
                name="pause_deadline_within_reach",
            ),
            models.CheckConstraint(
                condition=~Q(status=PauseStatus.EXPIRED)
                | Q(deadline_at__isnull=False, closed_at__gte=F("deadline_at")),
                name="pause_expired_not_early",
            ),
        ]
        indexes = [
            # what is new
            models.Index(
                fields=["-id"], condition=Q(status=PauseStatus.OPEN), name="pause_open_by_age"
            ),
            models.Index(  # the inbox: what is due soonest, then what has no deadline
                fields=["deadline_at", "id"],
                condition=Q(status=PauseStatus.OPEN),
                name="pause_open_by_deadline",
            ),
            models.Index(  # what the sweep for deadlines reads, and all that it reads
                fields=["next_at"],
                condition=Q(status=PauseStatus.OPEN, next_at__isnull=False),
                name="pause_open_by_next",
            ),
            # histories
            models.Index(
                fields=["-closed_at"],
                condition=Q(status=PauseStatus.EXPIRED),
                name="pause_expired_by_age",
            ),
            models.Index(fields=["run", "-id"], name="pause_by_run"),  # history of one run
            # the inbox, by name
            models.Index(
                fields=["panel", "-id"],
                condition=Q(status=PauseStatus.OPEN),
                name="pause_open_by_panel",
            ),
            # open inboxes, where a hint was lost
            models.Index(fields=["-changed_at"], name="pause_by_change"),
            # the relay: a handful, whatever the number of pauses
            models.Index(fields=["id"], condition=UNTOLD, name="pause_untold"),
        ]

    def __str__(self) -> str:
        return (
            self.shown_id if encryption.in_use() else invisible.plain(self.question)
        )  # what is encrypted at rest is in no heading and no log line

    @property
    def overdue(self) -> bool:
        """Whether its deadline has passed, and the sweep is yet to come."""
        return self.deadline_at is not None and self.deadline_at <= clock.now()

    @property
    def timing(self) -> dict[str, Any]:
        """Where it stands in time, as `runs.definitions.due_times` takes it."""
        return {
            "times": self.times,
            "reminded": self.reminded,
            "stage": self.stage,
            "deadline_at": self.deadline_at,
        }

    @property
    def may_revise(self) -> bool:
        return "revise" in self.answers and self.revision <= self.max_revisions

    @property
    def risk(self) -> str:
        """The highest of its rules' and its calls' risks: one of `calls.RISKS`."""
        return RISKS[
            max(
                RISKS.index(risk)
                for risk in (
                    self.review.get("risk", "normal"),
                    *(call["risk"] for call in self.calls),
                )
            )
        ]

    def wants_data(self, action: str) -> bool:
        """Whether data comes with this answer."""
        return bool(self.required_inputs) and action not in {
            sequence.REVISE,
            sequence.CANCEL,
            *self.answers_without_input,
        }
