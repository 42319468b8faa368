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
    """Return all channels that are switched on, ordered by name."""
    return [cast(Channel, services[name]) for name in sorted(services)]


def posting() -> list[PostingChannel]:
    """Return the channels that post questions and are set up."""
    return [
        channel
        for channel in channels()
        if isinstance(channel, PostingChannel) and channel.in_use()
    ]


def find_posting(name: str) -> PostingChannel | None:
    """Return the channel of this name if it can post, even where it is not set up; else None."""
    channel = services.get(name)
    return channel if isinstance(channel, PostingChannel) else None


def invitation(delivery: Delivery, message: OutboundMessage) -> Invitation:
    """Return how a person answers a mail or chat message in the place where it arrives; an empty
    invitation where no channel takes answers there.
    """
    invitations = (channel.invite(delivery, message) for channel in channels())
    return next((invited for invited in invitations if invited is not None), Invitation())
