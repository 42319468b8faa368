"""Commands of the protocol: each is what a route does, answered in an envelope with the protocol's
own codes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from extensions.langgraph.api import keys, reviewing, segments, starting, states, threads
from extensions.langgraph.api.calls import Call, Given, Reply, invalid, key_of, read
from extensions.langgraph.api.protocol import events, tree
from extensions.langgraph.api.threads import wire_id
from hitl.decisions import visibility
from hitl.decisions.services import NotFound
from hitl.http.refusals import exception_handler
from hitl.live.pump import StreamRefused
from runs.models import Run
from runs.security import scopes

Code = Literal[
    "invalid_argument",
    "unknown_command",
    "unknown_error",
    "no_such_run",
    "no_such_subscription",
    "no_such_namespace",
    "no_such_interrupt",
    "no_such_checkpoint",
    "permission_denied",
    "not_supported",
]
CODES: dict[int, Code] = {403: "permission_denied", 404: "no_such_run", 501: "not_supported"}
"""Of a refusal that says no more than its status; others below 500 are invalid arguments."""
LATER = 429
"""From this status on a client may come again: a request is refused as such."""


class Refused(Exception):
    """A command that is not obeyed."""

    def __init__(self, code: Code, words: str) -> None:
        super().__init__(words)
        self.code = code


class Malformed(Exception):
    """What came is no command."""


class CommandIn(Given):
    id: int = Field(ge=0)
    method: str = Field(max_length=100)
    params: dict[str, Any] = {}


class StartIn(Given):
    assistant_id: str
    input: Any = None
    config: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    multitask_strategy: str = "enqueue"
    multitaskStrategy: str = ""  # some clients say it twice


class AnswerIn(Given):
    interrupt_id: str
    response: Any = None
    namespace: list[str] = []


class AnswersIn(Given):
    responses: list[AnswerIn] = Field(default=[], max_length=100)
    interrupt_id: str = ""
    response: Any = None
    namespace: list[str] = []
    config: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    update: Any = None
    goto: Any = None
    strict_resume: bool = True
    """Answers are always strict here: what is asked no more is not answered."""


class NamespaceIn(Given):
    namespace: list[str] = []
    keys: list[str] = []
    limit: int = Field(default=10, ge=1)
    before: str = ""


class ForkIn(Given):
    checkpoint_id: str
    input: Any = None
    config: dict[str, Any] = {}


class TreeIn(Given):
    run_id: str = ""


def obey(call: Call) -> Reply:
    """The route: 400 for what is no command, else 200 with what became of it."""
    try:
        return Reply(data=answer(call, command_of(call.data)))
    except Malformed as error:
        return Reply(data=envelope(None, "invalid_argument", str(error)), status=400)


def command_of(data: Any) -> CommandIn:
    """Raises Malformed."""
    try:
        return read(CommandIn, data)
    except StreamRefused as error:
        raise Malformed(error.detail) from error


def answer(call: Call, command: CommandIn) -> dict[str, Any]:
    """What becomes of a command on the thread of `call`.

    Raises what says that the client may try again, and errors of ours.
    """
    run = COMMANDS.get(command.method)
    if run is None:
        code: Code = "not_supported" if command.method in ELSEWHERE else "unknown_command"
        words = ELSEWHERE.get(command.method, f"There is no {command.method[:60]!r}.")
        return envelope(command.id, code, words)
    try:
        through = _seq(call)
        result = run(replace(call, data=command.params))
    # of any layer below: what is none of a client's is raised again
    except Exception as error:
        refusal = _refusal(error)
        if refusal is None:
            raise
        return envelope(command.id, *refusal)
    meta = {"applied_through_seq": through}
    return {"type": "success", "id": command.id, "result": result, "meta": meta}


def envelope(number: int | None, code: Code, words: str) -> dict[str, Any]:
    """What a command is refused with."""
    return {"type": "error", "id": number, "error": code, "message": words}


def _refusal(error: Exception) -> tuple[Code, str] | None:
    """None where it is not the command's fault."""
    if isinstance(error, Refused):
        return error.code, str(error)
    if isinstance(error, StreamRefused):
        status, words = error.status, error.detail
    elif (problem := exception_handler(error, {})) is not None:
        status, words = problem.status_code, str(problem.data.get("detail", error))
    else:
        return None
    return None if status >= LATER and status != 501 else (
        CODES.get(status, "invalid_argument"), words
    )  # fmt: skip


def _seq(call: Call) -> int:
    """Behind all that happened before the command: what it causes comes after."""
    try:
        return events.number(threads.find(call).last_seq)
    except NotFound:
        return events.number(0)


