"""What a client says over a socket: an answer or an input.

Each message is answered once: with what was committed, or with the problem.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable
from typing import Any

from rest_framework import exceptions, serializers
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from checkpoints.database import clock
from hitl.api.pauses.fields import DecisionIn, DecisionOut, answer_in
from hitl.api.pauses.presence import PresenceIn
from hitl.api.pauses.reviews import voted
from hitl.api.threads.fields import IdField, InputIn, SaidOut
from hitl.decisions import presence, services
from hitl.http import incoming
from hitl.http.authentication import Caller, caller_of, unknown
from hitl.models import Via, Vote
from hitl.threads import messages
from runs.api.requests import values_of
from runs.security import scopes
from runs.threads.turns import Turn

logger = logging.getLogger(__name__)

LONGEST = 500_000
"""Characters of a message."""
ENVELOPE = frozenset({"type", "id"})
"""What a message says of itself."""
ProblemOf = Callable[[Exception, dict[str, Any]], Response | None]
"""Error → problem document: the table of the REST API."""


class TooLong(exceptions.APIException):
    status_code = 413
    default_detail = f"A message may have up to {LONGEST} characters; nothing was changed."
    default_code = "too_large"


class NotHere(exceptions.APIException):
    status_code = 400
    default_code = "not_here"
    default_detail = "No input is taken here: follow the run or the thread that it is for."


class AnswerIn(DecisionIn):
    pause_id = IdField("pse", help_text="The question that is answered.")
    # `id` is the message's own, of its envelope


class PresentIn(PresenceIn):
    pause_id = IdField("pse", help_text="The question that is looked at.")


class SocketTarget:
    """The thread, and the run, that a socket follows; neither is the inbox."""

    def __init__(self, thread_id: uuid.UUID | None = None, run_id: uuid.UUID | None = None) -> None:
        self.thread_id = thread_id
        self.run_id = run_id


def answer(text: str | None, *, scope: Any, place: SocketTarget, problem_of: ProblemOf) -> str:
    """The reply to one message, as JSON text.

    Raises nothing: whatever goes wrong is a problem document, and the socket stays open.
    """
    given: dict[str, Any] = {}
    try:
        given = _parse(text)
        reply: dict[str, Any] = {
            "type": "accepted",
            "result": _heard(given, scope=scope, place=place),
        }
        if given.get("type") == "ping":
            reply = {"type": "pong"}
    # the door of a service, as a view is one: the client is told, in the words of REST
    except Exception as error:  # noqa: BLE001
        reply = {"type": "refused", "problem": _problem(error, problem_of)}
    name = given.get("id")
    return json.dumps(
        {**reply, "id": name if isinstance(name, str | int) else None}, cls=JSONEncoder
    )


def _parse(text: str | None) -> dict[str, Any]:
    if text is None:
        raise exceptions.ParseError("Messages are JSON texts; nothing was changed.")
    if len(text) > LONGEST:
        raise TooLong
    try:
        given = incoming.read(text)
    except incoming.UnreadableBody as error:
        raise exceptions.ParseError(f"{error} Nothing was changed.") from error
    if not isinstance(given, dict) or len(str(given.get("id", ""))) > 100:
        raise exceptions.ParseError(
            "A message is a JSON object, with an id of up to 100 characters; nothing was changed."
        )
    return given


def _heard(given: dict[str, Any], *, scope: Any, place: SocketTarget) -> Any:
    # looked up for each message: a token may be revoked, a person locked out meanwhile
    caller = caller_of(scope)
    if caller is None:
        raise unknown(scope)
    kind = given.get("type")
    if kind == "ping":
        return None
    if not isinstance(kind, str) or kind not in {"decision", "input", "presence"}:
        raise serializers.ValidationError({"type": ["One of decision, input, presence, ping."]})
    # a message on a thread answers or begins, so the service looks which
    refused = scopes.refusal(
        caller.scope, scopes.EITHER if kind == "input" and place.run_id is None else scopes.ANSWERS
    )
    if refused is not None:
        raise refused
    body = {name: value for name, value in given.items() if name not in ENVELOPE}
    with scopes.acting(caller.scope, caller.token_key):
        if kind == "presence":
            return _present(body, caller)
        return _decide(body, caller) if kind == "decision" else _input(body, caller, place)


def _decide(given: dict[str, Any], caller: Caller) -> Any:
    values = values_of(given, AnswerIn)
    decision = services.decide(values["pause_id"], answer_in(values, Via.SOCKET), by=caller.user)
    return voted(decision).data if isinstance(decision, Vote) else DecisionOut(decision).data


def _present(given: dict[str, Any], caller: Caller) -> Any:
    values = values_of(given, PresentIn)
    return {
        "present": presence.note(
            values["pause_id"], by=caller.user, writing=values["writing"], now=clock.now()
        )
    }


def _input(given: dict[str, Any], caller: Caller, place: SocketTarget) -> Any:
    """A run takes the input for the answer to its question; a thread also for its next turn."""
    message = values_of(given, InputIn)["given"]
    if place.run_id is not None:
        outcome = messages.input_to(place.run_id, message, by=caller.user, via=Via.SOCKET)
    elif place.thread_id is not None:
        outcome = messages.say(
            place.thread_id,
            Turn(input=message),
            by=caller.user,
            via=Via.SOCKET,
        )
    else:
        raise NotHere
    return SaidOut(outcome).data


def _problem(error: Exception, problem_of: ProblemOf) -> dict[str, Any]:
    response = problem_of(error, {})
    if response is None:
        logger.error("a message over a socket failed", exc_info=error)
        return {
            "type": "about:blank",
            "title": "Internal Server Error",
            "status": 500,
            "code": "error",
            "detail": "This did not work.",
        }
    return dict(response.data)
