"""Approvals that are counted, where the rules ask for several."""

from __future__ import annotations

import datetime as dt

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints import ids
from checkpoints.models import SealedJsonField
from checkpoints.models.fields import SealedTextField
from checkpoints.state import codec
from hitl.models.decisions import LONGEST_NAME, Via, for_another, name_of
from hitl.models.ledgers import utc
from runs.models import Pause


class Vote(ids.HasShownId, models.Model):
    """One person's approval where the rules ask for several.

    Append-only; the decision that closes the question names its digest.

    A refusal or a wish for a revision decides alone and is no vote.
    """

    PREFIX = "vote"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    # the constraints below have one
    pause = models.ForeignKey(Pause, models.PROTECT, related_name="votes", db_index=False)
    stage = models.CharField(
        max_length=40,
        blank=True,
        help_text='The stage of the review that it counts at; "" where the rules name none.',
    )
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
        help_text="Tells addresses apart: `hitl.decisions.reviewers.outsiders`.",
    )
    by_name = models.CharField(
        max_length=LONGEST_NAME, blank=True, help_text="As the decision's, like the next two."
    )
    for_name = models.CharField(max_length=LONGEST_NAME, blank=True)
    early_at = models.DateTimeField(null=True)
    factor = models.CharField(
        max_length=16,
        blank=True,
        default="",
        db_default="",
        help_text="As the decision's, like the next one.",
    )
    factor_at = models.DateTimeField(null=True)
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
            models.CheckConstraint(
                condition=Q(factor="", factor_at__isnull=True)
                | (~Q(factor="") & Q(factor_at__isnull=False, voter__isnull=False)),
                name="vote_factor_has_its_time",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action}: {self.voter or self.external}"

    @property
    def name(self) -> str:
        """The name of who voted, at that time."""
        return self.by_name or name_of(self.voter) if self.voter else self.external

    @property
    def who(self) -> str:
        """The same, with the one on whose behalf it was."""
        other = self.seat if self.seat_id != self.voter_id else None
        return for_another(self.name, (self.for_name or name_of(other)) if other else None)

    def compute_digest(self) -> str:
        """The digest that this row must carry.

        What came to the product later is in it only where the row has it.
        """
        signed = (
            "action",
            "feedback",
            "payload",
            "edited_content",
            "voter_id",
            "seat_id",
            "via",
            "content_digest",
        )
        facts = {name: getattr(self, name) for name in signed}
        facts |= {
            name: value
            for name in ("external", "by_name", "for_name", "stage", "factor")
            if (value := getattr(self, name))
        }
        facts |= {"early_at": utc(self.early_at)} if self.early_at else {}
        facts |= {"factor_at": utc(self.factor_at)} if self.factor_at else {}
        return codec.digest(
            codec.encode(
                {
                    **facts,
                    "pause": self.pause_id.hex,
                    "voted_at": self.voted_at.astimezone(dt.UTC).isoformat(),
                }
            )
        )
