"""Sending what was planned: claimed by compare-and-set with a lease, sent outside any transaction,
recorded under the same claim.

A worker that dies between sending and recording leaves its lease, and another sends again, under
the same id: at least once.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import random
import time
import uuid

from django.conf import settings
from django.db import transaction
from django.db.models import F

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.database.rounds import RoundItem
from checkpoints.models.fields import demand
from checkpoints.state import encryption
from checkpoints.store.prepared_queries import Prepared
from hitl.channels import registry
from hitl.channels.protocol import OutboundMessage
from hitl.identity import languages
from hitl.models import Comment
from hitl.models.outbound import (
    ASKING,
    Channel,
    Delivery,
    DeliveryStatus,
    Endpoint,
    Occasion,
    active_secrets,
)
from hitl.outbound import accounts, addresses, chat, mail, messages, posting, signatures
from hitl.outbound.addresses import AddressRefused, CannotReach, TryLater
from runs import keyed
from runs.states import PauseStatus
from runs.workflows.sequence import retry_delay

logger = logging.getLogger(__name__)

LEASE = dt.timedelta(seconds=120)
"""Longer than a message takes at its slowest: a name that is looked up, and
WAYSTATION_OUTBOUND_SECONDS.
"""
BATCH = 50
DIGEST, TOGETHER = 5, 50
"""Messages to one person or chat that are sent as one from so many on, and up to how many."""
FIRST, LONGEST = 30.0, 6 * 3600.0
"""Seconds until the second try, and between tries at most."""
SOON = dt.timedelta(seconds=5)
QUEUED, SENDING, SENT, DEAD, CANCELLED = (
    DeliveryStatus.QUEUED,
    DeliveryStatus.SENDING,
    DeliveryStatus.SENT,
    DeliveryStatus.DEAD,
    DeliveryStatus.CANCELLED,
)


class EndpointGone(AddressRefused):
    """The receiver says that it wants nothing any more (410)."""


def deliver(*, seconds: float, batch: int = BATCH) -> int:
    """Send what is due, for so long at most; gives how many messages were tried.

    Several workers may do so at once.

    A place that fails is left alone for the rest of the round, so that one that hangs does not hold
    up all others.
    """
    ends, tried, tired = time.monotonic() + seconds, 0, set[str]()
    while time.monotonic() < ends:
        due = (
            Delivery.objects.due(now=clock.now()).exclude(place__in=tired).order_by("next_at", "id")
        )
        keys = list(due.values_list("pk", "place")[:batch])
        for key, place in keys:
            if place in tired or time.monotonic() > ends:
                continue
            with RoundItem(logger, ids.show(Delivery.PREFIX, key)) as row:
                delivery = _claim(key)
                if delivery is not None:
                    tried += 1
                    if not _attempt(delivery):
                        tired.add(place)
            if row.error is not None:
                tired.add(place)
                _pass_over(key, row.error)
        if len(keys) < batch:
            break
    return tried


def _pass_over(key: uuid.UUID, error: Exception) -> None:
    """Put off a message that failed in a way that nobody foresaw, as one whose receiver does not
    answer: others go before it.
    """
    failed = Delivery.objects.filter(pk=key, status=SENDING).first()
    if failed is not None:
        _put_off(
            failed,
            CannotReach(
                f"It could not be made or sent here: {type(error).__name__}. Operators find "
                "the reason in the log."
            ),
        )


def send_now(delivery: Delivery) -> None:
    """Try one message at once; what came of it is in its row.

    Where a worker is at it already, nothing is done.
    """
    claimed = _claim(delivery.pk)
    if claimed is not None:
        _attempt(claimed)


class NotHeldBack(Exception):
    """A message that nothing holds back: it is not sent again, and not sooner."""

    code = "delivery_not_held_back"


def send_again(delivery: Delivery) -> bool:
    """Queue a message anew that was given up, or send one now that failed and waits for its next
    try; False where it is neither.

    Its id stays, so a receiver that has it after all knows.
    """
    now = clock.now()
    mine = Delivery.objects.filter(pk=delivery.pk)
    with transaction.atomic():
        done = mine.filter(status=DEAD).update(
            status=QUEUED, attempts=0, next_at=now, error=""
        ) or mine.filter(status=QUEUED, attempts__gt=0, next_at__gt=now).update(next_at=now)
        if done:
            keyed.made(delivery.shown_id)
    return bool(done)


def _claim(key: uuid.UUID) -> Delivery | None:
    """Take a message; of two workers one gets None."""
    fields = {
        "status": SENDING,
        "claim": uuid.uuid4(),
        "lease_until": clock.FromNow(LEASE.total_seconds()),
    }
    if (
        not Delivery.objects.due(now=clock.FromNow())
        .filter(pk=key)
        .update(**fields, attempts=F("attempts") + 1)
    ):
        return None
    [claimed] = _shown.get(key)
    return claimed


_shown = Prepared(
    lambda key: (
        Delivery.objects.shown()
        .select_related("pause__run__definition", "pause__run__parent", "run__definition")
        .filter(pk=key)
    ),
    uuid.UUID,
)


def _attempt(delivery: Delivery) -> bool:
    """Send a claimed message and record what came of it; False where its place had better be left
    alone for a while.
    """
    if not _ready(delivery):
        return True
    together = [delivery, *_joining(delivery)]
    try:
        with languages.spoken_to(delivery.recipient_id):
            together = _send(together)
    except AddressRefused as error:
        for companion in together:
            _record(companion, DEAD, error=str(error))
        if isinstance(error, EndpointGone):
            Endpoint.objects.filter(deliveries=delivery).update(
                enabled=False, why_disabled="The receiver answered 410 Gone."
            )
        return True
    except (CannotReach, encryption.KeyMissing, encryption.SealBroken) as error:
        for companion in together:
            _put_off(companion, error)
        return False
    for companion in together:
        _record(companion, SENT, sent_at=clock.now(), error="")
    return True


def _ready(delivery: Delivery) -> bool:
    """Whether a claimed message is to be sent now; what else becomes of it is recorded."""
    if delivery.attempts > settings.WAYSTATION_OUTBOUND_TRIES:
        _record(delivery, DEAD, error="Given up: the workers that tried did not come back.")
        return False
    overtaken = _overtaken(delivery)
    if overtaken == "":
        _record(delivery, QUEUED, next_at=clock.now() + SOON, attempts=delivery.attempts - 1)
    elif overtaken is not None:
        _record(delivery, CANCELLED, error=overtaken)
    return overtaken is None


def _joining(delivery: Delivery) -> list[Delivery]:
    """The others that wait for the same person or chat, claimed, where they are so many that one
    message lists them all.
    """
    to_one = delivery.channel == Channel.APPRISE or (
        delivery.channel == Channel.EMAIL and delivery.recipient is not None
    )
    if not to_one or delivery.occasion not in ASKING:
        return []
    others = Delivery.objects.due(now=clock.now()).filter(
        place=delivery.place, channel=delivery.channel, occasion__in=ASKING
    )
    keys = list(others.order_by("id").values_list("pk", flat=True)[:TOGETHER])
    if len(keys) < DIGEST - 1:
        return []
    claimed = [candidate for key in keys if (candidate := _claim(key)) is not None]
    return [candidate for candidate in claimed if _ready(candidate)]


def _overtaken(delivery: Delivery) -> str | None:
    """Why a message is not sent any more; "" where it has to wait for another one; None where it is
    to be sent.
    """
    if delivery.endpoint is None and delivery.place.startswith("end:"):
        return "The endpoint was removed."
    if (
        delivery.endpoint is not None
        and not delivery.endpoint.enabled
        and delivery.occasion != Occasion.TEST
    ):
        return "The endpoint is switched off."
    if delivery.recipient is not None and not delivery.recipient.is_active:
        return "The account is switched off."
    if delivery.occasion == Occasion.ACCOUNT:
        return accounts.overtaken(delivery, now=clock.now())
    if delivery.pause is None or delivery.occasion == Occasion.REPLIED:
        return None
    if delivery.occasion in ASKING:
        return (
            None if delivery.pause.status == PauseStatus.OPEN else "The question was closed before."
        )
    if delivery.occasion == Occasion.MENTIONED:
        said = Comment.objects.standing().filter(pk=ids.parse(Comment.PREFIX, delivery.mark))
        return None if said.exists() else "The comment was taken back."
    if delivery.channel == Channel.WEBHOOK:
        return None
    asked = set(
        Delivery.objects.filter(
            pause=delivery.pause, place=delivery.place, occasion__in=ASKING
        ).values_list("status", flat=True)
    )
    if SENT in asked:
        return None
    return "" if SENDING in asked else "The question itself was never sent."


def _send(together: list[Delivery]) -> list[Delivery]:
    """Send a message, or several as one; gives those that are sent by it: one that cannot be made
    is left out of a digest.

    Raises AddressRefused where it is of no use, CannotReach where it may be later.
    """
    delivery = together[0]
    if len(together) > 1:
        digest = _digest(together)
        if not digest:
            return []
        if delivery.channel == Channel.EMAIL:
            mail.send_digest(delivery, list(digest.values()))
        else:
            _say(
                delivery,
                title=f"{len(digest)} questions wait",
                text=messages.list_of(list(digest.values())),
            )
        return list(digest)
    if delivery.channel == Channel.WEBHOOK:
        _post(delivery)
        return together
    if delivery.occasion == Occasion.ACCOUNT:
        accounts.send(delivery)
        return together
    if delivery.channel == Channel.EMAIL:
        mail.send(delivery, messages.of(delivery))
    elif delivery.channel == Channel.APPRISE:
        message = messages.of(delivery)
        text = messages.text_of(message) + registry.invitation(delivery, message).text
        _say(delivery, title=message.subject, text=text)
    elif (channel := registry.find_posting(delivery.channel)) is not None:
        posting.send(channel, delivery)
    else:
        raise CannotReach(
            f"The channel {delivery.channel} is not switched on here (WAYSTATION_EXTENSIONS)."
        )
    return together


def _say(delivery: Delivery, *, title: str, text: str) -> None:
    assert delivery.endpoint is not None
    chat.send(demand(delivery.endpoint.target), title=title, text=text)


def _digest(together: list[Delivery]) -> dict[Delivery, OutboundMessage]:
    """What each of several says."""
    said = {}
    for delivery in together:
        with RoundItem(logger, delivery.shown_id) as row:
            said[delivery] = messages.of(delivery)
        if row.error is not None:
            _pass_over(delivery.pk, row.error)
    return said


def _post(delivery: Delivery) -> None:
    endpoint = delivery.endpoint
    assert endpoint is not None
    now = clock.now()
    demand(endpoint.secrets)
    body = json.dumps(messages.payload_of(delivery), ensure_ascii=False).encode()
    signed = signatures.headers(
        delivery.shown_id, int(now.timestamp()), body, active_secrets(endpoint, now=now)
    )
    headers = {**signed, "Content-Type": "application/json", "User-Agent": "Waystation"}
    answer = addresses.post(
        demand(endpoint.target), body, headers, seconds=settings.WAYSTATION_OUTBOUND_SECONDS
    )
    if 200 <= answer.status < 300:
        return
    if answer.status == 410:
        raise EndpointGone("The receiver answered 410 Gone; its endpoint is switched off.")
    redirect = " Redirects are not followed." if 300 <= answer.status < 400 else ""
    raise TryLater(f"The receiver answered {answer.status}.{redirect}", answer.retry_after)


def _put_off(delivery: Delivery, error: Exception) -> None:
    if delivery.attempts >= settings.WAYSTATION_OUTBOUND_TRIES:
        _record(delivery, DEAD, error=str(error))
        return
    jitter = 0.5 + random.random() / 2  # noqa: S311  # spreads tries, hides nothing
    seconds = max(
        retry_delay(delivery.attempts, base=FIRST, cap=LONGEST, jitter=jitter),
        getattr(error, "seconds", 0),
    )
    _record(delivery, QUEUED, error=str(error), next_at=clock.now() + dt.timedelta(seconds=seconds))


def _record(delivery: Delivery, status: DeliveryStatus, **fields: object) -> None:
    """Write what came of a try, unless its lease was lost and another worker is at it."""
    mine = Delivery.objects.filter(id=delivery.id, claim=delivery.claim, status=SENDING)
    mine.update(status=status, lease_until=None, claim=None, **fields)
