"""Step-up: what is of high risk wants a fresh second factor of who lets the run go on.

`services.decide` asks here, whichever the door. Whether it is wanted, the rules of the step say
(`step_up`, of everybody, frozen), or `WAYSTATION_STEP_UP` of what is of high risk: of those who
have a factor, of everybody, or of nobody.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from checkpoints.database import clock
from checkpoints.database.people import User
from hitl.decisions.reviewers import policy
from hitl.decisions.reviewers.policy import Actor, NotAllowed
from hitl.identity import factors
from hitl.identity.factors import Factor
from runs.models import Pause


class StepUpRequired(NotAllowed):
    """It takes a fresh second factor, which this door has not, or this person."""

    def __init__(self, *, enrolled: bool) -> None:
        self.enrolled = enrolled
        words = (
            "Answer it on its own page, where you are asked for a code or a passkey."
            if enrolled
            else "You have none: set one up under “Password and second factors”, then answer it on "
            "its own page."
        )
        asked = "Nothing was decided: this question wants a fresh second factor."
        super().__init__("step_up_required", f"{asked} {words}")


def proven(pause: Pause, action: str, by: Actor) -> Factor | None:
    """The fresh factor by which an answer is given; None where none is wanted. Raises
    StepUpRequired.
    """
    if not policy.approves(action):
        return None
    return proven_by(by, pause.review, high=pause.risk == "high")


def proven_by(by: Actor, review: Mapping[str, Any], *, high: bool) -> Factor | None:
    """The same, by the rules and the risk of what somebody lets go on."""
    ruled = review.get("step_up") is True
    if not ruled and not (high and settings.WAYSTATION_STEP_UP != "off"):
        return None
    if not isinstance(by, User):  # a link proves no second factor
        raise StepUpRequired(enrolled=False)
    factor, now = factors.latest(by), clock.now()
    if factor is not None and now - longest() <= factor.at <= now:
        return factor
    kinds = factors.chosen()
    enrolled = kinds is not None and kinds.has_one(by)
    if not enrolled and not ruled and settings.WAYSTATION_STEP_UP == "enrolled":
        return None
    raise StepUpRequired(enrolled=enrolled)


def longest() -> dt.timedelta:
    """How long a factor counts as fresh."""
    return dt.timedelta(seconds=settings.WAYSTATION_STEP_UP_SECONDS)
