"""What a person may see, looked up: what there is not, and what they may not see, are the same."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from checkpoints.database.people import User
from checkpoints.models import Checkpoint, Thread
from checkpoints.store.prepared_queries import Prepared
from hitl.decisions import deadlines, external_access, visibility
from hitl.decisions.errors import NotFound
from hitl.decisions.external_reviewer import Outsider
from hitl.decisions.policy import Actor, ReviewContext
from runs.models import Pause, PauseQuerySet, WorkOrder
from runs.states import LIVE

AnyReviewContext = ReviewContext | external_access.ExternalReviewContext


class _Answerable:
    """Questions that a person may answer, `narrow`ed by a key.

    Prepared, since whoever answers waits.
    """

    def __init__(self, narrow: Callable[[PauseQuerySet, uuid.UUID], PauseQuerySet]) -> None:
        self._narrow = narrow
        self._prepared = Prepared(
            lambda user_id, key: self._query(User(pk=user_id), key), int, uuid.UUID
        )

    def _query(self, by: User, key: uuid.UUID) -> PauseQuerySet:
        return self._narrow(Pause.objects.visible_to(by).answerable(), key)

    def get(self, by: User, key: uuid.UUID) -> list[Pause]:
        usual = by.is_active and not by.is_superuser
        return self._prepared.get(by.pk, key) if usual else list(self._query(by, key))


by_id = _Answerable(lambda pauses, pause_id: pauses.filter(pk=pause_id))
open_of_order = _Answerable(lambda pauses, order_id: pauses.open().filter(run__work_order=order_id))


def review_context(pause_id: uuid.UUID, by: Actor) -> AnyReviewContext:
    """How whoever answers stands to a question, read `answerable`; raises NotFound."""
    if isinstance(by, Outsider):
        return _outside(pause_id, by)
    pause = next(iter(by_id.get(by, pause_id)), None)
    if pause is not None:
        return ReviewContext(pause, by, takes_part=True)
    pause = visibility.pause(Pause.objects.answerable(), pause_id, by=by)
    # who is asked from the deadline on is asked now
    if pause is None and deadlines.meet(Pause.objects.filter(pk=pause_id)):
        pause = visibility.pause(Pause.objects.answerable(), pause_id, by=by)
    if pause is None:
        raise NotFound("There is no such question.")
    return ReviewContext(pause, by)


def _outside(pause_id: uuid.UUID, by: Outsider) -> external_access.ExternalReviewContext:
    pause = Pause.objects.answerable().filter(pk=pause_id).first()
    if pause is None or not external_access.may_answer(pause, by.address):
        raise NotFound("There is no such question.")
    return external_access.ExternalReviewContext(pause, by)


def find_checkpoint(checkpoint_id: uuid.UUID, *, by: User) -> Checkpoint:
    """A checkpoint that this person may see; raises NotFound."""
    visible = Checkpoint.objects.filter(thread__in=Thread.objects.visible_to(by)).select_related(
        "thread__work_order", "thread__head"
    )
    found = visible.defer("thread__head__body").filter(pk=checkpoint_id).first()
    if found is None:
        raise NotFound("There is no such checkpoint.")
    return found


def find_order(order_id: uuid.UUID, *, by: User) -> WorkOrder:
    """A work order that this person may see; raises NotFound."""
    order = WorkOrder.objects.visible_to(by).shown().filter(pk=order_id).first()
    if order is None:
        raise NotFound("There is no such work order.")
    return order


def look_at_order(order_id: uuid.UUID, *, by: User) -> WorkOrder:
    """A work order that this person may see, or is asked on; raises NotFound."""
    order = WorkOrder.objects.visible_to(by).shown_to(by).filter(pk=order_id).first()
    if (
        order is None
        and (asked := WorkOrder.objects.shown_to(by).filter(pk=order_id).first())
        and visibility.is_asked(asked.thread_id, by=by)
    ):
        return asked
    if order is None:
        raise NotFound("There is no such work order.")
    return order


def open_pauses(order: WorkOrder) -> list[Pause]:
    """The open questions of a work order, oldest first: its run's own, or those of its child
    runs.
    """
    if order.latest_run is None or order.latest_run.status not in LIVE:
        return []
    return list(Pause.objects.open().shown().filter(run__work_order=order.pk).order_by("id"))


def open_pause(order: WorkOrder) -> Pause | None:
    """The oldest open question of a work order."""
    return next(iter(open_pauses(order)), None)
