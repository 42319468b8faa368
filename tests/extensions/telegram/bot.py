"""A stub of the Bot API, as its documents describe it, and what Telegram sends to a webhook.

Each answer is `{"ok": true, "result": …}` or `{"ok": false, "error_code", "description",
"parameters"}` with the HTTP status of `error_code`. Source: https://core.telegram.org/bots/api
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from django.test import Client

from extensions.telegram import channel
from tests.worlds.mailing import Receiver

DOOR = "/api/v1/channels/telegram"
TOKEN, SECRET = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", "s3cret-of-the-webhook-0123456789"
BEN, CHAT, GROUP = 1001, "1001", -100200300


@dataclass
class Bot:
    """The messages that stand in chats, and what was called."""

    receiver: Receiver
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    messages: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    refuses: dict[str, Any] = field(default_factory=dict)
    """What the next calls are refused with; {} where they are done."""
    changes: bool = True
    """Whether messages can still be changed."""

    def __post_init__(self) -> None:
        self.receiver.answer = self._answer

    def to(self, method: str) -> list[dict[str, Any]]:
        return [body for name, body in self.calls if name == method]

    def buttons(self, number: int = -1) -> dict[str, str]:
        """Label → what a press of it carries, of the message that was sent as such-and-such."""
        rows = self.to("sendMessage")[number]["reply_markup"]["inline_keyboard"]
        assert all(len(one["callback_data"].encode()) <= 64 for row in rows for one in row)
        return {one["text"]: one["callback_data"] for row in rows for one in row}

    def _answer(self, handler: Any) -> None:
        body = json.loads(self.receiver.got[-1][1])
        told = self.refuses or self._done(handler.path, body)
        raw = json.dumps(told).encode()
        handler.send_response(told.get("error_code", 200))
        handler.send_header("Content-Length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw)

    def _done(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        place, _, method = path.removeprefix("/api/").partition("/")
        if place != f"bot{TOKEN}":
            return refusal(401, "Unauthorized")
        self.calls.append((method, body))
        if method == "sendMessage":
            if len(body["text"].encode("utf-16-le")) > 8192:
                return refusal(400, "Bad Request: message is too long")
            key = (body["chat_id"], len(self.messages) + 1)
        else:
            key = (body["chat_id"], body["message_id"])
            if not self.changes:
                return refusal(400, "Bad Request: message can't be edited")
            if key not in self.messages:
                return refusal(400, "Bad Request: message to edit not found")
            if self.messages[key] == shown(body):
                return refusal(
                    400,
                    "Bad Request: message is not modified: specified new message content and reply "
                    "markup are exactly the same as a current content and reply markup of the "
                    "message",
                )
        self.messages[key] = shown(body)
        chat, number = key
        return {"ok": True, "result": {"message_id": number, "chat": {"id": chat}}}


def shown(body: dict[str, Any]) -> dict[str, Any]:
    return {"text": body["text"], "reply_markup": body.get("reply_markup")}


def refusal(code: int, description: str, **parameters: Any) -> dict[str, Any]:
    made = {"ok": False, "error_code": code, "description": description}
    return {**made, "parameters": parameters} if parameters else made


def deliver(update: dict[str, Any] | bytes, *, secret: str | None = SECRET) -> Any:
    """What Telegram sends to the webhook; gives the whole response."""
    body = update if isinstance(update, bytes) else json.dumps(update).encode()
    headers = {} if secret is None else {channel.HEADER: secret}
    return Client().post(DOOR, body, content_type="application/json", headers=headers)


def told(update: dict[str, Any]) -> dict[str, Any]:
    response = deliver(update)
    assert response.status_code == 200, response.content
    body: dict[str, Any] = response.json()
    return body


def press(data: str, *, who: int = BEN, number: int = 1, chat: int = BEN, at: int = 1) -> Any:
    """A button that somebody pressed; gives what it brings up."""
    return told(pressed(data, who=who, number=number, chat=chat, at=at))


def pressed(data: str, *, who: int = BEN, number: int = 1, chat: int = BEN, at: int = 1) -> Any:
    kind = "private" if chat > 0 else "supergroup"
    message = {"message_id": at, "chat": {"id": chat, "type": kind}, "text": "…"}
    asked = {"id": f"4382bfdwdsb323b2d{number}", "from": person(who), "message": message}
    return {"update_id": 10_000 + number, "callback_query": {**asked, "data": data}}


def write(text: str, *, who: int = BEN, chat: int = BEN, **more: Any) -> dict[str, Any]:
    """Words that somebody wrote; gives what the bot answers."""
    kind = "private" if chat > 0 else "supergroup"
    message = {"message_id": 7, "from": person(who), "chat": {"id": chat, "type": kind}}
    return told({"update_id": 9, "message": {**message, "text": text, **more}})


def person(who: int) -> dict[str, Any]:
    return {"id": who, "is_bot": False, "first_name": "Ben", "username": "root"}
