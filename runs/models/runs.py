"""The machine's rows: templates, what somebody asked for, the attempts at it, and the
questions they opened; messages that wait (`queued_messages`), and hosts whose clock is off
(`clocks`).

The engine opens pauses, so Pause lives here; people's answers live in `hitl.models`.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import F, Q

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.models import Checkpoint, JsonTextField, SealedJsonField, Thread
from checkpoints.models.fields import MadeAtField, SealedTextField
from checkpoints.state import encryption
from checkpoints.text import invisible
from runs import states
from runs.models.frequency import Frequency
from runs.models.templates import (
    Definition,
    Repository,
    Template,
)
from runs.states import NotificationStage, PauseKind, PauseStatus, RunStatus
from runs.workflows import sequence
from runs.workflows.tool_calls import RISKS

Person = AbstractBaseUser | AnonymousUser


class WorkOrderQuerySet(models.QuerySet["WorkOrder"]):
    def visible_to(self, user: Person) -> WorkOrderQuerySet:
        return self.filter(thread__in=Thread.objects.visible_to(user))

    def shown(self) -> WorkOrderQuerySet:
        """With all that lists and pages show, in one query."""
        related = self.select_related(
            "thread__head", "thread__team", "latest_run", "definition", "created_by"
        )
        return related.defer("thread__head__body").annotate(
            asked=models.Subquery(Pause.objects.oldest_of(models.OuterRef("pk")))
        )

    def shown_to(self, user: Person) -> WorkOrderQuerySet:
        """As `shown`, with `asked_again_as`: the key of the order that asks for it again, where
        this person may see that one.
        """
        successor = (
            WorkOrder.objects.visible_to(user).filter(again_of=models.OuterRef("pk")).values("pk")
        )
        return self.shown().annotate(asked_again_as=models.Subquery(successor))


class WorkOrder(ids.HasShownId, models.Model):
    """What somebody asked for. Its status and phase are derived from its latest run."""

    PREFIX = "wo"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    thread = models.OneToOneField(Thread, models.PROTECT, related_name="work_order")
    template = models.ForeignKey(Template, models.PROTECT, related_name="work_orders")
    definition = models.ForeignKey(Definition, models.PROTECT, related_name="work_orders")
    title = models.CharField(max_length=200)
    request = SealedTextField(blank=True)
    input = SealedJsonField(default=dict)
    repository = models.ForeignKey(
        Repository, models.PROTECT, null=True, blank=True, related_name="work_orders"
    )
    repository_url = models.CharField(max_length=500, blank=True)
    check_command = JsonTextField(
        default=list, help_text="The repository's own check, frozen with the order."
    )
    author = models.CharField(max_length=200)
    delivery = JsonTextField(
        default=dict,
        help_text="What may leave with its work: the repository's settings, frozen with the order.",
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="work_orders"
    )
    latest_run = models.ForeignKey(
        "Run", models.PROTECT, null=True, editable=False, related_name="+"
    )
    again_of = models.ForeignKey(
        "self",
        models.PROTECT,
        null=True,
        editable=False,
        related_name="+",
        db_index=False,  # the constraint below has one
        help_text="The earlier order that this one asks for again.",
    )
    created_at = MadeAtField()

    objects = WorkOrderQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["again_of"], name="work_order_asked_again_once")
        ]
        indexes = [models.Index(fields=["created_by", "-id"], name="work_order_by_creator")]

    def __str__(self) -> str:
        return invisible.plain(self.title)

    @property
    def branch(self) -> str:
        return f"waystation/{self.shown_id}"

    @property
    def status(self) -> str:
        """`pending running paused completed failed`: cancelled and expired show as failed, with
        `failure_code` telling which.

        A run that waits for its child runs is running, unless one of them waits for a person.
        """
        status = self.latest_run.status if self.latest_run else RunStatus.PENDING
        if self.gathering:
            return "paused" if self.waiting_phase else "running"
        return "failed" if status in {RunStatus.CANCELLED, RunStatus.EXPIRED} else str(status)

    @property
    def gathering(self) -> bool:
        """Whether its run waits for child runs."""
        return self.latest_run is not None and self.latest_run.awaited > 0

    @property
    def sleeping_until(self) -> dt.datetime | None:
        """When the timer ends that its run waits for; None where it waits for none."""
        run, head = self.latest_run, self.thread.head
        return _sleeping_until(run, head) if run is not None and head is not None else None

    @property
    def waiting_phase(self) -> str:
        """The phase of the oldest open question among its child runs; "" where none of them
        asks.
        """
        asked = getattr(self, "asked", None)
        if not hasattr(self, "asked"):
            asked = Pause.objects.oldest_of(self.pk).first()
        return asked or ""

    @property
    def current_step(self) -> str:
        """The step that runs, waits to run, or was the last to run."""
        head = self.thread.head
        if head is None:
            return ""
        return (
            head.node_id
            if self.status == "paused" or self.gathering
            else head.next_step or head.node_id
        )

    @property
    def phase(self) -> str:
        if self.status == "completed":
            return "completed"
        if self.gathering and self.waiting_phase:
            return self.waiting_phase
        if self.sleeping_until is not None:
            return SLEEPING
        if self.status == "paused" and self.thread.head is not None:
            return str(self.thread.head.metadata.get("blocking_reason", ""))
        steps = self.definition.steps
        step = sequence.named(steps, self.current_step) if self.current_step else steps[0]
        return sequence.phase_of(step["step_type"])

    @property
    def outputs(self) -> dict[str, Any]:
        """What the work has brought so far: `git_commit_count`, `github_pull_request_url`."""
        outputs: dict[str, Any] = (
            self.thread.head.metadata.get("outputs", {}) if self.thread.head else {}
        )
        return outputs

    @property
    def pull_request_url(self) -> str:
        """Where people see its pull request; "" where there is none, or what a step wrote there is
        no link for a browser.
        """
        url = str(self.outputs.get("github_pull_request_url", ""))
        return url if url.startswith(("https://", "http://")) else ""


SLEEPING = "sleeping"
"""The phase of an order whose run waits for a timer."""


def _sleeping_until(run: Run, head: Checkpoint) -> dt.datetime | None:
    """When a pending run's timer ends; `head` is the checkpoint that it goes on from.

    The row says when the run is due, and the checkpoint that this is a timer of its own step, not
    the pause before another try.
    """
    sleeps = run.status == RunStatus.PENDING and head.run_id == run.pk
    if sleeps and "sleep_until" in head.metadata and run.due_at > clock.now():
        return run.due_at
    return None


class RunQuerySet(models.QuerySet["Run"]):
    def move(self, sources: Collection[RunStatus], target: RunStatus, **fields: Any) -> int:
        """Move the runs of this query that are in `sources`; return how many moved.

        One UPDATE: of two workers one gets 0.
        """
        assert all(target in states.MOVES[source] for source in sources), (sources, target)
        return self.filter(status__in=sources).update(status=target, **fields)

    def held(self, run_id: uuid.UUID, epoch: int) -> RunQuerySet:
        """The run while the claim of that epoch still holds."""
        return self.filter(pk=run_id, status=RunStatus.RUNNING, epoch=epoch)

    def lost(self, *, now: dt.datetime) -> RunQuerySet:
        """Runs whose worker has stopped renewing its lease."""
        return self.filter(status=RunStatus.RUNNING, lease_until__lt=now)

    def shown(self) -> RunQuerySet:
        """With all that the API shows of a run, in one query."""
        related = (
            "thread__head",
            "thread__team",
            "thread__work_order",
            "definition",
            "work_order",
            "parent",
            "retry_of",
            "forked_from",
        )
        return self.select_related(*related).defer("thread__head__body", "forked_from__body")

    def live(self) -> RunQuerySet:
        return self.filter(status__in=sorted(states.LIVE))

    def visible_to(self, user: Person) -> RunQuerySet:
        return self.filter(thread__in=Thread.objects.visible_to(user))

    def overdue(self, *, before: dt.datetime) -> RunQuerySet:
        """Runs that should have been picked up before then: their message was lost."""
        return self.filter(status=RunStatus.PENDING, due_at__lt=before)


class Run(ids.HasShownId, models.Model):
    """One attempt to carry a thread from its latest checkpoint to an end."""

    PREFIX = "run"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="runs")
    work_order = models.ForeignKey(WorkOrder, models.PROTECT, null=True, related_name="runs")
    definition = models.ForeignKey(Definition, models.PROTECT, related_name="runs")
    status = models.CharField(max_length=16, choices=RunStatus, default=RunStatus.PENDING)
    retry_of = models.ForeignKey("self", models.PROTECT, null=True, related_name="retries")
    input = SealedJsonField(
        default=dict,
        help_text="What was given to this run; it joined the state by the workflow's reducers.",
    )
    parent = models.ForeignKey(
        "self",
        models.PROTECT,
        null=True,
        related_name="children",
        help_text="The run that waits for this one.",
    )
    child_name = models.CharField(max_length=100, blank=True, help_text="What its parent calls it.")
    optional = models.BooleanField(
        default=False, help_text="Its parent goes on without it where it fails."
    )
    depth = models.PositiveSmallIntegerField(default=0, help_text="How many parents are above it.")
    awaited = models.PositiveIntegerField(
        default=0,
        help_text="Child runs that it waits for; 0 where it waits for a person or not at all.",
    )
    queue = models.CharField(
        max_length=40,
        default=sequence.DEFAULT_QUEUE,
        help_text="Which workers take the step it is at.",
    )
    epoch = models.PositiveIntegerField(
        default=0, help_text="Counts claims; every write of a worker names the epoch of its own."
    )
    lease_owner = models.CharField(max_length=120, blank=True)
    lease_until = models.DateTimeField(null=True)
    lost_attempts = models.PositiveIntegerField(
        default=0, help_text="Workers lost in a row without a step done."
    )
    due_at = models.DateTimeField(help_text="While pending: when it may be picked up.")
    attempts = models.PositiveIntegerField(
        default=0, help_text="How often the step it is at has failed and is tried again."
    )
    untraced_steps = models.PositiveIntegerField(
        default=0,
        help_text=(
            "Steps told as done without a checkpoint of their own, as the template's frequency "
            "has it."
        ),
    )
    suspend_by = models.CharField(
        max_length=150, blank=True, help_text="Who wants it to stop at the next step boundary."
    )
    held_because = models.TextField(
        blank=True,
        default="",
        help_text=(
            "Why it waits though it is due: code of its next step is missing, or changed and "
            "held for an operator."
        ),
    )
    code_seen = JsonTextField(
        default=dict,
        help_text=(
            "Step → fingerprint of changed code that was said to run, or that an operator accepted."
        ),
    )
    interrupt_before = JsonTextField(default=list, help_text="Steps before which this run asks.")
    interrupt_after = JsonTextField(default=list, help_text="Steps after which this run asks.")
    forked_from = models.ForeignKey(
        Checkpoint, models.PROTECT, null=True, related_name="+", help_text="Where a fork began."
    )
    reason = SealedTextField(blank=True, help_text="Why it was forked.")
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        related_name="+",
        db_index=False,
        help_text="Who asked for it; a retry asks for nothing new.",
    )
    error = SealedTextField(blank=True)
    failure_code = models.CharField(
        max_length=64,
        blank=True,
        help_text="cancelled_by_user, expired, step_error, incident, or the step's own.",
    )
    created_at = MadeAtField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    imported_at = models.DateTimeField(
        null=True,
        editable=False,
        help_text="When it came with a document: no run of this server did it.",
    )

    objects = RunQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(imported_at__isnull=True) | Q(status__in=sorted(states.ENDED)),
                name="run_imported_has_ended",
            ),
            models.UniqueConstraint(
                fields=["thread"],
                condition=Q(status__in=sorted(states.LIVE)),
                name="run_one_live_per_thread",
            ),
            models.CheckConstraint(
                condition=Q(status=RunStatus.RUNNING) | Q(lease_until__isnull=True, lease_owner=""),
                name="run_lease_only_while_running",
            ),
            models.CheckConstraint(
                condition=Q(status__in=sorted(states.LIVE), ended_at__isnull=True)
                | Q(status__in=sorted(states.ENDED), ended_at__isnull=False),
                name="run_ended_at_if_ended",
            ),
            models.CheckConstraint(
                condition=Q(error="")
                | Q(status__in=[RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.EXPIRED]),
                name="run_error_only_if_unsuccessful",
            ),
            models.CheckConstraint(
                condition=Q(awaited=0) | Q(status=RunStatus.PAUSED),
                name="run_awaits_only_while_paused",
            ),
            models.CheckConstraint(
                condition=Q(parent__isnull=True, depth=0, child_name="")
                | (Q(parent__isnull=False, depth__gt=0) & ~Q(child_name="")),
                name="run_child_has_parent",
            ),
        ]
        indexes = [
            # sweep: lost messages
            models.Index(
                fields=["due_at"], condition=Q(status=RunStatus.PENDING), name="run_pending_by_due"
            ),
            # sweep: lost workers
            models.Index(
                fields=["lease_until"],
                condition=Q(status=RunStatus.RUNNING),
                name="run_running_by_lease",
            ),
            # a thread's attempts, newest first
            models.Index(fields=["thread", "-id"], name="run_by_thread"),
            models.Index(
                fields=["parent", "id"], condition=Q(parent__isnull=False), name="run_by_parent"
            ),  # join, cancel, the order's page
        ]
        permissions = [("step_around_review", "Can bypass a review")]

    def __str__(self) -> str:
        return self.shown_id

    @property
    def frozen(self) -> Definition:
        """Its definition, without a query where this process has seen it before."""
        return Definition.known(self.definition_id)

    @property
    def sleeping_until(self) -> dt.datetime | None:
        """When the timer ends that it waits for; None where it waits for none."""
        head = self.thread.head
        return _sleeping_until(self, head) if head is not None else None

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether it leaves behind what another run could go on from."""
        return self.frozen.frequency != Frequency.OFF

    @property
    def may_be_taken_up(self) -> bool:
        """Whether another run may go on where it stopped without completing."""
        return self.status in states.RETRIED and self.keeps_checkpoints


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
        """Write what people see of a question, or whom it waits for, and when that was: every
        writer but that of a new row uses this.
        """
        return self.update(**fields, changed_at=clock.now())

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

    def oldest_of(self, order: Any) -> models.QuerySet[Pause, str]:
        """The phase of the order's oldest open question, its child runs' among them."""
        return (
            self.open()
            .filter(run__work_order=order)
            .order_by("id")
            .values_list("phase", flat=True)[:1]
        )

    def visible_to(self, user: Person) -> PauseQuerySet:
        return self.filter(run__thread__in=Thread.objects.visible_to(user))

    def naming(self, username: str, groups: Any) -> PauseQuerySet:
        """The questions whose rules name a person or one of these groups, with the stages that were
        reached. May give one twice.
        """
        named = Q(panel__members__username=username) | Q(panel__members__group__in=groups)
        return self.filter(named, panel__members__stage__lte=models.F("stage"))

    def due(self, *, now: dt.datetime) -> PauseQuerySet:
        """Open questions whose rules act by now, those that have waited longest first."""
        return self.open().filter(next_at__lte=now).order_by("next_at", "pk")

    def answerable(self) -> PauseQuerySet:
        """With all that an answer needs, in one query."""
        return self.select_related("run__thread", "run__work_order", "run__parent", "checkpoint")

    def shown(self) -> PauseQuerySet:
        return self.select_related(
            "run__work_order__created_by", "run__work_order__definition", "run__thread__team"
        )


class Pause(ids.HasShownId, models.Model):
    """A question of a run, open or closed; its votes and its decision are rows of `hitl`.

    Each revision of the answerable content is a row of its own, and none is dropped.
    """

    PREFIX = "pse"

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
    bare = JsonTextField(
        default=list, help_text="Answers that bring no data, beside revise and cancel."
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
    stage = models.PositiveSmallIntegerField(
        default=0, help_text="How many stages of the escalation have been reached."
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
    ways = JsonTextField(help_text="Answer → the step it leads to.")
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
        return {name: getattr(self, name) for name in ("times", "reminded", "stage", "deadline_at")}

    @property
    def may_revise(self) -> bool:
        return "revise" in self.ways and self.revision <= self.max_revisions

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
            *self.bare,
        }
