"""The way of every message that comes in: whose it is, what it answers, what becomes of it."""

from __future__ import annotations

from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from checkpoints import ids
from checkpoints.database.people import User
from hitl.channels import accounts, words
from hitl.channels.protocol import Channel, InboundMessage, NotTaken, Outcome
from hitl.decisions import visibility
from hitl.identity import languages
from runs.models import Pause

GONE = gettext_lazy("Nothing was decided: this question is not there any more.")


def receive(channel: Channel, message: InboundMessage, by: User | None) -> Any:
    """Act on a message that was verified; gives the body that its request is answered with.

    Args:
        by: whose message it is, by `channel.person`.
    """
    with languages.spoken_to(by.pk if by is not None else None):
        try:
            outcome = _decided(channel, message, by)
        except NotTaken as refused:
            outcome = refused.outcome
        return channel.tell(message, by, outcome)


def _decided(channel: Channel, message: InboundMessage, by: User | None) -> Outcome | None:
    if message.code is not None:
        return _connected(channel, message, message.code)
    given = channel.take(message, by)
    if given is None:
        return None
    assert by is not None, f"{channel.name} took an answer of nobody's"
    return words.give(given.pause, given.answer, by=by)


def _connected(channel: Channel, message: InboundMessage, code: str) -> Outcome:
    """Connect the sender's account with whom the code was shown to."""
    sender = message.sender
    if not (sender.team and sender.account):
        return Outcome(False, "unknown_sender", str(channel.stranger))
    try:
        user = accounts.connect(channel.name, sender.team, sender.account, code)
    except accounts.TooManyAccounts as error:
        return Outcome(False, error.code, str(error))
    if user is None:
        text = gettext("This code is not valid now. Show a new one.")
        return Outcome(False, "no_code", text)
    with languages.spoken_to(user.pk):
        name = user.get_full_name() or user.get_username()
        return Outcome(True, "connected", str(channel.connected) % {"name": name})


def question(shown: str, *, by: User, gone: str | Promise = GONE) -> Pause:
    """The question of an id that a message names, for somebody who sees it; raises NotTaken."""
    pause = find(shown)
    if pause is None or not visibility.sees_pause(pause.pk, by=by):
        raise NotTaken("not_found", str(gone))
    return pause


def find(shown: str) -> Pause | None:
    """The question of an id, whoever may see it."""
    try:
        key = ids.parse(Pause.PREFIX, shown)
    except ValueError:
        return None
    return Pause.objects.shown().filter(pk=key).first()
