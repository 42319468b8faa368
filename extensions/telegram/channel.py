"""The channel: a bot's messages and its webhook.

What is pressed is answered in the response of its own request, which the Bot API takes as a call of
a method. Whoever presses answers as their own account, in a group too: a chat is nobody.
"""

import hmac
import re
from typing import Any

from django.conf import settings
from django.utils.translation import gettext, gettext_lazy
from drf_spectacular.utils import OpenApiParameter

from checkpoints.database.people import User
from checkpoints.state import codec
from extensions.telegram import bot_api
from hitl.channels import protocol, receiving, words
from hitl.channels.protocol import Given, InboundMessage, NotTaken, OutboundMessage, Outcome, Sender
from hitl.channels.values import at, text
from hitl.decisions import answers
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.models.outbound import ASKING, Delivery
from hitl.outbound import links, messages, posting
from runs.models import Pause
from runs.states import PauseStatus

HEADER = "X-Telegram-Bot-Api-Secret-Token"
COMMAND = re.compile(r"/(?:start|connect)(?:@\w+)?\s+(\S.{0,100})", re.DOTALL)


class Telegram(protocol.PostingChannel):
    name = "telegram"
    label = "Telegram"
    connect = gettext_lazy("Write to the bot: /connect, and the code.")
    stranger = gettext_lazy(
        "Nothing was decided: I do not know yet who you are. Menu > Notifications > Chat accounts "
        "in Waystation shows a code; write to me alone: /connect, and the code."
    )
    place = gettext_lazy("Telegram, with buttons")
    places = re.compile(r"-?[1-9][0-9]{0,15}")  # a person's own chat has the id of their account
    example = "123456789"
    needs = ("WAYSTATION_TELEGRAM_TOKEN", "WAYSTATION_TELEGRAM_SECRET")
    signature = {"name": HEADER, "description": "The secret token of the bot's webhook."}
    operation = {
        "parameters": [OpenApiParameter(HEADER, str, OpenApiParameter.HEADER, required=True)],
        "summary": "Take what was pressed in Telegram, or written to the bot",
        "description": "The webhook of a bot. The body is a call of a method of the Bot API, which "
        "says what became of the update. 401: without the webhook's secret token.",
    }

    def verify(self, request: protocol.SignedRequest) -> InboundMessage:
        secret, given = settings.WAYSTATION_TELEGRAM_SECRET, request.headers.get(HEADER, "")
        if not secret or not hmac.compare_digest(secret.encode(), given.encode()):
            raise protocol.Unsigned("This has not the webhook's secret token. Nothing was done.")
        update = at(request.json())
        pressed, written = at(update, "callback_query"), at(update, "message")
        sender = at(pressed or written, "from")
        is_person = sender.get("is_bot") is False and "sender_chat" not in written
        is_alone = text(written, "chat", "type") == "private"
        command = COMMAND.fullmatch(text(written, "text").strip()) if is_alone else None
        who = str(sender.get("id"))[:20] if is_person else ""
        key = f"{update.get('update_id')}:{text(pressed, 'id')}" if pressed else ""
        return InboundMessage(Sender("telegram", who), update, command and command[1], key)

    def take(self, message: InboundMessage, by: User | None) -> Given | None:
        pressed = at(message.body, "callback_query")
        if not pressed and text(message.body, "message", "chat", "type") != "private":
            return None  # what people say to each other in a group
        if by is None:
            raise NotTaken("unknown_sender", str(self.stranger))
        shown, revision, digest = [*text(pressed, "data").split("."), "", "", ""][:3]
        if not re.fullmatch("[0-9]{1,9}", revision):
            raise NotTaken("unclear", gettext("Press an answer below a question."))
        pause = receiving.question(f"pse_{shown}", by=by)
        action = next((name for name in pause.answers if codec.digest(name)[:12] == digest), "")
        is_open = pause.status == PauseStatus.OPEN and pause.revision == int(revision)
        if is_open and not (action and _is_answered_here(pause, action)):
            raise posting.elsewhere(pause)
        return Given(pause, Answer(action, Via.TELEGRAM, revision=int(revision)))

    def tell(self, message: InboundMessage, by: User | None, outcome: Outcome | None) -> Any:
        pressed, chat = at(message.body, "callback_query"), at(message.body, "message", "chat")
        if outcome is None:
            return {}
        said = outcome.words
        if outcome.code == "connected":
            said += " " + gettext("This chat has the id %(id)s.") % {"id": chat.get("id")}
        if not pressed:
            return {"method": "sendMessage", "chat_id": chat.get("id"), "text": said}
        if outcome.pause is not None and not outcome.taken:
            posting.ask_again(self.name, outcome.pause, bot_api.place_of(at(pressed, "message")))
        asked = {"method": "answerCallbackQuery", "callback_query_id": text(pressed, "id")}
        return {**asked, "text": bot_api.cut(said, bot_api.ALERT), "show_alert": True}

    def render(self, delivery: Delivery, message: OutboundMessage) -> dict[str, Any]:
        parts = [message.question, message.content, messages.text_of(message)]
        whole = "\n\n".join(bot_api.plain(part) for part in parts if part)
        shown = bot_api.cut(whole, bot_api.TEXT)
        asks = delivery.occasion in ASKING and shown == whole
        content = {"text": shown, "link_preview_options": {"is_disabled": True}}
        rows = _buttons(delivery.pause) if delivery.pause is not None and asks else []
        return {**content, "reply_markup": {"inline_keyboard": rows}}

    def post(self, place: str, content: dict[str, Any]) -> str:
        return bot_api.place_of(bot_api.call("sendMessage", {**content, "chat_id": int(place)}))

    def change(self, kept: str, content: dict[str, Any]) -> bool:
        chat, _, message = kept.partition(" ")
        place = {"chat_id": int(chat), "message_id": int(message)}
        return bot_api.call("editMessageText", {**content, **place}) is not None


def _is_answered_here(pause: Pause, action: str) -> bool:
    return links.may_answer_in_chat(pause) and not words.takes_words(pause, action)


def _buttons(pause: Pause) -> list[list[dict[str, str]]]:
    """A press carries what is meant, in 64 bytes; what it may do is decided when it comes."""
    about = f"{pause.shown_id.removeprefix('pse_')}.{pause.revision}"
    labels = {name: bot_api.plain(answers.label_of(pause, name)) for name in words.offered(pause)}
    return [
        [{"text": label, "callback_data": f"{about}.{codec.digest(name)[:12]}"}]
        for name, label in labels.items()
        if _is_answered_here(pause, name)
    ]


CHANNEL = Telegram()
