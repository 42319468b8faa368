"""How a work order ended, told to those who chose to be told of it, by template.

As with questions, a relay reads what nobody was planned to be told of (`Run.end_told`), so that the
engine knows nobody who listens.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop

from checkpoints.database import clock
from checkpoints.database.rounds import RoundItem
from checkpoints.models.fields import demand
from checkpoints.state import encryption
from checkpoints.text import invisible
from hitl.channels.protocol import OutboundMessage
from hitl.decisions import notifications
from hitl.models.outbound import ORDER_ENDS, Delivery, Endpoint, Occasion
from hitl.outbound import links
from hitl.rendering.own_words import own
from runs.models import Run

logger = logging.getLogger(__name__)

ROUND = 200
"""Ends that one round plans for."""
SHOWN = 1_000
"""Characters of an error that a message holds; the page has all of it."""
WORDS = {
    Occasion.ORDER_COMPLETED: gettext_noop("Completed: %(title)s"),
    Occasion.ORDER_FAILED: gettext_noop("Failed: %(title)s"),
    Occasion.ORDER_CANCELLED: gettext_noop("Cancelled: %(title)s"),
    Occasion.ORDER_EXPIRED: gettext_noop("Expired: %(title)s"),
}


def occasion_of(run: Run) -> Occasion:
    """`order_completed` and so on, of a run that ended."""
    return Occasion(f"order_{run.status}")


def announce(*, limit: int = ROUND) -> int:
    """Plan for orders that ended since the last round; gives how many those were.

    Two rounds at once do no harm. An order that is retried and ends again is told again.
    """
    ended = Run.objects.ends_untold().select_related("thread", "definition").order_by("id")[:limit]
    runs = list(ended)
    listening = _listening() if runs else []
    heard = {run.pk: [one for one in listening if _hears(one, run)] for run in runs}
    nobodys = [run.pk for run in runs if not heard[run.pk]]
    Run.objects.filter(pk__in=nobodys).update(end_told=True)
    for run in runs:
        if heard[run.pk]:
            with RoundItem(logger, run.shown_id):
                _announce(run, heard[run.pk])
    return len(runs)


def _listening() -> Sequence[Endpoint]:
    """The endpoints that chose to be told of some end."""
    chosen = Endpoint.objects.filter(enabled=True, thread=None).exclude(occasions=[])
    return [one for one in chosen if {*ORDER_ENDS} & {*one.occasions}]


def _hears(endpoint: Endpoint, run: Run) -> bool:
    """Whether an endpoint is told of this end: its owner's, its team's and everybody's."""
    thread = run.thread
    whose = (endpoint.owner_id, endpoint.team_id)
    theirs = whose in {(thread.owner_id, None), (None, thread.team_id), (None, None)}
    return theirs and endpoint.hears(occasion_of(run), run.definition.template_slug)


@transaction.atomic(durable=True)
def _announce(run: Run, listening: Sequence[Endpoint]) -> None:
    if not Run.objects.filter(pk=run.pk, end_told=False).update(end_told=True):
        return  # another round was first
    now = clock.now()
    about: Mapping[str, Any] = {"run": run, "occasion": occasion_of(run)}
    notifications.write(
        Delivery(**about, next_at=now, made_at=now, **notifications.at(endpoint))
        for endpoint in listening
    )


def message_of(delivery: Delivery, run: Run) -> OutboundMessage:
    """What a mail or a chat says of an order's end: no content, and nothing of the run's state."""
    hidden, order = encryption.in_use(), run.work_order
    assert order is not None  # `Run.end_told`
    title = gettext("a work order") if hidden else order.title
    subject = gettext(WORDS[Occasion(delivery.occasion)]) % {"title": title}
    return OutboundMessage(
        subject=invisible.plain(" ".join(subject.split()))[:200],
        question=subject,
        about=str(run.definition),
        outcome="" if hidden else own(str(demand(run.error)))[:SHOWN],
        content="",
        others=[],
        due=None,
        url=links.absolute(reverse("hitl:order", args=[order.pk])),
        link_answers=False,
    )


def payload_of(delivery: Delivery, run: Run) -> dict[str, Any]:
    """What a system gets; the same on every try."""
    hidden, order = encryption.in_use(), run.work_order
    assert order is not None and run.ended_at is not None  # noqa: PT018  # `Run.end_told`
    data = {
        "delivery_id": delivery.shown_id,
        "work_order_id": order.shown_id,
        "run_id": run.shown_id,
        "thread_id": run.thread.shown_id,
        "workflow": str(run.definition),
        "template": run.definition.template_slug,
        "template_version": run.definition.template_version,
        "title": None if hidden else demand(order.title),
        "status": str(run.status),
        "failure_code": run.failure_code or None,
        "error": None if hidden else demand(run.error) or None,
        "ended_at": run.ended_at.isoformat(),
        "url": links.absolute(reverse("hitl:order", args=[order.pk])),
    }
    kind = delivery.occasion.replace("order_", "order.")
    return {"type": kind, "timestamp": delivery.made_at.isoformat(), "data": data}
