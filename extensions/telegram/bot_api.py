"""What a bot that posts questions needs of the Bot API: https://core.telegram.org/bots/api.

The token stands in every URL, so no error and no log line repeats one.
"""

import json
import re
from typing import Any

from django.conf import settings

from checkpoints.text import invisible
from hitl.channels.values import at, text
from hitl.outbound import addresses
from hitl.outbound.addresses import AddressRefused, CannotReach, TryLater

TEXT, ALERT = 4096, 200  # longest message, and longest notice after a press, in units of UTF-16
FIXED = re.compile(r"message can't be edited|message to edit not found|MESSAGE_ID_INVALID")
"""Errors of a message that cannot be changed any more."""


def call(method: str, body: dict[str, Any]) -> Any:
    """Call a method and return its result; None for a message that can no longer be changed.

    Raises AddressRefused where another try is of no use, CannotReach where it may help.
    """
    token = settings.WAYSTATION_TELEGRAM_TOKEN
    if not re.fullmatch(r"[0-9]+:[\w-]+", token, re.ASCII):
        raise CannotReach("WAYSTATION_TELEGRAM_TOKEN is not set, or no token of a bot.")
    target, address = addresses.check(f"{settings.WAYSTATION_TELEGRAM_API}/bot{token}/{method}")
    headers = {"Content-Type": "application/json", "User-Agent": "Waystation"}
    reply = addresses.exchange("POST", target, address, headers, body=json.dumps(body).encode())
    try:
        answer = at(json.loads(reply.body))
    except ValueError:
        answer = {}
    description = text(answer, "description", most=200).replace(token, "…")
    if answer.get("ok") is True or "message is not modified" in description:
        return at(answer, "result")
    error = f"Telegram answered {reply.status}. {description}".strip()
    if reply.status == 429 or reply.status >= 500:
        seconds = at(answer, "parameters").get("retry_after")
        raise TryLater(error, seconds if isinstance(seconds, int) else reply.retry_after)
    if reply.status in {401, 404} or reply.status < 400:  # a wrong token, which operators put right
        raise CannotReach(error)
    if FIXED.search(description):
        return None
    raise AddressRefused(error)


def place_of(message: Any) -> str:
    """Name a message by the ids of its chat and of itself."""
    return f"{at(message, 'chat').get('id')} {at(message).get('message_id')}"


def plain(line: str) -> str:
    """Return a text that mentions nobody: Telegram looks for names in plain texts too."""
    return re.sub(r"(?<!\w)@(?=\w)", "@\u2060", invisible.plain(line).strip())


def cut(line: str, most: int) -> str:
    """Shorten a text to `most` units of UTF-16."""
    raw = (line or "…").encode("utf-16-le")
    short = raw if len(raw) <= 2 * most else raw[: 2 * most - 2] + "…".encode("utf-16-le")
    return short.decode("utf-16-le", "ignore")
