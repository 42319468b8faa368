"""People's answers, and the keys that let programs speak for people.

The questions (`Pause`) are opened by the engine and live in `runs.models`: who writes a row owns
its table.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import models
from django.db.models import F, Q

from checkpoints import ids
from checkpoints.database.people import User
from checkpoints.models import JsonTextField, SealedJsonField, Thread
from checkpoints.models.fields import MadeAtField, SealedTextField, SecretBinaryField
from checkpoints.state import codec
from runs.models import Pause
from runs.security.scopes import Scope as TokenScope
from runs.workflows.wait_for_input import ANSWER


class Ledger(models.Model):
    """One chain of decisions: a team's, or a person's where no team is named.

    Its row is the chain's lock and tip.
    """

    name = models.CharField(max_length=80, primary_key=True)
    length = models.PositiveBigIntegerField(default=0)
    tip = models.CharField(max_length=64, blank=True, help_text="Digest of the newest decision.")

    def __str__(self) -> str:
        return self.name


class Via(models.TextChoices):
    """The door an answer came through."""

    PAGE = "page"
    REST = "rest"
    ADMIN = "admin"
    COMMAND = "command"
    SOCKET = "socket"
    LINK = "link"
    WEBHOOK = "webhook"
    POLICY = "policy"
    """Nobody: the template's rules, at the deadline."""


LONGEST_NAME = 301
"""First name, a space, last name."""
NOBODY = "the template's rules"
"""Who decided where nobody did."""
SOMEBODY = "somebody without an account"
"""Who decided from outside, where an erasure took the address."""


class Erasure(ids.HasShownId, models.Model):
    """That a thread was erased: when, by whom and why; and the decisions that lost what they said
    with it. Append-only.
    """

    PREFIX = "era"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    thread_id = models.UUIDField(help_text="Of a thread that is not there any more.")
    erased_by = models.CharField(max_length=150)
    reason = models.TextField()
    erased_at = models.DateTimeField()
    counts = JsonTextField(help_text="Kind → rows that went.")
    decisions = JsonTextField(
        help_text="Digests of the decisions whose words went: they vouch for the chain from now on."
    )
    digest = models.CharField(max_length=64)

    def __str__(self) -> str:
        return self.shown_id

    def compute_digest(self) -> str:
        """The digest that this row must carry."""
        told = {
            name: getattr(self, name) for name in ("erased_by", "reason", "counts", "decisions")
        }
        return codec.digest(
            codec.encode({**told, "thread": self.thread_id.hex, "erased_at": _utc(self.erased_at)})
        )


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
                condition=(Q(decided_by__isnull=False, external="") & ~Q(via=Via.POLICY))
                | Q(via=Via.POLICY, decided_by__isnull=True, external="")
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
        ]
        indexes = [
            # a person's history
            models.Index(fields=["decided_by", "-id"], name="decision_by_person"),
            # the history of many threads, a page at a time
            models.Index(fields=["-decided_at", "-id"], name="decision_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.action} by {self.decided_by or self.name}"

    @property
    def name(self) -> str:
        """The name of who decided, at that time."""
        if self.decided_by is not None:
            return self.by_name or name_of(self.decided_by)
        return NOBODY if self.via == Via.POLICY else self.external or SOMEBODY

    @property
    def who(self) -> str:
        """The same, with the one on whose behalf it was."""
        other = self.on_behalf_of
        return f"{self.name} for {self.for_name or name_of(other)}" if other else self.name

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
            "goes_on_at": _utc(self.goes_on_at) if self.goes_on_at else None,
            "undoes": self.undoes_id.hex if self.undoes_id else None,
            "by_name": self.by_name or None,
            "for_name": self.for_name or None,
            "early_at": _utc(self.early_at) if self.early_at else None,
            "data_only": self.data_only or None,
        }
        return {
            "pause": self.pause_id.hex if self.pause_id else None,
            "action": self.action,
            "feedback": self.feedback,
            "decided_by": self.decided_by_id,
            "decided_at": _utc(self.decided_at),
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


class Vote(ids.HasShownId, models.Model):
    """One person's approval where the rules ask for several.

    Append-only; the decision that closes the question names its digest.

    A refusal or a wish for a revision decides alone and is no vote.
    """

    PREFIX = "vote"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    # the constraints below have one
    pause = models.ForeignKey(Pause, models.PROTECT, related_name="votes", db_index=False)
    action = models.CharField(max_length=64)
    feedback = SealedTextField(blank=True)
    payload = SealedJsonField(null=True)
    edited_content = SealedTextField(blank=True)
    voter = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        related_name="+",
        help_text="Null where external.",
    )
    seat = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        related_name="+",
        help_text="Whose vote it is: the voter's own, or by a delegation.",
    )
    external = SealedTextField(blank=True, help_text="As the decision's.")
    external_key = models.CharField(  # noqa: DJ001  # unique
        max_length=40,
        null=True,
        help_text="Tells addresses apart: `hitl.decisions.external_reviewer`.",
    )
    by_name = models.CharField(
        max_length=LONGEST_NAME, blank=True, help_text="As the decision's, like the next two."
    )
    for_name = models.CharField(max_length=LONGEST_NAME, blank=True)
    early_at = models.DateTimeField(null=True)
    voted_at = models.DateTimeField()
    via = models.CharField(max_length=16, choices=Via)
    content_digest = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pause", "voter"], name="vote_one_per_person"),
            models.UniqueConstraint(fields=["pause", "seat"], name="vote_one_per_seat"),
            models.UniqueConstraint(fields=["pause", "external_key"], name="vote_one_per_address"),
            models.CheckConstraint(
                condition=Q(
                    voter__isnull=False, seat__isnull=False, external="", external_key__isnull=True
                )
                | (
                    Q(
                        voter__isnull=True,
                        seat__isnull=True,
                        via=Via.LINK,
                        external_key__isnull=False,
                    )
                    & ~Q(external="")
                ),
                name="vote_by_one_only",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} by {self.voter or self.external}"

    @property
    def name(self) -> str:
        """The name of who voted, at that time."""
        return self.by_name or name_of(self.voter) if self.voter else self.external

    @property
    def who(self) -> str:
        """The same, with the one on whose behalf it was."""
        other = self.seat if self.seat_id != self.voter_id else None
        return f"{self.name} for {self.for_name or name_of(other)}" if other else self.name

    def compute_digest(self) -> str:
        """The digest that this row must carry.

        What came to the product later is in it only where the row has it.
        """
        told = (
            "action",
            "feedback",
            "payload",
            "edited_content",
            "voter_id",
            "seat_id",
            "via",
            "content_digest",
        )
        facts = {name: getattr(self, name) for name in told}
        facts |= {
            name: value
            for name in ("external", "by_name", "for_name")
            if (value := getattr(self, name))
        }
        facts |= {"early_at": _utc(self.early_at)} if self.early_at else {}
        return codec.digest(
            codec.encode(
                {
                    **facts,
                    "pause": self.pause_id.hex,
                    "voted_at": self.voted_at.astimezone(dt.UTC).isoformat(),
                }
            )
        )


