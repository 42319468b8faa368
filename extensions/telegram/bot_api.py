"""The Bot API, as far as a bot needs it that posts questions: https://core.telegram.org/bots/api.

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

TEXT, ALERT = 4096, 200  # units of UTF-16 of a message, and of what a press brings up
FIXED = re.compile(r"message can't be edited|message to edit not found|MESSAGE_ID_INVALID")


def call(method: str, body: dict[str, Any]) -> Any:
    """Call a method; gives its result, None of a message that is too old to change, or deleted.

    Raises AddressRefused where that is of no use, CannotReach where it may be later.
    """
    token = settings.WAYSTATION_TELEGRAM_TOKEN
    if not re.fullmatch(r"[0-9]+:[\w-]+", token, re.ASCII):
        raise CannotReach("WAYSTATION_TELEGRAM_TOKEN is not set, or no token of a bot.")
    target, address = addresses.check(f"{settings.WAYSTATION_TELEGRAM_API}/bot{token}/{method}")
    kind = {"Content-Type": "application/json", "User-Agent": "Waystation"}
    reply = addresses.exchange("POST", target, address, kind, body=json.dumps(body).encode())
    try:
        told = at(json.loads(reply.body))
    except ValueError:
        told = {}
    why = text(told, "description", most=200).replace(token, "…")
    if told.get("ok") is True or "message is not modified" in why:
        return at(told, "result")
    said = f"Telegram answered {reply.status}. {why}".strip()
    if reply.status == 429 or reply.status >= 500:
        seconds = at(told, "parameters").get("retry_after")
        raise TryLater(said, seconds if isinstance(seconds, int) else reply.retry_after)
    if reply.status in {401, 404} or reply.status < 400:  # the token, which operators put right
        raise CannotReach(said)
    if FIXED.search(why):
        return None
    raise AddressRefused(said)


def place_of(message: Any) -> str:
    return f"{at(message, 'chat').get('id')} {at(message).get('message_id')}"


def plain(line: str) -> str:
    """A text in which nothing mentions anybody: names are looked for in plain texts too."""
    return re.sub(r"(?<!\w)@(?=\w)", "@\u2060", invisible.plain(line).strip())


def cut(line: str, most: int) -> str:
    raw = (line or "…").encode("utf-16-le")
    short = raw if len(raw) <= 2 * most else raw[: 2 * most - 2] + "…".encode("utf-16-le")
    return short.decode("utf-16-le", "ignore")
