"""Slack with buttons: a question is a message of our app, which is changed once it is settled.

All that people wrote is sent as plain text: nothing in it is a mention, a link or a button. A press
of a button carries the question's id and revision alone; what it may do is decided when it comes
(`extensions.slack.interactions`).
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext

from checkpoints.models.fields import demand
from checkpoints.text import dates, invisible
from hitl.channels import words
from hitl.channels.protocol import OutboundMessage
from hitl.decisions import answers
from hitl.models.outbound import ASKING, Delivery
from hitl.outbound import addresses, links
from hitl.outbound.addresses import AddressRefused, CannotReach, TryLater
from runs.models import Pause
from runs.workflows.sequence import APPROVE

PLACE = re.compile(r"[CDGUW][A-Z0-9]{5,20}")
"""Ids of channels and people."""
SECTION, HEADER, BUTTON = links.CHAT_CONTENT, links.CHAT_QUESTION, 75
"""Characters that Slack takes in the texts of a block."""
BUTTONS = 20
LATER = frozenset({"ratelimited", "internal_error", "fatal_error", "service_unavailable",
                   "request_timeout", "invalid_auth", "token_revoked", "token_expired",
                   "not_authed", "account_inactive"})  # fmt: skip
"""Errors that trying again may mend, also by an operator who puts the token right."""
FIXED = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})
"""Errors of a message that cannot be changed any more."""


class MessageFixed(AddressRefused):
    """The message was deleted, or may not be changed."""


def call(method: str, body: dict[str, Any], *, seconds: float | None = None) -> dict[str, Any]:
    """Call a method of Slack's Web API; raises AddressRefused where it is of no use, CannotReach
    where it may be later.
    """
    if not settings.WAYSTATION_SLACK_TOKEN:
        raise CannotReach("WAYSTATION_SLACK_TOKEN is not set.")
    answer = _post(
        f"{settings.WAYSTATION_SLACK_API}/{method}",
        body,
        {"Authorization": f"Bearer {settings.WAYSTATION_SLACK_TOKEN}"},
        seconds=seconds,
    )
    try:
        told = json.loads(answer)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise CannotReach("Slack answered what is no JSON.")
    if told.get("ok") is not True:
        error = str(told.get("error"))[:60]
        refused = MessageFixed if error in FIXED else AddressRefused
        raise (CannotReach if error in LATER else refused)(f"Slack refused: {error}.")
    return told


def _post(url: str, body: Any, headers: dict[str, str], *, seconds: float | None = None) -> bytes:
    target, address = addresses.check(url)
    sent = {
        **headers,
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": "Waystation",
    }
    raw = json.dumps(body, ensure_ascii=False).encode()
    answer = addresses.exchange("POST", target, address, sent, body=raw, seconds=seconds)
    if answer.status == 429 or answer.status >= 500:
        raise TryLater(f"Slack answered {answer.status}.", answer.retry_after)
    if answer.status >= 300:
        raise AddressRefused(f"Slack answered {answer.status}.")
    return answer.body


def post(place: str, content: dict[str, Any]) -> str:
    """Post a message; gives its channel and time. Raises as `call`."""
    told = call("chat.postMessage", {**content, "channel": place, "unfurl_links": False})
    return f"{told.get('channel')} {told.get('ts')}"


def change(kept: str, content: dict[str, Any]) -> bool:
    """Change the message of this channel and time; False where that is not possible any more.
    Raises as `call`.
    """
    channel, _, at = kept.partition(" ")
    try:
        call("chat.update", {**content, "channel": channel, "ts": at})
    except MessageFixed:
        return False
    return True


def render(delivery: Delivery, message: OutboundMessage) -> dict[str, Any]:
    """What a message is posted with."""
    return {"text": _escaped(message.subject), "blocks": blocks_of(delivery, message)}


def whisper(delivery: Delivery) -> None:
    """Tell one person what became of what they pressed, by the address that came with it."""
    url = str(demand(delivery.contact))
    api = urlsplit(settings.WAYSTATION_SLACK_API).hostname
    if urlsplit(url).hostname not in {api, f"hooks.{api}"}:
        raise AddressRefused(f"Answers to Slack go to hooks.{api}.")
    text = invisible.plain(str(demand(delivery.words)))
    blocks: list[dict[str, Any]] = [_section(text)]
    if delivery.recipient_id is None:
        blocks.append(
            {"type": "actions", "elements": [_button(gettext("Connect"), "connect", "connect")]}
        )
    said = {
        "response_type": "ephemeral",
        "replace_original": False,
        "text": _escaped(text),
        "blocks": blocks,
    }
    _post(url, said, {})


def blocks_of(delivery: Delivery, message: OutboundMessage) -> list[dict[str, Any]]:
    """What a message shows: the question, its content, and buttons while it can be answered."""
    blocks = [{"type": "header", "text": plain_text(message.question, HEADER)}]
    small = [message.about, message.outcome]
    if message.due:
        small.append(gettext("Due %(when)s.") % {"when": dates.told(message.due)})
    blocks += [_section(line) for line in small if line]
    pause = delivery.pause
    if pause is None or delivery.occasion not in ASKING:
        return [*blocks, _way(message.url, gettext("Look at it"))]
    if message.content:
        blocks.append(_section(message.content))
    way = _way(message.url, gettext("Look at it"))
    if links.may_answer_in_chat(pause):
        way["elements"] = [*buttons(pause), *way["elements"]]
    else:
        way["elements"][0]["text"] = plain_text(gettext("Look at it and answer"), BUTTON)
    return [*blocks, way]


def buttons(pause: Pause) -> list[dict[str, Any]]:
    made = []
    for name in words.offered(pause)[:BUTTONS]:
        value = f"{pause.shown_id} {pause.revision}"
        made.append(_button(answers.label_of(pause, name), f"answer:{name}"[:255], value))
        if name == APPROVE:
            made[-1]["style"] = "primary"
    return made


def _button(label: str, action: str, value: str) -> dict[str, Any]:
    return {
        "type": "button",
        "text": plain_text(label, BUTTON),
        "action_id": action,
        "value": value,
    }


def _way(url: str, label: str) -> dict[str, Any]:
    button = {"type": "button", "text": plain_text(label, BUTTON), "url": url, "action_id": "look"}
    return {"type": "actions", "elements": [button]}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": plain_text(text, SECTION)}


def plain_text(text: str, most: int) -> dict[str, Any]:
    """Words that Slack reads no markup in, at most so many characters."""
    return {"type": "plain_text", "text": _plain(text, most), "emoji": False}


def _escaped(text: str) -> str:
    """For the one text that Slack reads markup in."""
    plain = _plain(text, SECTION)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _plain(text: str, most: int) -> str:
    plain = invisible.plain(text).strip() or "…"
    return plain if len(plain) <= most else plain[: most - 1] + "…"
