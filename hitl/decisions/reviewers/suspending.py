"""Who may have work stopped at its next step boundary, and let it go on from there: whoever takes
part in it, whoever its questions ask or asked by their rules, and operators. This is the one place
that says so; `hitl.decisions.visibility` looks the work up for the doors.

Whoever takes no part says why, may let a stop go on and not end it, and learns nothing more of the
work by it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import cached_property

from django.db.models import Q
from django.utils.translation import gettext

from checkpoints.database.people import User
from hitl.decisions.reviewers import policy
from hitl.decisions.reviewers.policy import NotAllowed, ReviewContext, Seat
from hitl.models import is_service
from runs.models import Pause, PauseQuerySet
from runs.states import SUSPENDED

OPERATE = "runs.change_run"


def may(by: User, *, order_id: uuid.UUID | None, thread_id: uuid.UUID | None = None) -> bool:
    """Whether a person who takes no part in an order, or a thread without one, may suspend it."""
    if not by.is_authenticated or not by.is_active or is_service(by):
        return False
    work = Q(run__work_order=order_id) if order_id else Q(run__thread=thread_id)
    return by.has_perm(OPERATE) or policy.asked_of(by).filter(work).exists()


def stops_of(asked: PauseQuerySet) -> PauseQuerySet:
    """The suspensions of the work that these questions are of."""
    of_order = asked.filter(run__work_order__isnull=False).values("run__work_order")
    work = Q(run__work_order__in=of_order) | Q(run__thread__in=asked.values("run__thread"))
    return Pause.objects.filter(work, phase=SUSPENDED)


class StopContext(ReviewContext):
    """How a person stands to a suspension: no rules of a step are about it."""

    @cached_property
    def seats(self) -> list[User]:
        return super().seats or ([self.by] if self.lets_go_on else [])

    @cached_property
    def lets_go_on(self) -> bool:
        """Whether the person takes no part, and may let it go on all the same."""
        run = self.pause.run
        return not super().seats and may(
            self.by, order_id=run.work_order_id, thread_id=run.thread_id
        )

    def seat_for(self, action: str) -> User:
        seat = super().seat_for(action)
        if not policy.approves(action) and self.lets_go_on and not self.asked_for_it:
            raise NotAllowed(
                "not_a_reviewer",
                gettext("You may let this go on, but not end it. These may: %(who)s.")
                % {"who": self.who},
            )
        return seat


def context_of(
    pause: Pause, by: User, *, takes_part: bool = False, seats: Sequence[Seat] | None = None
) -> ReviewContext:
    """How a person stands to a question; `takes_part` and `seats` are as for `ReviewContext`."""
    kind = StopContext if pause.phase == SUSPENDED else ReviewContext
    return kind(pause, by, takes_part=takes_part, seats=seats)
