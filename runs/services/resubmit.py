"""Asking for a work order again: a new one like it, from its template's first step on.

It takes nothing over but what was asked for.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from django.db import IntegrityError
from django.db.models import Q
from django.utils.translation import gettext

from checkpoints import ids, store
from checkpoints.database.people import User
from checkpoints.models import Blob, Checkpoint
from checkpoints.state import codec, redaction
from runs.definitions import rights
from runs.models import Artifact, WorkOrder
from runs.services import work_orders
from runs.services.work_orders import InputInvalid
from runs.states import CANCELLED, EXPIRED, FAILED
from runs.workflows import attachments

OVER = frozenset({CANCELLED, FAILED, EXPIRED})
"""Ends after which an order can be asked for again."""


class CannotAskAgain(Exception):
    """The order is not over, has its result, or was asked for again already: the message says
    which. Nothing was made.
    """

    code = "cannot_ask_again"


def ask_again(order_id: uuid.UUID, *, by: User) -> WorkOrder:
    """Make a new work order with what an earlier one was asked with, of its template's current
    version; it names the earlier one.

    Every step runs anew and asks by its own rules, so no answer of the earlier one counts. An order
    is asked for again once: then its successor can be.

    Raises:
        CannotAskAgain: see there.
        InputInvalid: what was asked cannot be taken over: the input holds a secret that was not
            kept, a file is gone, the template asks for something else by now, or whoever asks is
            not in the team. and what else `services.submit` raises.
    """
    order = WorkOrder.objects.shown().get(pk=order_id)
    _check_over(order)
    team = order.thread.team
    if team is not None and not by.groups.filter(pk=team.pk).exists():
        raise InputInvalid.of(
            "team", f"The order belongs to the team {team.name}, and you are not in it."
        )
    first = order.runs.order_by("pk").first()
    assert first is not None  # made with the order
    stops = {"interrupt_before": first.interrupt_before, "interrupt_after": first.interrupt_after}
    try:
        return work_orders.submit(
            order.template.slug,
            by=by,
            title=order.title,
            request=order.request,
            input=_input(order),
            repository_url=order.repository_url,
            team=team,
            again_of=order,
            priority=min(order.priority, rights.highest_priority(by)),
            **stops,
        )
    # work_order_asked_again_once: of two who ask at once one is first
    except IntegrityError as error:
        _check_over(WorkOrder.objects.shown().get(pk=order_id))
        raise CannotAskAgain(
            gettext("This work order was started over just now. Nothing was made.")
        ) from error


def may_ask_again(order: WorkOrder) -> bool:
    """Whether it is over without a result, and was not asked for again."""
    return (
        order.latest_run is not None
        and order.latest_run.status in OVER
        and successor_of(order) is None
    )


def successor_of(order: WorkOrder) -> WorkOrder | None:
    """The order that asks for this one again."""
    return WorkOrder.objects.filter(again_of=order.pk).first()


def beside(order: WorkOrder, *, by: User) -> tuple[WorkOrder | None, WorkOrder | None]:
    """The earlier order that this one asks for again, and the one that asks for it again, as far as
    a person sees them; nothing is looked up of an order that is `shown_to` them and has neither.
    """
    if order.again_of_id is None and getattr(order, "asked_again_as", order.pk) is None:
        return None, None
    seen = list(
        WorkOrder.objects.visible_to(by).filter(Q(pk=order.again_of_id) | Q(again_of=order.pk))
    )
    earlier = next((candidate for candidate in seen if candidate.pk == order.again_of_id), None)
    return earlier, next((other for other in seen if other != earlier), None)


def _check_over(order: WorkOrder) -> None:
    if order.latest_run is None or order.latest_run.status not in OVER:
        raise CannotAskAgain(
            gettext(
                "Only a work order that was cancelled, failed or expired can be started over; "
                "this one is %(status)s. Nothing was made."
            )
            % {"status": order.status}
        )
    if (successor := successor_of(order)) is not None:
        raise CannotAskAgain(
            gettext("This work order was started over as %(shown_id)s. Nothing was made.")
            % {"shown_id": successor.shown_id}
        )


def _input(order: WorkOrder) -> dict[str, Any]:
    """The input as it was given: files come from the thread's first state, where they were put."""
    values = dict(order.input)
    if redaction.MARKER in codec.encode(values):
        message = (
            "It held a secret, which was not kept, so it cannot be started over as it was. Make "
            "a new work order."
        )
        raise InputInvalid.of("input", message)
    if not attachments.asked_in(order.template.input_schema):
        return values
    return dict(attachments.each_taken(order.template.input_schema, values, partial(_file, order)))


def _file(order: WorkOrder, path: str, kept: Mapping[str, Any]) -> dict[str, Any]:
    """A file as it was handed in. Raises InputInvalid."""
    rows = Artifact.objects.filter(thread=order.thread_id, digest=kept["sha256"]).exclude(media="")
    try:
        if rows.exists():
            content = base64.b64encode(store.get_blob(kept["sha256"])).decode()
        else:  # of an order whose state held it
            content = _held(order)[path]["content"]
    except (store.CheckpointDamaged, Blob.DoesNotExist, KeyError) as error:
        order_id = ids.show(WorkOrder.PREFIX, order.pk)
        message = (
            f"The file that {order_id} brought is not there any more. Make a new work order with "
            "it."
        )
        raise InputInvalid.of(path, message) from error
    return {"name": kept["name"], "content": content}


def _held(order: WorkOrder) -> Mapping[str, Any]:
    first = Checkpoint.objects.filter(thread=order.thread_id, parent=None).order_by("pk").first()
    held: Mapping[str, Any] = store.load(first).get(attachments.KEY, {}) if first else {}
    return held
