"""The chains of decisions, what vouches for them outside, and what was erased or brought in."""

from __future__ import annotations

import datetime as dt

from django.conf import settings
from django.db import models

from checkpoints import ids
from checkpoints.models import JsonTextField, SealedJsonField, Thread
from checkpoints.state import codec


class Ledger(models.Model):
    """One chain of decisions: a team's, or a person's where no team is named.

    Its row is the chain's lock and tip.
    """

    name = models.CharField(max_length=80, primary_key=True)
    length = models.PositiveBigIntegerField(default=0)
    tip = models.CharField(max_length=64, blank=True, help_text="Digest of the newest decision.")

    def __str__(self) -> str:
        return self.name


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
        signed = {
            name: getattr(self, name) for name in ("erased_by", "reason", "counts", "decisions")
        }
        return codec.digest(
            codec.encode({**signed, "thread": self.thread_id.hex, "erased_at": utc(self.erased_at)})
        )


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
        verbose_name = "ledger anchor"
        constraints = [models.UniqueConstraint(fields=["ledger", "day"], name="anchor_once_a_day")]

    def __str__(self) -> str:
        """The line to keep."""
        return f"{self.day} {self.ledger_id} {self.position} {self.tip} {self.digest}"

    def compute_digest(self) -> str:
        """The digest that this row must carry."""
        signed = {name: getattr(self, name) for name in ("position", "tip", "previous")}
        return codec.digest(
            codec.encode({**signed, "ledger": self.ledger_id, "day": self.day.isoformat()})
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


def utc(at: dt.datetime) -> str:
    return at.astimezone(dt.UTC).isoformat()


def ledger_name(team_id: int | None, owner_id: int) -> str:
    return f"team:{team_id}" if team_id else f"user:{owner_id}"