def _start(call: Call) -> dict[str, Any]:
    scopes.check_start()
    given = call.body(StartIn)
    body = given.model_dump(exclude={"multitaskStrategy"})
    _, segment, _ = starting.begin(replace(call, data={**body, "if_not_exists": "create"}))
    return {"run_id": str(segment.wire_id)}


def _respond(call: Call) -> dict[str, Any]:
    scopes.check_answer()
    given = call.body(AnswersIn)
    if given.update or given.goto:
        raise Refused("not_supported", "A state changes by a step or by an answer here.")
    one = [AnswerIn(interrupt_id=given.interrupt_id, response=given.response)]
    answers = given.responses or one
    if any(entry.namespace for entry in answers) or given.namespace:
        raise Refused("no_such_namespace", "Questions are asked in the root's namespace here.")
    for entry in answers:
        if not starting.is_id(entry.interrupt_id):
            raise Refused("no_such_interrupt", "There is no such interrupt.")
    found = reviewing.find(call)
    thread = found.thread
    values = {entry.interrupt_id: entry.response for entry in answers}

    def act() -> keys.Begun:
        key = starting.answer(call, found, values)
        starting.note(thread, key, given.metadata)
        return thread.pk, key

    try:
        _, run = keys.once(call, act)
    except starting.NOT_ASKED as error:
        raise Refused("no_such_interrupt", str(error)) from error
    return {"run_id": str(run)}


def _tree(call: Call) -> dict[str, Any]:
    scopes.check_read()
    given = call.body(TreeIn)
    thread = threads.find(call)
    if given.run_id:
        run = segments.find(thread.pk, key_of(given.run_id, "run_id")).run
    else:
        run = Run.objects.filter(thread=thread).order_by("-id").first()
    if run is None:
        raise Refused("no_such_run", "Nothing has run on this thread.")
    return {"tree": tree.of(run)}


def _at_root(call: Call) -> NamespaceIn:
    scopes.check_read()
    given = call.body(NamespaceIn)
    if given.namespace:
        raise Refused("no_such_namespace", "A thread has the root's namespace alone here.")
    return given


def _state(call: Call) -> dict[str, Any]:
    given = _at_root(call)
    state: Any = states.get(call).data
    values = state["values"]
    if given.keys:
        values = {key: values[key] for key in given.keys if key in values}
    key = state["checkpoint_id"]
    return {"values": values, **({"checkpoint": {"id": key, "ns": ""}} if key else {})}


def _checkpoints(call: Call) -> dict[str, Any]:
    given = _at_root(call)
    body = {"limit": given.limit, "before": given.before}
    listed: Any = states.history(replace(call, data=body)).data
    return {
        "checkpoints": [
            {
                "id": state["checkpoint_id"],
                "timestamp": state["created_at"],
                "step": state["metadata"]["step"],
                "metadata": state["metadata"],
            }
            for state in listed
        ]
    }


def _fork(call: Call) -> dict[str, Any]:
    scopes.check_start()
    given = call.body(ForkIn)
    thread = threads.find(call)
    try:
        key = uuid.UUID(given.checkpoint_id)
        checkpoint = visibility.find_checkpoint(key, by=call.by)
    except (ValueError, NotFound):
        checkpoint = None
    if checkpoint is None or checkpoint.thread_id != thread.pk:
        raise Refused("no_such_checkpoint", "There is no such checkpoint.")
    body = {
        "assistant_id": _assistant_of(checkpoint.run_id),
        "checkpoint_id": str(checkpoint.pk),
        **given.model_dump(include={"input", "config"}),
    }
    _, segment, _ = starting.begin(replace(call, data=body))
    return {"run_id": str(segment.wire_id), "thread_id": wire_id(thread.pk)}


def _assistant_of(run_id: uuid.UUID) -> str:
    run = Run.objects.filter(pk=run_id).first()
    if run is None or not run.frozen.template_slug:
        raise invalid("This checkpoint is of no assistant.")
    return str(run.frozen.template_slug)


COMMANDS: dict[str, Callable[[Call], dict[str, Any]]] = {
    "run.start": _start,
    "input.respond": _respond,
    "agent.getTree": _tree,
    "state.get": _state,
    "state.listCheckpoints": _checkpoints,
    "state.fork": _fork,
}
_SOCKET = "Open /stream/events, or a socket there."
ELSEWHERE = {
    "input.inject": "A message never enters a run at work: it waits its turn (run.start).",
    "subscription.subscribe": _SOCKET,
    "subscription.unsubscribe": _SOCKET,
    "subscription.reconnect": _SOCKET,
}
