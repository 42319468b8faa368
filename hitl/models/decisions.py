"""People's answers.

The questions (`Pause`) are opened by the engine and live in `runs.models`: who writes a row owns
its table.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from checkpoints import ids
from checkpoints.database.people import User
from checkpoints.models import JsonTextField, SealedJsonField
from checkpoints.models.fields import SealedTextField
from checkpoints.state import codec
from hitl.models.ledgers import Erasure, Ledger, utc
from runs.models import Pause
from runs.workflows.wait_for_input import ANSWER


class Via(models.TextChoices):
    """The door an answer came through."""

    PAGE = "page", gettext_lazy("Page")
    REST = "rest", gettext_lazy("Rest")
    ADMIN = "admin", gettext_lazy("Admin")
    COMMAND = "command", gettext_lazy("Command")
    SOCKET = "socket", gettext_lazy("Socket")
    LINK = "link", gettext_lazy("Link")
    WEBHOOK = "webhook", gettext_lazy("Webhook")
    MAIL = "mail", gettext_lazy("Mail")
    SLACK = "slack", gettext_lazy("Slack")
    TEAMS = "teams", gettext_lazy("Teams")
    TELEGRAM = "telegram", gettext_lazy("Telegram")
    MCP = "mcp", gettext_lazy("Mcp")
    LANGGRAPH = "langgraph", gettext_lazy("LangGraph")
    POLICY = "policy", gettext_lazy("Policy")
    """Nobody: the template's rules, at the deadline."""
    WORKFLOW = "workflow", gettext_lazy("Workflow")
    """Nobody: the step passed its review, as its template allows."""


NOBODYS = (Via.POLICY, Via.WORKFLOW)
"""Doors of answers that are no person's."""


LONGEST_NAME = 301
"""First name, a space, last name."""
NOBODY = gettext_noop("the template's rules")
WORKFLOW = gettext_noop("the workflow")
"""Who decided where nobody did."""
SOMEBODY = gettext_noop("somebody without an account")
"""Who decided from outside, where an erasure took the address."""


def decider(name: str) -> str:
    """Who decided, in the reader's language."""
    return gettext(name) if name in {NOBODY, WORKFLOW, SOMEBODY} else name


def for_another(name: str, other: str | None) -> str:
    """The same, with the one on whose behalf it was: `Ana for Ben`."""
    name = decider(name)
    return gettext("%(name)s for %(other)s") % {"name": name, "other": other} if other else name


class DecisionQuerySet(models.QuerySet["Decision"]):
    def answer_to(self, pause: Pause) -> Decision | None:
        """What a question was answered with, also where that was taken back; None where nobody has
        answered.
        """
        return (
            self.select_related("decided_by", "on_behalf_of")
            .filter(pause=pause, undoes=None)
            .first()
        )


UNDO = "undo"
"""The action of a decision that takes another one back."""
STEP_AROUND = "step_around"
"""The action of a decision that a run begins behind a review: see
`hitl.decisions.review_bypass`.
"""


