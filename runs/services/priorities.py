"""The priority of an order: who may give which, and how it is changed while the work is under way.

Whoever asks for work may let others go first; letting it go before the work of others takes
`runs.raise_priority`.
"""

from __future__ import annotations

import uuid

from django.db import transaction
from django.utils.translation import gettext

from checkpoints.database.people import User
from checkpoints.events import log
from runs import keyed, urgency
from runs.definitions import rights
from runs.engine.drafts.events import line
from runs.models import Run, WorkOrder
from runs.services.work_orders import check_priority
from runs.states import PENDING, RunEnded
from runs.tasks import nudge_on_commit


def may_change(order: WorkOrder, by: User) -> bool:
    """Whether this person may change an order's priority at all, once they see it."""
    return order.created_by_id == by.pk or by.has_perm(rights.RAISE)


@transaction.atomic(durable=True)
def change(order_id: uuid.UUID, priority: int, *, by: User) -> WorkOrder:
    """Give an order another priority; what waits for a worker is judged by it from now on.

    Raises:
        RunEnded: the order has ended.
        InputInvalid: the number is out of range.
        rights.Forbidden: it is somebody else's order, or above what this person may give.
    """
    order = WorkOrder.objects.shown().get(pk=order_id)
    if not may_change(order, by):
        raise rights.Forbidden(
            "priority_not_allowed",
            "Whoever asked for the work may change its priority, and operators may. Nothing was "
            "changed.",
        )
    check_priority(priority, by)
    run = order.latest_run
    if run is None or run.ended_at is not None:
        raise RunEnded(
            gettext("This work order has ended, so its priority means nothing any more.")
        )
    keyed.made(order.shown_id)
    if order.priority == priority:
        return order
    WorkOrder.objects.filter(pk=order_id).update(priority=priority)
    words = f"{by.get_username()} changed the priority from {order.priority} to {priority}"
    log.append(order.thread_id, run.pk, [line(words)])
    if Run.objects.filter(pk=run.pk, status=PENDING, epoch=0).exists():
        urgent = urgency.of_new(order.thread.owner, order.thread.team, priority=priority)
        nudge_on_commit(run.pk, run.queue, urgency=urgent)
    order.priority = priority
    return order
