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

from django.utils.translation import gettext, gettext_lazy

from checkpoints import ids
from checkpoints.database.people import User
from checkpoints.state import codec
from hitl.channels import accounts, words
from hitl.channels.mail.reading import text_of_html
from hitl.decisions import visibility
from hitl.identity import languages
from hitl.models import ChatService, Via
from hitl.outbound import links
from hitl.rendering.links import place_of
from runs.models import Pause

TOLERANCE = dt.timedelta(minutes=5)
QUESTION = re.compile(r"\bpse_[0-9a-z]{20,40}\b")
MENTION = re.compile(r"<at[^<>]{0,100}>[^<>]{0,200}</at>")
HOW = gettext_lazy(
    "Write “approve”, or “revise: …” with what should change, and the question's id: approve "
    "pse_… The message that asks it has the id."
)
CONNECT = gettext_lazy(
    "Nothing was decided: Waystation does not know yet who you are in Teams. Open Waystation, "
    "Menu > Notifications, choose “Connect an account”, and write to me: connect, and the code "
    "that is shown there."
)


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
        at = dt.datetime.fromisoformat(_text(activity, "timestamp").replace("Z", "+00:00"))
    except ValueError:
        return False
    return at.tzinfo is not None and abs(at - now) <= TOLERANCE


def handle(activity: Mapping[str, Any]) -> str:
    """Act on a message that Teams signed; gives what is answered in the channel."""
    team = _text(activity, "channelData", "tenant", "id") or _text(
        activity, "conversation", "tenantId"
    )
    who = _text(activity, "from", "aadObjectId") or _text(activity, "from", "id")
    text = " ".join(text_of_html(MENTION.sub(" ", _text(activity, "text"))).split(" ")).strip()
    first, _, rest = text.partition(" ")
    if first.casefold() == "connect":
        return _connect(team, who, rest)
    by = accounts.person_of(ChatService.TEAMS, team, who)
    if by is None:
        return str(CONNECT)
    with languages.spoken_to(by.pk):
        return _answered(text, by)


def _answered(text: str, by: User) -> str:
    named = QUESTION.search(text)
    if named is None:
        return str(HOW)
    try:
        key = ids.parse(Pause.PREFIX, named[0])
    except ValueError:
        return str(HOW)
    pause = Pause.objects.shown().filter(pk=key).first()
    if pause is None or not visibility.sees_pause(pause.pk, by=by):
        return gettext("Nothing was decided: there is no such question.")
    if not links.may_answer_in_chat(pause):
        elsewhere = gettext("Nothing was decided here. Answer on its page: %(page)s")
        return elsewhere % {"page": links.absolute(place_of(pause))}
    said = re.sub(r"[ \t]+([:\n]|$)", r"\1", text.replace(named[0], " ")).strip()
    try:
        answer = words.answer_in(said, pause, via=Via.TEAMS, revision=pause.revision)
    except words.Unclear as unclear:
        return gettext("%(ended)s Nothing was decided.") % {"ended": unclear}
    return words.give(pause, answer, by=by).words


def _connect(team: str, who: str, code: str) -> str:
    if not (team and who):
        return str(CONNECT)
    try:
        user = accounts.connect(ChatService.TEAMS, team, who, code)
    except accounts.TooManyAccounts as error:
        return str(error)
    if user is None:
        return gettext("This is no code that is good now. Have a new one shown.")
    with languages.spoken_to(user.pk):
        connected = gettext("Connected: from now on you answer here as %(name)s.")
        return connected % {"name": user.get_full_name() or user.get_username()}


def _text(activity: Any, *keys: str) -> str:
    """The text at a place of a message; "" where there is none."""
    for key in keys:
        activity = activity.get(key) if isinstance(activity, Mapping) else None
    return codec.readable(activity)[:20_000] if isinstance(activity, str) else ""
