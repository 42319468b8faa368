"""Teams: words to an outgoing webhook (`@Waystation approve pse_…`) become an answer.

Teams signs the body with the webhook's security token (HMAC-SHA256, in base64), and shows what we
answer in the channel. It signs no time; the message's own is in the body, and an old one is
refused. Cards of such a webhook have no buttons that send anything, by Microsoft's word; those of a
bot are signed with keys that must be fetched from Microsoft, so they are no door here.

Source: Microsoft Learn, "Create Outgoing Webhooks".
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.utils.translation import gettext, gettext_lazy
from rest_framework import serializers

from checkpoints import ids
from checkpoints.database.people import User
from checkpoints.models.fields import demand
from checkpoints.text import invisible
from hitl.channels import receiving, words
from hitl.channels.html import text_of
from hitl.channels.protocol import (
    Channel,
    Given,
    InboundMessage,
    Invitation,
    NotTaken,
    OutboundMessage,
    Outcome,
    Sender,
    SignedRequest,
    Unsigned,
)
from hitl.channels.values import text
from hitl.models import Via
from hitl.models.outbound import ASKING, Delivery
from hitl.models.outbound import Channel as Way
from hitl.outbound import links, posting
from runs.models import Pause

TOLERANCE = dt.timedelta(minutes=5)
QUESTION = re.compile(r"\bpse_[0-9a-z]{20,40}\b")
MENTION = re.compile(r"<at[^<>]{0,100}>[^<>]{0,200}</at>")
WORKFLOWS = frozenset({"workflow", "workflows"})
"""Apprise's names of Teams."""
HOW = gettext_lazy(
    "Write “approve”, or “revise: …” with what should change, and the question's id: approve "
    "pse_… The message that asks it has the id."
)


class TeamsSaid(serializers.Serializer[Any]):
    type = serializers.ChoiceField(["message"])
    text = serializers.CharField()


class Teams(Channel):
    name = "teams"
    label = "Teams"
    connect = gettext_lazy("Write to the webhook, such as “@Waystation connect”, and the code.")
    stranger = gettext_lazy(
        "Nothing was decided: Waystation does not know yet who you are in Teams. Open Waystation, "
        "Menu > Notifications, choose “Connect an account”, and write to me: connect, and the code "
        "that is shown there."
    )
    signature = {
        "name": "Authorization",
        "description": "`HMAC <base64>` over the body, with the webhook's security token.",
    }
    operation = {
        "responses": {200: TeamsSaid},
        "summary": "Take what was written to an outgoing webhook of Teams",
        "description": (
            "The callback URL of an outgoing webhook; Teams shows the answer's text. 401: not "
            "signed with its security token, or the message is more than five minutes old."
        ),
    }

    def verify(self, request: SignedRequest) -> InboundMessage:
        header = request.headers.get("Authorization", "")
        if not is_genuine(settings.WAYSTATION_TEAMS_SECRETS, header=header, body=request.body):
            raise Unsigned("This was not signed by Teams. Nothing was done.")
        activity = request.json()
        if not isinstance(activity, Mapping) or not is_fresh(activity, now=request.now):
            raise Unsigned("The message is old, or does not say when it was written.")
        return read(activity)

    def take(self, message: InboundMessage, by: User | None) -> Given:
        if by is None:
            raise NotTaken("unknown_sender", str(self.stranger))
        written = str(message.body)
        shown = _question_in(written)
        if not shown:
            raise NotTaken("unclear", str(HOW))
        gone = gettext("Nothing was decided: there is no such question.")
        pause = receiving.question(shown, by=by, gone=gone)
        if not links.may_answer_in_chat(pause):
            raise posting.elsewhere(pause)
        said = re.sub(r"[ \t]+([:\n]|$)", r"\1", written.replace(shown, " ")).strip()
        try:
            answer = words.answer_in(said, pause, via=Via.TEAMS, revision=pause.revision)
        except words.Unclear as unclear:
            ended = gettext("%(ended)s Nothing was decided.") % {"ended": unclear}
            raise NotTaken(unclear.code, ended) from unclear
        return Given(pause, answer)

    def tell(
        self, message: InboundMessage, by: User | None, outcome: Outcome | None
    ) -> dict[str, str]:
        return {"type": "message", "text": outcome.words if outcome is not None else ""}

    def invite(self, delivery: Delivery, message: OutboundMessage) -> Invitation | None:
        """All that is asked, and the words that answer it."""
        pause, endpoint = delivery.pause, delivery.endpoint
        if delivery.channel != Way.APPRISE or pause is None or endpoint is None:
            return None
        service = str(demand(endpoint.target)).partition("://")[0].lower()
        asking = service in WORKFLOWS and delivery.occasion in ASKING
        set_up = bool(settings.WAYSTATION_TEAMS_SECRETS)
        if not (set_up and asking and links.may_answer_in_chat(pause)):
            return None
        content = f"\n\n{invisible.plain(message.content)}" if message.content else ""
        how = gettext("To answer, mention the webhook here: approve %(pause)s")
        return Invitation(text=f"{content}\n\n{how % {'pause': pause.shown_id}}")


def is_genuine(secrets: Sequence[str], *, header: str, body: bytes) -> bool:
    """Whether one of the security tokens signed this body."""
    scheme, _, given = header.partition(" ")
    signed = [made for secret in secrets if (made := signature(secret, body)) is not None]
    fits = [hmac.compare_digest(made.encode(), given.strip().encode()) for made in signed]
    return scheme == "HMAC" and any(fits)


def signature(secret: str, body: bytes) -> str | None:
    """The signature under a security token, which is base64; None where it is no token."""
    try:
        key = base64.b64decode(secret, validate=True)
    except (binascii.Error, ValueError):
        return None
    if not key:
        return None
    return base64.b64encode(hmac.new(key, body, hashlib.sha256).digest()).decode()


def is_fresh(activity: Mapping[str, Any], *, now: dt.datetime) -> bool:
    """Whether a message was written just now."""
    try:
        at = dt.datetime.fromisoformat(text(activity, "timestamp").replace("Z", "+00:00"))
    except ValueError:
        return False
    return at.tzinfo is not None and abs(at - now) <= TOLERANCE


def read(activity: Mapping[str, Any]) -> InboundMessage:
    """Who wrote what."""
    tenant = text(activity, "channelData", "tenant", "id")
    team = tenant or text(activity, "conversation", "tenantId")
    who = text(activity, "from", "aadObjectId") or text(activity, "from", "id")
    said = " ".join(text_of(MENTION.sub(" ", text(activity, "text"))).split(" ")).strip()
    first, _, rest = said.partition(" ")
    code = rest if first.casefold() == "connect" else None
    return InboundMessage(Sender(team, who), said, code)


def _question_in(text: str) -> str:
    """The id of a question that a text names; "" where it names none."""
    named = QUESTION.search(text)
    try:
        return ids.show(Pause.PREFIX, ids.parse(Pause.PREFIX, named[0])) if named else ""
    except ValueError:
        return ""


CHANNEL = Teams()