class DelegationQuerySet(models.QuerySet["Delegation"]):
    def active(self, *, now: dt.datetime) -> DelegationQuerySet:
        """Those that hold at that time; of somebody whose account is closed none does."""
        return self.filter(starts_at__lte=now, ends_at__gt=now, from_user__is_active=True)


class Delegation(models.Model):
    """That somebody answers for somebody else for a time.

    Looked up when a question is answered, so no job has to begin or end it.

    One level: what was delegated to a person is not delegated on.
    """

    from_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="delegations_given"
    )
    to_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="delegations_taken", db_index=False
    )  # the index below
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(help_text="Ended earlier, it ends then.")
    reason = models.CharField(max_length=200, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    created_at = MadeAtField()

    objects = DelegationQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=~Q(from_user=F("to_user")), name="delegation_to_another"
            ),
            models.CheckConstraint(
                condition=Q(ends_at__gte=F("starts_at")), name="delegation_ends_after_start"
            ),
        ]
        # who somebody stands in for, on every page
        indexes = [models.Index(fields=["to_user", "ends_at"], name="delegation_by_delegate")]

    def __str__(self) -> str:
        return f"{self.to_user} for {self.from_user}"


class Snooze(models.Model):
    """A person wants a question out of the own inbox until then. It moves no deadline."""

    # the constraint below has one
    pause = models.ForeignKey(Pause, models.CASCADE, related_name="snoozes", db_index=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    until = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pause", "person"], name="snooze_one_per_person")
        ]

    def __str__(self) -> str:
        return f"until {self.until:%Y-%m-%d %H:%M}"


class Anchor(models.Model):
    """How far a ledger had come on a day: a line to be kept elsewhere, and held against the ledger
    later. Append-only, and chained.
    """

    # the constraint below has one
    ledger = models.ForeignKey(Ledger, models.PROTECT, related_name="anchors", db_index=False)
    day = models.DateField(help_text="In UTC.")
    position = models.PositiveBigIntegerField()
    tip = models.CharField(max_length=64, help_text="Digest of the decision at that position.")
    previous = models.CharField(
        max_length=64, blank=True, help_text="Digest of the ledger's anchor before."
    )
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["ledger", "day"], name="anchor_once_a_day")]

    def __str__(self) -> str:
        """The line to keep."""
        return f"{self.day} {self.ledger_id} {self.position} {self.tip} {self.digest}"

    def compute_digest(self) -> str:
        """The digest that this row must carry."""
        told = {name: getattr(self, name) for name in ("position", "tip", "previous")}
        return codec.digest(
            codec.encode({**told, "ledger": self.ledger_id, "day": self.day.isoformat()})
        )


