"""What people press and fill in: each press gets an answer that they see, whoever they are.

Nothing is remembered between a press and its form but what the database holds, so a message that
is old, or was shown before a restart, works like a new one. What is pressed twice, or sent again,
is decided once by `decide`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils.translation import gettext, gettext_lazy

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.state import codec
from extensions.slack import modals, posting
from extensions.slack.modals import Asked
from hitl.channels import receiving, words
from hitl.channels.protocol import Given, InboundMessage, NotTaken, Outcome, Sender
from hitl.channels.values import at, text
from hitl.decisions.reviewers.refusals import ENDS_BY_ITSELF
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.models.outbound import Delivery, Occasion
from hitl.outbound import links
from hitl.outbound import posting as outbound
from hitl.outbound.addresses import AddressRefused, CannotReach
from runs.states import PauseStatus

logger = logging.getLogger(__name__)

LONGEST = 2_000
"""Characters of a text."""
OPENING = 2.5
"""Seconds in which a form must be opened: Slack takes none later than three after the press."""
STRANGER = gettext_lazy(
    "Nothing was decided: Waystation does not know yet who you are in Slack. Open Waystation, "
    "Menu > Notifications, choose “Connect an account”, then press Connect here and enter the "
    "code that is shown there."
)


@dataclass(frozen=True)
class Interaction:
    """What Slack signed."""

    payload: Mapping[str, Any]
    request_key: str
    """The request, however often it is sent."""

    @property
    def kind(self) -> str:
        return _short(self.payload, "type")

    @property
    def view(self) -> Mapping[str, Any]:
        return at(self.payload, "view")


def read(payload: Mapping[str, Any], *, request_key: str) -> InboundMessage:
    """Who pressed or filled in what."""
    team = _short(payload, "user", "team_id") or text(payload, "team", "id", most=LONGEST)
    made = Interaction(payload, request_key)
    connects = made.kind == "view_submission" and made.view.get("callback_id") == "connect"
    code = modals.written(made.view, "code") if connects else None
    return InboundMessage(Sender(team, _short(payload, "user", "id")), made, code)


def take(made: Interaction, by: User | None) -> Given | None:
    """The answer; None where a form opened, or the button was a link. Raises NotTaken."""
    if made.kind == "view_submission":
        return _submitted(made.view, by)
    return _pressed(made.payload, by) if made.kind == "block_actions" else None


def tell(message: InboundMessage, by: User | None, outcome: Outcome | None) -> dict[str, Any]:
    """Say it in the window of the form, or where the button was pressed."""
    made: Interaction = message.body
    if outcome is None:
        return {}
    if made.kind == "block_actions":
        place = f"slack:{message.sender.team}:{message.sender.account}"
        _whisper(made, outcome, by, place=place)
        return {}
    if outcome.code in {"no_code", "unknown_sender"} and message.code is not None:
        return {"response_action": "errors", "errors": {"code": outcome.words}}
    soon = {"": [outcome.words]} if outcome.code in ENDS_BY_ITSELF else {}
    if (wrong := outcome.errors or soon) and outcome.pause is not None:
        errors = modals.errors_at(wrong, outcome.pause)
        return {"response_action": "errors", "errors": errors}
    return {"response_action": "update", "view": modals.window("Waystation", [outcome.words])}


def _pressed(payload: Mapping[str, Any], by: User | None) -> Given | None:
    actions = payload.get("actions")
    action = actions[0] if isinstance(actions, list) and actions else {}
    name = _short(action, "action_id")
    if name == "connect":
        if _open(payload, modals.connecting()):
            return None
        raise NotTaken("not_opened", gettext("The form could not be opened. Press again."))
    if not name.startswith("answer:"):
        return None
    shown, _, revision = _short(action, "value").partition(" ")
    asked = Asked(shown, int(revision) if revision.isdecimal() else 0, name.partition(":")[2])
    if by is None:
        raise NotTaken("unknown_sender", str(STRANGER), receiving.find(asked.pause))
    pause = receiving.question(asked.pause, by=by)
    here = asked.action in pause.answers and links.may_answer_in_chat(pause)
    over = pause.status != PauseStatus.OPEN or asked.revision != pause.revision
    if (here or over) and (over or not words.takes_words(pause, asked.action)):
        return Given(pause, Answer(asked.action, Via.SLACK, revision=asked.revision))
    form = modals.form_for(pause, asked) if here else None
    if form is not None and _open(payload, form):
        return None
    raise outbound.elsewhere(pause)


def _submitted(view: Mapping[str, Any], by: User | None) -> Given:
    if by is None:
        raise NotTaken("unknown_sender", str(STRANGER))
    asked = modals.asked_by(view)
    pause = receiving.question(asked.pause if asked is not None else "", by=by)
    if asked is None or asked.action not in pause.answers:
        raise NotTaken("not_found", str(receiving.GONE))
    data = pause.wants_data(asked.action)
    answer = Answer(
        asked.action,
        Via.SLACK,
        feedback=modals.written(view, modals.FEEDBACK),
        payload=modals.payload_in(view, pause) if data else None,
        revision=asked.revision,
    )
    return Given(pause, words.as_input(answer))


def _open(payload: Mapping[str, Any], view: dict[str, Any]) -> bool:
    """Open a form for whoever pressed; False where it cannot be."""
    try:
        body = {"trigger_id": _short(payload, "trigger_id"), "view": view}
        posting.call("views.open", body, seconds=OPENING)
    except (AddressRefused, CannotReach) as error:
        logger.warning("a form could not be opened in Slack: %s", error)
        return False
    return True


def _whisper(made: Interaction, outcome: Outcome, by: User | None, *, place: str) -> None:
    """Plan what one person alone is told, where they pressed."""
    now = clock.now()
    row = Delivery(
        pause=outcome.pause, occasion=Occasion.REPLIED, mark=made.request_key, channel="slack",
        place=place[:80], recipient=by, contact=_short(made.payload, "response_url"),
        words=codec.readable(outcome.words), next_at=now, made_at=now,
    )  # fmt: skip
    with transaction.atomic():
        known = Delivery.objects.filter(pause=row.pause, mark=row.mark, place=row.place)
        if not known.exists():
            Delivery.objects.bulk_create([row], ignore_conflicts=True)


def _short(value: Any, *keys: str) -> str:
    return text(value, *keys, most=LONGEST)
