"""What is to be sent to whom: as rows, each of which can exist once."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.db import transaction

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.database.rounds import RoundItem
from checkpoints.models.fields import demand
from hitl.decisions.reviewers import external_access, outsiders, policy
from hitl.decisions.reviewers.policy import Actor
from hitl.models import Decision
from hitl.models.channels import posts
from hitl.models.outbound import (
    ASKING,
    Channel,
    Delivery,
    DeliveryStatus,
    Endpoint,
    EndpointQuerySet,
    Occasion,
)
from runs.models import Pause
from runs.states import PauseStatus

logger = logging.getLogger(__name__)

ENDS = {
    PauseStatus.ANSWERED: Occasion.ANSWERED,
    PauseStatus.CANCELLED: Occasion.CANCELLED,
    PauseStatus.EXPIRED: Occasion.EXPIRED,
}
ROUND = 200
"""Pauses that one round plans for."""
REFINED_AT_MOST = 3
"""Answers that do not fit about which others are told; who gave them is told at once anyway."""


def plan(
    pause: Pause,
    occasion: str,
    *,
    to: Iterable[User] | None = None,
    mark: str = "",
    words: str = "",
) -> int:
    """Have those who may answer a question told of something, once each.

    Gives how many messages it came to.

    Call inside the transaction of what causes it; the relay sends after the commit. The same call
    again adds nothing.

    Args:
        occasion: one of `Occasion`; what is not of the question's end is sent only while the
            question is open.
        to: these people alone, at their own places. None: whoever may answer now
            (`policy.answerers`), with the endpoints of their teams and of whoever listens to
            everything.
        mark: tells apart what happens several times, e.g. the number of a reminder.
        words: said instead of the question's own words.
    """
    template = pause.run.frozen.template_slug
    if to is not None:
        at = places(occasion, list(to), template=template)
        return plan_at(pause, occasion, at, mark=mark, words=words)
    people = list(policy.answerers(pause))
    return plan_at(
        pause,
        occasion,
        _places(occasion, people, template, others=_listening(pause, people)),
        mark=mark,
        words=words,
    )


def plan_at(
    pause: Pause, occasion: str, at: Iterable[Mapping[str, Any]], *, mark: str = "", words: str = ""
) -> int:
    """`plan` for `links` that were looked up before."""
    return write(at_places(pause, occasion, at, mark=mark, words=words))


def at_places(
    pause: Pause, occasion: str, at: Iterable[Mapping[str, Any]], *, mark: str = "", words: str = ""
) -> list[Delivery]:
    """What `plan_at` writes."""
    return [_row(pause, occasion, mark, words, **place) for place in at]


def places(occasion: str, people: Sequence[User], *, template: str) -> list[dict[str, Any]]:
    """Where these people alone are told of something about work by that template."""
    own = Endpoint.objects.filter(owner__in=people, enabled=True)
    return list(_places(occasion, people, template, others=own))


def plan_outside(pause: Pause, occasion: str, *, mark: str = "") -> int:
    """`plan` for those without an account to whom the question is put (`Pause.outside`), whose turn
    it is, and who have not voted.
    """
    return write(outside(pause, occasion, mark=mark))


def outside(pause: Pause, occasion: str, *, mark: str = "") -> list[Delivery]:
    """What `plan_outside` writes."""
    to = external_access.asked_now(pause)
    if not to:
        return []
    voted = set(
        pause.votes.filter(external_key__isnull=False).values_list("external_key", flat=True)
    )
    return [
        _row(pause, occasion, mark, "", **_outside(address))
        for address in to
        if outsiders.key_of(address) not in voted
    ]


def write_to(pause: Pause, occasion: str, address: str, *, mark: str = "", words: str = "") -> int:
    """`plan` for somebody who has no account here."""
    return write([_row(pause, occasion, mark, words, **_outside(address))])


def _outside(address: str) -> dict[str, Any]:
    return {"channel": Channel.EMAIL, "place": place_outside(address), "contact": address}


def place_outside(address: str) -> str:
    return f"mail:{outsiders.key_of(address)}"


def plan_refined(pause: Pause, *, by: Actor) -> None:
    """Tell those who were asked that an answer did not fit, and why; not who gave it.

    Call inside the transaction that counted it.
    """
    if pause.attempts > REFINED_AT_MOST:
        return
    asked = (
        Delivery.objects.filter(pause=pause, occasion=Occasion.ASKED)
        .exclude(status__in=[DeliveryStatus.DEAD, DeliveryStatus.CANCELLED])
        .order_by("id")
    )
    rows = {
        delivery.place: _row(
            pause,
            Occasion.REFINED,
            str(pause.attempts),
            delivery.words,
            contact=delivery.contact,
            **place_again(delivery),
        )
        for delivery in (
            asked.exclude(recipient=by)
            if isinstance(by, User)
            else asked.exclude(place=place_outside(by.address))
        )
    }
    write(rows.values())


def announce(*, limit: int = ROUND) -> int:
    """Plan for pauses that were opened or closed since the last round; gives how many those were.

    Two rounds at once do no harm.

    A pause that cannot be read does not hold up the others; `invariants` names it.
    """
    announced, after = 0, uuid.UUID(int=0)
    # those that fail stay first in line for ever: the round goes on behind them
    while announced < limit:
        keys = list(
            Pause.objects.untold()
            .filter(pk__gt=after)
            .order_by("id")
            .values_list("pk", flat=True)[: limit - announced]
        )
        if not keys:
            break
        after = keys[-1]
        for key in keys:
            with RoundItem(logger, ids.show(Pause.PREFIX, key)) as row:
                _announce(key)
            announced += row.error is None
    return announced


@transaction.atomic(durable=True)
def _announce(pause_id: uuid.UUID) -> None:
    pause = Pause.objects.select_related("run__thread", "run__parent").get(pk=pause_id)
    if not Pause.objects.mark_told(pause):
        return  # another round was first, or it was closed just now: the next round sees that
    if pause.status == PauseStatus.OPEN:
        plan(pause, Occasion.ASKED)
        plan_outside(pause, Occasion.ASKED)
    else:
        _tell_the_end(pause)


def _tell_the_end(pause: Pause) -> None:
    """Take back what was not sent yet; tell who was asked, and the systems that listen, what became
    of the question.
    """
    asking = Delivery.objects.filter(pause=pause, occasion__in=ASKING)
    asking.filter(status=DeliveryStatus.QUEUED).update(status=DeliveryStatus.CANCELLED)
    occasion, template = ENDS[PauseStatus(pause.status)], pause.run.frozen.template_slug
    decision = Decision.objects.answer_to(pause)
    by = None if decision is None else decision.decided_by_id
    from_outside = (
        place_outside(demand(decision.external))
        if decision is not None and decision.external
        else ""
    )
    rows: dict[str, Delivery] = {}
    for delivery in (
        asking.filter(status__in=[DeliveryStatus.SENT, DeliveryStatus.SENDING])
        .select_related("endpoint")
        .order_by("id")
    ):
        # what stands in a chat is changed also for who knows: its buttons go
        knows = not posts(delivery.channel) and (
            delivery.place == from_outside
            or (delivery.recipient_id is not None and delivery.recipient_id == by)
        )
        if not knows and (
            delivery.endpoint is None
            or (delivery.endpoint.enabled and delivery.endpoint.hears(occasion, template))
        ):
            rows[delivery.place] = _row(
                pause, occasion, "", "", contact=delivery.contact, **place_again(delivery)
            )
    for endpoint in _listening(pause, []).filter(channel=Channel.WEBHOOK):
        if endpoint.hears(occasion, template):
            rows.setdefault(place_of(endpoint), _row(pause, occasion, "", "", **at(endpoint)))
    write(rows.values())


def _listening(pause: Pause, people: Iterable[User]) -> EndpointQuerySet:
    groups = {name for actors in policy.named(pause) for name in actors.get("groups", [])}
    return Endpoint.objects.hearing(pause, people=[person.pk for person in people], groups=groups)


def place_of(endpoint: Endpoint) -> str:
    return f"end:{endpoint.pk.hex}"


def place_again(delivery: Delivery) -> dict[str, Any]:
    """The place of an earlier message."""
    return {
        "channel": delivery.channel,
        "place": delivery.place,
        "recipient_id": delivery.recipient_id,
        "endpoint_id": delivery.endpoint_id,
    }


def at(endpoint: Endpoint) -> dict[str, Any]:
    """Where an endpoint is told of something; one's own mail is the account's place."""
    return {
        "channel": endpoint.channel,
        "place": f"user:{endpoint.owner_id}" if endpoint.is_own_mail else place_of(endpoint),
        "endpoint_id": endpoint.pk,
        "recipient_id": endpoint.owner_id,
    }


def _places(
    occasion: str, people: Sequence[User], template: str, *, others: EndpointQuerySet
) -> Iterator[dict[str, Any]]:
    """Where these people, and those who listen, are told of something."""
    mail = {
        one.owner_id: one
        for one in Endpoint.objects.filter(owner__in=people, channel=Channel.EMAIL)
    }
    for person in people:
        own = mail.get(person.pk)
        if own is None and person.email:
            yield {
                "channel": Channel.EMAIL,
                "place": f"user:{person.pk}",
                "recipient_id": person.pk,
            }
        elif own is not None and own.enabled and own.hears(occasion, template):
            yield at(own)
    for endpoint in others.exclude(owner__isnull=False, channel=Channel.EMAIL):
        if endpoint.hears(occasion, template):
            yield at(endpoint)


def _row(pause: Pause, occasion: str, mark: str, words: str, **place: Any) -> Delivery:
    now = clock.now()
    return Delivery(
        pause=pause, occasion=occasion, mark=mark, words=words, next_at=now, made_at=now, **place
    )


def write(rows: Iterable[Delivery]) -> int:
    """Write messages that are to be sent, of one question or several; gives how many were new."""
    return len(Delivery.objects.bulk_create(rows, ignore_conflicts=True))
