"""Retry, cancel or fork many orders at once: chosen by the list's filters, looked over first, each
in a transaction of its own, and kept as a record.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.utils import translation
from django.utils.translation import gettext

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.models import Checkpoint
from checkpoints.store import CheckpointDamaged, StoreUnavailable
from hitl.decisions import services
from hitl.decisions.bulk import BulkInvalid
from hitl.decisions.reviewers import policy
from hitl.find import asking
from hitl.find.asking import Asked
from hitl.find.lists import Asker
from hitl.find.orders import ORDERS
from hitl.models import Via
from hitl.models.batches import Batch, BatchAction
from runs import keyed
from runs import services as runs
from runs.models import WorkOrder
from runs.services import PauseClosed
from runs.services.forks import NothingToFork
from runs.states import FAILED, LIVE, RunEnded

MOST = 100
"""Orders of a batch."""
REFUSALS = (
    services.NotFound,
    services.AnswerInvalid,
    services.NotPaused,
    policy.Refused,
    PauseClosed,
    RunEnded,
    NothingToFork,
    CheckpointDamaged,
    StoreUnavailable,
)
"""What one of them may end with without stopping the others."""


class BatchInvalid(BulkInvalid):
    """Nothing was done: the message says why."""

    code = "batch_invalid"


@dataclass(frozen=True, kw_only=True)
class BatchPreview:
    action: str
    orders: Sequence[WorkOrder]
    left_out: Sequence[tuple[WorkOrder, str]]
    """Chosen orders with which this cannot be done, and why."""
    more: bool
    """Whether the filter chooses more than `MOST`."""
    steps: Sequence[tuple[str, str]]
    """Name and title of each step that all of them have, for a fork."""

    @property
    def parts(self) -> list[tuple[str, int]]:
        """Template → how many, the most first."""
        return Counter(str(order.definition) for order in self.orders).most_common()


@dataclass(frozen=True, kw_only=True)
class BatchChoice:
    """What is to be done, and with which orders."""

    action: str
    orders: Sequence[uuid.UUID] = ()
    query: str = ""
    reason: str = ""
    step: str = ""
    via: Via = Via.PAGE


def chosen_by(query: Mapping[str, Sequence[str]], *, by: User) -> tuple[list[uuid.UUID], str]:
    """The newest orders that a person sees and that fit an address of their list, one more than
    `MOST` where there are; and the address in its usual form. Raises `asking.NotUnderstood`.
    """
    asker = Asker(by, clock.now())
    asked: Asked = asking.read(
        ((name, list(values)) for name, values in query.items()),
        ORDERS.parameters,
        now=asker.now,
    )
    fitting = ORDERS.among(WorkOrder.objects.visible_to(by), asked, asker)
    return list(fitting.order_by("-pk").values_list("pk", flat=True)[: MOST + 1]), asked.query


def preview(action: str, order_ids: Sequence[uuid.UUID], *, by: User) -> BatchPreview:
    """What would be done. Raises BatchInvalid."""
    _check(action)
    keys = list(dict.fromkeys(order_ids))
    rows = WorkOrder.objects.visible_to(by).shown().in_bulk(keys[:MOST])
    orders, left_out = [], []
    for order in (rows[key] for key in keys if key in rows):
        if why_not := refused(action, order):
            left_out.append((order, why_not))
        else:
            orders.append(order)
    return BatchPreview(
        action=action,
        orders=orders,
        left_out=left_out,
        more=len(keys) > MOST,
        steps=_steps(orders) if action == BatchAction.FORK else (),
    )


def refused(action: str, order: WorkOrder) -> str:
    """Why something is not done with an order; "" where it may be tried."""
    run = order.latest_run
    if run is None:
        return gettext("It has no run yet.")
    if action == BatchAction.CANCEL:
        return "" if run.status in LIVE else gettext("It has ended.")
    if action == BatchAction.RETRY:
        return "" if run.status == FAILED else gettext("It has not failed.")
    return gettext("It is still under way.") if run.status in LIVE else ""


@dataclass(frozen=True, kw_only=True)
class BatchLine:
    """What became of one order of a batch."""

    shown: str
    order: WorkOrder | None
    """None where whoever looks does not see it."""
    run: str
    code: str
    words: str
    """Why nothing was done; "" where it was."""
    reached: bool
    """Whether the batch came to it."""


def lines_of(batch: Batch, *, by: User | None) -> list[BatchLine]:
    """The orders of a batch, as one person sees them; without the orders for None."""
    keys = [ids.parse(WorkOrder.PREFIX, shown) for shown in batch.orders]
    rows = {} if by is None else WorkOrder.objects.visible_to(by).shown().in_bulk(keys)
    results = {result["order"]: result for result in batch.results}
    return [
        BatchLine(
            shown=shown,
            order=rows.get(key),
            run=results.get(shown, {}).get("run", ""),
            code=results.get(shown, {}).get("code", ""),
            words=results.get(shown, {}).get("words", ""),
            reached=shown in results,
        )
        for shown, key in zip(batch.orders, keys, strict=True)
    ]


def _steps(orders: Sequence[WorkOrder]) -> list[tuple[str, str]]:
    """The steps that the workflows of all these orders have, in the first one's order."""
    if not orders:
        return []
    named = [{step["name"] for step in order.definition.steps} for order in orders]
    return [
        (step["name"], step["title"])
        for step in orders[0].definition.steps
        if all(step["name"] in names for names in named)
    ]


