"""The channels that are switched on: an extension registers its own when its app is ready."""

from __future__ import annotations

from typing import cast

from hitl.channels.protocol import Channel, Invitation, OutboundMessage, PostingChannel
from hitl.models.channels import services
from hitl.models.outbound import Delivery


def register(channel: Channel) -> None:
    """Switch a channel on; call in `ready`."""
    services[channel.name] = channel


def channels() -> list[Channel]:
    """All of them, by name."""
    return [cast(Channel, services[name]) for name in sorted(services)]


def posting() -> list[PostingChannel]:
    """Those that post questions and are set up."""
    return [one for one in channels() if isinstance(one, PostingChannel) and one.in_use()]


def find_posting(name: str) -> PostingChannel | None:
    """The channel of this name, where it posts; also where it is not set up."""
    channel = services.get(name)
    return channel if isinstance(channel, PostingChannel) else None


def invitation(delivery: Delivery, message: OutboundMessage) -> Invitation:
    """How a mail, or a message of a chat, is answered where it arrives; an empty one where it is
    not.
    """
    made = (channel.invite(delivery, message) for channel in channels())
    return next((invited for invited in made if invited is not None), Invitation())