class Decision(ids.HasShownId, models.Model):
    """An answer to a pause: the only one; or that it was taken back.

    Append-only, and chained: each row's digest covers the row before it.

    Where its thread was erased, its words and its pause are gone; place, person and digests stay,
    so that the chain holds.
    """

    PREFIX = "dec"
    ERASED: ClassVar[dict[str, Any]] = {
        **{"pause": None, "feedback": "", "payload": None, "edited_content": "", "external": ""},
        **{"by_name": "", "for_name": ""},
    }
    """What an erasure leaves of the columns that may say something; the database lets no other
    column change (`hitl.ledger.triggers`).
    """

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    pause = models.ForeignKey(Pause, models.PROTECT, null=True, related_name="decisions")
    erasure = models.ForeignKey(
        Erasure, models.PROTECT, null=True, editable=False, related_name="+"
    )
    action = models.CharField(
        max_length=64, help_text="approve, revise, cancel, or an answer of the template's own."
    )
    feedback = SealedTextField(blank=True)
    payload = SealedJsonField(null=True, help_text="The data that came along; null where none did.")
    edited_content = SealedTextField(
        blank=True, help_text="The content as it was approved, where that is not as it was shown."
    )
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        related_name="decisions",
        help_text="Nobody where the rules answered.",
    )
    external = SealedTextField(
        blank=True,
        help_text="The mail address of who answered by the link sent there, without an account.",
    )
    by_name = models.CharField(
        max_length=LONGEST_NAME, blank=True, help_text="The name of who decided, at that time."
    )
    on_behalf_of = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        related_name="+",
        help_text="For whom it was given, by a delegation.",
    )
    for_name = models.CharField(
        max_length=LONGEST_NAME, blank=True, help_text="The name of that one, at that time."
    )
    early_at = models.DateTimeField(
        null=True,
        help_text=(
            "When the answer came, where that was before its question: nobody had been shown "
            "anything."
        ),
    )
    data_only = models.BooleanField(
        default=False,
        help_text=(
            "From an address that the rules do not name: it brought data, and approves nothing."
        ),
    )
    factor = models.CharField(
        max_length=16,
        blank=True,
        default="",
        db_default="",
        help_text="The second factor that was proven, where the question wanted one.",
    )
    factor_at = models.DateTimeField(null=True, help_text="When it was.")
    votes = JsonTextField(
        default=list,
        help_text="Digests of the votes that were given at this question, in their order.",
    )
    decided_at = models.DateTimeField()
    via = models.CharField(max_length=16, choices=Via)
    revision = models.PositiveIntegerField(help_text="The revision that was answered.")
    content_digest = models.CharField(
        max_length=64, help_text="What was reviewed, as the pause recorded it."
    )
    evidence = models.CharField(
        max_length=64,
        blank=True,
        help_text="The blob that holds what the reviewer was shown: `hitl.ledger.evidence`.",
    )
    goes_on_at = models.DateTimeField(
        null=True,
        help_text="When the run goes on, where the answer could be taken back until then.",
    )
    undoes = models.OneToOneField(
        "self",
        models.PROTECT,
        null=True,
        related_name="undone_by",
        help_text="The answer this takes back.",
    )
    ledger = models.ForeignKey(Ledger, models.PROTECT, related_name="decisions")
    position = models.PositiveBigIntegerField(help_text="From 1, without a gap.")
    previous = models.CharField(max_length=64, blank=True)
    digest = models.CharField(max_length=64)

    objects = DecisionQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["pause"], condition=Q(undoes__isnull=True), name="decision_one_per_pause"
            ),
            models.CheckConstraint(
                condition=Q(undoes__isnull=True) | Q(action=UNDO), name="decision_undoes_by_undo"
            ),
            models.CheckConstraint(
                condition=Q(pause__isnull=False, erasure__isnull=True)
                | Q(
                    pause__isnull=True,
                    erasure__isnull=False,
                    feedback="",
                    payload__isnull=True,
                    edited_content="",
                    external="",
                    by_name="",
                    for_name="",
                ),
                name="decision_says_nothing_if_erased",
            ),
            models.UniqueConstraint(fields=["ledger", "position"], name="decision_position_once"),
            # an account, or an address outside, or the rules; an erasure takes the address
            models.CheckConstraint(
                condition=(Q(decided_by__isnull=False, external="") & ~Q(via__in=NOBODYS))
                | Q(via__in=NOBODYS, decided_by__isnull=True, external="")
                | (
                    Q(via=Via.LINK, decided_by__isnull=True)
                    & (~Q(external="") | Q(erasure__isnull=False))
                ),
                name="decision_by_one_only",
            ),
            # data of an address that the rules do not name: never an approval, never of several
            models.CheckConstraint(
                condition=Q(data_only=False)
                | Q(data_only=True, via=Via.LINK, decided_by__isnull=True, action=ANSWER),
                name="decision_data_only_approves_nothing",
            ),
            models.CheckConstraint(
                condition=Q(factor="", factor_at__isnull=True)
                | (~Q(factor="") & Q(factor_at__isnull=False, decided_by__isnull=False)),
                name="decision_factor_has_its_time",
            ),
        ]
        indexes = [
            # a person's history
            models.Index(fields=["decided_by", "-id"], name="decision_by_person"),
            # the history of many threads, a page at a time
            models.Index(fields=["-decided_at", "-id"], name="decision_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.action}: {self.decided_by or self.name}"

    @property
    def name(self) -> str:
        """The name of who decided, at that time."""
        if self.decided_by is not None:
            return self.by_name or name_of(self.decided_by)
        nobody = {Via.POLICY.value: NOBODY, Via.WORKFLOW.value: WORKFLOW}
        return nobody.get(self.via) or self.external or SOMEBODY

    @property
    def who(self) -> str:
        """The same, with the one on whose behalf it was."""
        other = self.on_behalf_of
        return for_another(self.name, (self.for_name or name_of(other)) if other else None)

    @property
    def renamed(self) -> str:
        """What the account of who decided is called today, where that is another name than it had
        then.
        """
        now = name_of(self.decided_by) if self.decided_by is not None else ""
        return now if self.by_name and now != self.by_name else ""

    def signed(self) -> dict[str, Any]:
        """What the digest is over.

        What came to the product later is there only where the row has it: older rows keep their
        digest.
        """
        later = {
            "external": self.external or None,
            "payload": self.payload,
            "edited_content": self.edited_content or None,
            "on_behalf_of": self.on_behalf_of_id,
            "votes": self.votes or None,
            "evidence": self.evidence or None,
            "goes_on_at": utc(self.goes_on_at) if self.goes_on_at else None,
            "undoes": self.undoes_id.hex if self.undoes_id else None,
            "by_name": self.by_name or None,
            "for_name": self.for_name or None,
            "early_at": utc(self.early_at) if self.early_at else None,
            "data_only": self.data_only or None,
            "factor": self.factor or None,
            "factor_at": utc(self.factor_at) if self.factor_at else None,
        }
        return {
            "pause": self.pause_id.hex if self.pause_id else None,
            "action": self.action,
            "feedback": self.feedback,
            "decided_by": self.decided_by_id,
            "decided_at": utc(self.decided_at),
            "via": self.via,
            "revision": self.revision,
            "content_digest": self.content_digest,
            "ledger": self.ledger_id,
            "position": self.position,
            "previous": self.previous,
            **{name: value for name, value in later.items() if value is not None},
        }

    def compute_digest(self) -> str:
        """The digest that this row must carry; one of an erased thread cannot be computed any more
        (see `intact`).
        """
        return codec.digest(codec.encode(self.signed()))

    @property
    def intact(self) -> bool:
        """Whether the row is as it was written; of an erased one, whether its erasure vouches for
        its digest.
        """
        if self.erasure is None:
            return self.digest == self.compute_digest()
        return (
            self.digest in self.erasure.decisions
            and self.erasure.digest == self.erasure.compute_digest()
        )


def name_of(user: AbstractBaseUser) -> str:
    """What an account is called today, for people."""
    return (user.get_full_name() if isinstance(user, User) else "") or user.get_username()
