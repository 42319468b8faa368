"""What a step is told of the work that was asked for."""

from __future__ import annotations

from runs.engine.context import delivery
from runs.models import Run, WorkOrder
from runs.workflows.base import Order


def order_of(run: Run, order: WorkOrder | None) -> Order:
    """What a step is told of its order, or of the thread it works on where there is none."""
    if order is None:
        thread, by = run.thread, run.started_by_id
        return Order(
            id=thread.shown_id,
            title=thread.title,
            request="",
            input=run.input,
            repository_url="",
            branch="",
            user_id=by,
            for_user=thread.for_user,
            session=thread.session,
        )
    return Order(
        id=order.shown_id,
        title=order.title,
        request=order.request,
        input=order.input,
        repository_url=order.repository_url,
        branch=order.branch if run.parent_id is None else f"{order.branch}-{run.shown_id}",
        check_command=tuple(order.check_command),
        user_id=run.started_by_id,
        author=order.author,
        page=delivery.page_of(order),
        delivery=delivery.delivery_of(order),
    )
