"""What people press and fill in: each press gets an answer that they see, whoever they are (F18).

Nothing is remembered between a press and its form but what the database holds, so a message that
is old, or was shown before a restart, works like a new one. What is pressed twice, or sent again,
is decided once by `decide`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext, gettext_lazy

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.state import codec
from hitl.channels import accounts, words
from hitl.channels.slack import modals
from hitl.channels.slack.modals import Asked
from hitl.decisions import visibility
from hitl.decisions.services import Answer
from hitl.identity import languages
from hitl.models import Via
from hitl.models.channels import ChatService
from hitl.models.outbound import Channel, Delivery, Occasion
from hitl.outbound import links, slack
from hitl.outbound.addresses import AddressRefused, CannotReach
from hitl.rendering.links import place_of
from runs.models import Pause
from runs.states import PauseStatus

logger = logging.getLogger(__name__)

OPENING = 2.5
"""Seconds in which a form must be opened: Slack takes none later than three after the press."""
CONNECT = gettext_lazy(
    "Nothing was decided: Waystation does not know yet who you are in Slack. Open Waystation, "
    "Menu > Notifications, choose “Connect an account”, then press Connect here and enter the "
    "code that is shown there."
)
GONE = gettext_lazy("Nothing was decided: this question is not there any more.")


def handle(payload: Mapping[str, Any], *, request_key: str) -> dict[str, Any]:
    """Act on a request that Slack signed; gives what its body is answered with.

    Args:
        request_key: the request, however often it is sent.
    """
    who = _text(payload, "user", "id")
    team = _text(payload, "user", "team_id") or _text(payload, "team", "id")
    by = accounts.person_of(ChatService.SLACK, team, who)
    with languages.spoken_to(by.pk if by is not None else None):
        if payload.get("type") == "view_submission":
            return _submitted(payload, by, team=team, who=who)
        if payload.get("type") == "block_actions":
            said = _pressed(payload, by)
            if said is not None:
                pause, text = said
                _whisper(payload, pause, by, text, place=f"slack:{team}:{who}", mark=request_key)
    return {}


def _pressed(payload: Mapping[str, Any], by: User | None) -> tuple[Pause | None, str] | None:
    """What the one who pressed a button is told, and about what; None where a form opened, or the
    button was a link.
    """
    actions = payload.get("actions")
    action = actions[0] if isinstance(actions, list) and actions else {}
    name = _text(action, "action_id")
    if name == "connect":
        opened = _open(payload, modals.connecting())
        return None if opened else (None, gettext("The form could not be opened. Press again."))
    if not name.startswith("answer:"):
        return None
    shown, _, revision = _text(action, "value").partition(" ")
    asked = Asked(shown, int(revision) if revision.isdecimal() else 0, name.partition(":")[2])
    pause = _pause(asked)
    if by is None:
        return pause, str(CONNECT)
    if pause is None or not visibility.sees_pause(pause.pk, by=by):
        return None, str(GONE)
    here = asked.action in pause.ways and links.may_answer_in_chat(pause)
    over = pause.status != PauseStatus.OPEN or asked.revision != pause.revision
    if (here or over) and (over or not modals.takes_words(pause, asked.action)):
        answer = Answer(asked.action, Via.SLACK, revision=asked.revision)
        return pause, words.give(pause, answer, by=by).words
    form = modals.form_for(pause, asked) if here else None
    if form is not None and _open(payload, form):
        return None
    elsewhere = gettext("Nothing was decided here. Answer on its page: %(page)s")
    return pause, elsewhere % {"page": links.absolute(place_of(pause))}


def _submitted(
    payload: Mapping[str, Any], by: User | None, *, team: str, who: str
) -> dict[str, Any]:
    """What the window of a form shows after it was sent."""
    view = payload.get("view")
    view = view if isinstance(view, Mapping) else {}
    if view.get("callback_id") == "connect":
        return _connected(view, team=team, who=who)
    asked = modals.asked_by(view)
    pause = _pause(asked) if asked is not None else None
    if by is None:
        return _says(str(CONNECT))
    if asked is None or pause is None or not visibility.sees_pause(pause.pk, by=by):
        return _says(str(GONE))
    if asked.action not in pause.ways:
        return _says(str(GONE))
    data = pause.wants_data(asked.action)
    answer = Answer(
        asked.action,
        Via.SLACK,
        feedback=modals.written(view, modals.FEEDBACK),
        payload=modals.payload_in(view, pause) if data else None,
        revision=asked.revision,
    )
    outcome = words.give(pause, words.as_input(answer), by=by)
    if outcome.errors:
        return {
            "response_action": "errors",
            "errors": modals.errors_at(outcome.errors, pause),
        }
    return _says(outcome.words)


def _connected(view: Mapping[str, Any], *, team: str, who: str) -> dict[str, Any]:
    try:
        user = accounts.connect(ChatService.SLACK, team, who, modals.written(view, "code"))
    except accounts.TooManyAccounts as error:
        return _says(str(error))
    if user is None or not (team and who):
        text = gettext("This is no code that is good now. Have a new one shown.")
        return {"response_action": "errors", "errors": {"code": text}}
    name = user.get_full_name() or user.get_username()
    with languages.spoken_to(user.pk):
        connected = gettext(
            "Connected: from now on you answer here as %(name)s. Press your answer again."
        )
        return _says(connected % {"name": name})


def _says(text: str) -> dict[str, Any]:
    return {"response_action": "update", "view": modals.window("Waystation", [text])}


def _pause(asked: Asked) -> Pause | None:
    try:
        key = ids.parse(Pause.PREFIX, asked.pause)
    except ValueError:
        return None
    return Pause.objects.shown().filter(pk=key).first()


def _open(payload: Mapping[str, Any], view: dict[str, Any]) -> bool:
    """Open a form for whoever pressed; False where it cannot be."""
    try:
        body = {"trigger_id": _text(payload, "trigger_id"), "view": view}
        slack.call("views.open", body, seconds=OPENING)
    except (AddressRefused, CannotReach) as error:
        logger.warning("a form could not be opened in Slack: %s", error)
        return False
    return True


def _whisper(
    payload: Mapping[str, Any],
    pause: Pause | None,
    by: User | None,
    text: str,
    *,
    place: str,
    mark: str,
) -> None:
    """Plan what one person alone is told, where they pressed."""
    now = clock.now()
    row = Delivery(
        pause=pause, occasion=Occasion.REPLIED, mark=mark, channel=Channel.SLACK,
        place=place[:80], recipient=by, contact=_text(payload, "response_url"),
        words=codec.readable(text), next_at=now, made_at=now,
    )  # fmt: skip
    with transaction.atomic():
        known = Delivery.objects.filter(pause=pause, mark=mark, place=row.place)
        if not known.exists():
            Delivery.objects.bulk_create([row], ignore_conflicts=True)


def _text(payload: Any, *keys: str) -> str:
    """The text at a place of a payload; "" where there is none."""
    for key in keys:
        payload = payload.get(key) if isinstance(payload, Mapping) else None
    return codec.readable(payload)[:2_000] if isinstance(payload, str) else ""