def begin(key: uuid.UUID, choice: BatchChoice, *, by: User) -> Batch:
    """Write a batch down, and do it; one that has this key already is given as it stands.

    Raises BatchInvalid, with nothing done.
    """
    _check(choice.action)
    if not choice.orders or len(set(choice.orders)) > MOST:
        raise BatchInvalid(
            gettext("Choose between one and %(most)s orders. Nothing was done.") % {"most": MOST}
        )
    if choice.action != BatchAction.RETRY and not choice.reason.strip():
        raise BatchInvalid(gettext("Say why: the reason is kept. Nothing was done."))
    if choice.action == BatchAction.FORK and not choice.step:
        raise BatchInvalid(gettext("Choose the step to go on from. Nothing was done."))
    orders = list(dict.fromkeys(choice.orders))
    batch = Batch(
        pk=key,
        action=choice.action,
        by=by,
        by_name=by.get_full_name() or by.get_username(),
        reason=choice.reason.strip()[:2_000],
        query=choice.query[:2_000],
        step=choice.step[:100],
        orders=[ids.show(WorkOrder.PREFIX, order) for order in orders],
    )
    try:
        with transaction.atomic(durable=True):
            batch.save(force_insert=True)
            keyed.made(batch.shown_id)
    except IntegrityError:  # sent twice
        return Batch.objects.get(pk=key)
    # kept words are English, whoever acts
    with keyed.at_work(None), translation.override("en"):
        for order in orders:
            batch.results = [*batch.results, _one(batch, order, choice.via, by=by)]
            batch.save(update_fields=["results"])
    batch.ended_at = clock.now()
    batch.save(update_fields=["ended_at"])
    return batch


def _one(batch: Batch, key: uuid.UUID, via: Via, *, by: User) -> dict[str, str]:
    result = {"order": ids.show(WorkOrder.PREFIX, key), "run": "", "code": "", "words": ""}
    try:
        order = services.find_order(key, by=by)
        if batch.action == BatchAction.CANCEL:
            services.cancel_order(order.pk, by=by, via=via, reason=str(batch.reason))
        elif batch.action == BatchAction.RETRY:
            result["run"] = runs.retry(order.pk, by=by).shown_id
        else:
            result["run"] = _fork(order, batch, by=by)
    except REFUSALS as refusal:
        result |= {"code": str(getattr(refusal, "code", "refused")), "words": str(refusal)[:500]}
    return result


def _fork(order: WorkOrder, batch: Batch, *, by: User) -> str:
    """Go on from the newest checkpoint before the step."""
    before = (
        Checkpoint.objects.filter(thread=order.thread_id, next_step=batch.step)
        .order_by("-pk")
        .values_list("pk", flat=True)
        .first()
    )
    if before is None:
        raise NothingToFork(gettext("It has no checkpoint before this step."))
    return services.fork(before, by=by, reason=str(batch.reason)).shown_id


def _check(action: str) -> None:
    if action not in BatchAction.values:
        raise BatchInvalid(
            gettext("Many orders are retried, cancelled or forked. Nothing was done.")
        )
