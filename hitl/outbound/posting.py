"""Messages of channels that post questions themselves: what settles a question changes what asked
it, wherever it was answered.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db import transaction
from django.utils.translation import gettext

from checkpoints.models.fields import demand
from hitl.channels.protocol import NotTaken, PostingChannel
from hitl.decisions import notifications
from hitl.models.outbound import ASKING, Delivery, Occasion
from hitl.outbound import links, messages
from hitl.rendering.links import place_of
from runs.models import Pause


def send(channel: PostingChannel, delivery: Delivery) -> None:
    """Say something at an endpoint, and keep where it stands.

    Raises AddressRefused where that is of no use, CannotReach where it may be later.
    """
    if delivery.occasion == Occasion.REPLIED:
        channel.whisper(delivery)
        return
    assert delivery.endpoint is not None
    place = str(demand(delivery.endpoint.target))
    content = channel.render(delivery, messages.of(delivery))
    asking = delivery.pause is not None and delivery.occasion in ASKING
    shown = [] if asking or delivery.pause is None else list(_shown(delivery))
    changed = [channel.change(kept, content) for kept in shown]
    if shown and all(changed):
        return
    kept = channel.post(place, content)
    Delivery.objects.filter(pk=delivery.pk).update(kept_as=kept[:80])


def ask_again(channel: str, pause: Pause, kept: str) -> None:
    """Have the revision that is open now asked once more where an old message was pressed, at
    `kept`: what was shown is what is approved.
    """
    asked = Delivery.objects.filter(pause=pause, channel=channel, kept_as=kept).first()
    newer = links.newer_than(pause)
    if asked is not None and newer is not None:
        place = notifications.place_again(asked)
        with transaction.atomic():
            notifications.plan_at(newer, Occasion.ASKED, [place], mark="pressed")


def elsewhere(pause: Pause) -> NotTaken:
    """What is said where a question is answered on its page alone."""
    text = gettext("Nothing was decided here. Answer on its page: %(page)s")
    return NotTaken("elsewhere", text % {"page": links.absolute(place_of(pause))}, pause)


def _shown(delivery: Delivery) -> Iterator[str]:
    """Where each message stands that asks this question at this place."""
    asked = Delivery.objects.filter(
        pause=delivery.pause_id, place=delivery.place, occasion__in=ASKING
    ).exclude(kept_as="")
    yield from asked.order_by("id").values_list("kept_as", flat=True)