class Import(models.Model):
    """That a thread came from elsewhere, by whom, and what its document says of the people there.

    Their answers are history: no rows of Pause and Decision, since the chain that they are part of
    is another server's.
    """

    thread = models.OneToOneField(Thread, models.PROTECT, primary_key=True, related_name="imported")
    imported_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    at = models.DateTimeField(
        help_text=(
            "Checkpoints and events of the thread that are not younger came with the document."
        )
    )
    within = models.ForeignKey(
        Thread,
        models.PROTECT,
        null=True,
        related_name="brought",
        help_text="The thread whose document brought it: it is of a child run.",
    )
    source = SealedJsonField(
        help_text=(
            "thread, exported_at and digest as the document has them; runs, pauses and "
            "decisions with new ids."
        )
    )

    def __str__(self) -> str:
        return self.thread.shown_id


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def valid(self, *, now: dt.datetime) -> ApiTokenQuerySet:
        return self.filter(
            Q(expires_at__isnull=True) | Q(expires_at__gt=now),
            revoked_at__isnull=True,
            user__is_active=True,
        )

    def expired(self, *, now: dt.datetime, secret: str) -> bool:
        """Whether this was a token until its time was over; of one that was revoked, or whose
        account is closed, that is not told.
        """
        mine = self.filter(digest=ApiToken.digest_of(secret), expires_at__lte=now)
        return mine.filter(revoked_at__isnull=True, user__is_active=True).exists()


class ApiToken(models.Model):
    """A key for a program that acts as a person. Only its digest is kept."""

    Scope = TokenScope

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=80)
    scope = models.CharField(max_length=8, choices=Scope, default=Scope.WRITE)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = MadeAtField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, editable=False)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(scope__in=TokenScope.values), name="token_scope_known"
            )
        ]

    def __str__(self) -> str:
        return self.name

    @classmethod
    def make(
        cls,
        user: User,
        *,
        name: str,
        scope: str = Scope.WRITE,
        expires_at: dt.datetime | None = None,
    ) -> tuple[ApiToken, str]:
        """A new token and its secret, which is not kept and cannot be shown again."""
        secret = f"wst_{secrets.token_urlsafe(32)}"
        return cls.objects.create(
            user=user, name=name, scope=scope, expires_at=expires_at, digest=cls.digest_of(secret)
        ), secret

    @staticmethod
    def digest_of(secret: str) -> str:
        return hashlib.sha256(secret.encode()).hexdigest()


class IdempotencyKey(models.Model):
    """A key that a program named a request by, what that made, and what it was answered with; see
    `hitl.http.idempotency`.

    The row is written in the transaction that makes something, or with the answer of a request that
    made nothing.
    """

    class Kept(models.TextChoices):
        """What of the answer is kept."""

        NOTHING_YET = "", "Not answered yet"
        WHOLE = "whole", "All of it"
        SECRET = "secret", "Nothing: it held a secret"
        LARGE = "large", "Nothing: it was too large"
        ERASED = "erased", "Nothing: what it spoke of was erased"

    id = models.BigAutoField(primary_key=True)
    # the constraint below has one
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False
    )
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64, help_text="Of method, address and body.")
    status = models.PositiveSmallIntegerField(
        null=True, help_text="Of the answer; null while the request is worked on."
    )
    body = SecretBinaryField(
        default=bytes,
        help_text="Of the answer, sealed: with the server's own key where none is configured.",
    )
    content_type = models.CharField(max_length=100, blank=True)
    kept = models.CharField(max_length=8, choices=Kept, default=Kept.NOTHING_YET, blank=True)
    token = models.UUIDField(
        default=uuid.uuid4,
        help_text="Of the one request whose key this is; of two at once the other does nothing.",
    )
    made = models.TextField(
        blank=True, help_text="Ids of what was made or changed, with spaces between."
    )
    about = models.TextField(
        blank=True,
        help_text=(
            "Ids that address and answer name: with what they stand for, the answer is erased."
        ),
    )
    made_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "key"], name="idempotency_key_once"),
            models.CheckConstraint(
                condition=Q(status=None, kept="") | (Q(status__isnull=False) & ~Q(kept="")),
                name="idempotency_answered_once",
            ),
        ]
        # for what forgets them
        indexes = [models.Index(fields=["made_at"], name="idempotency_by_age")]

    def __str__(self) -> str:
        return self.key


def name_of(user: AbstractBaseUser) -> str:
    """What an account is called today, for people."""
    return (user.get_full_name() if isinstance(user, User) else "") or user.get_username()


def _utc(at: dt.datetime) -> str:
    return at.astimezone(dt.UTC).isoformat()


def ledger_name(team_id: int | None, owner_id: int) -> str:
    return f"team:{team_id}" if team_id else f"user:{owner_id}"
