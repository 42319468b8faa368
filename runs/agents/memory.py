"""What an agent knows: its conversation, as pydantic-ai writes messages down, and where in its
loops it stands. Plain JSON in the state.

`state["agent"][<step>]` is an AgentCheckpointState, `state["messages"]` the conversation as people
read it, and `state["agent_turns"][<step>]` the run in which the turn under
way began: it does not outlive a turn (`Keeps.per_turn`), so what comes next knows whether it goes
on with a turn or begins one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NotRequired, TypedDict, cast

from runs.agents.model import HIDDEN, Reply
from runs.agents.model.endings import Ended
from runs.workflows.base import Context, State, StepFailed
from runs.workflows.owned import Keeps

Json = dict[str, Any]

KEY, TURNS, MESSAGES = "agent", "agent_turns", "messages"
KEEPS = {KEY: Keeps(remembered=True, imported=True), TURNS: Keeps(per_turn=True)}
DEEPEST = 30
"""Levels of arguments that are kept as an object."""
CUT_OFF = ("_said", "_cut")
"""How ids of messages end that a cancelled run left: see `runs.threads.conversation.cut_off`."""
INTERRUPTED = "[The person interrupted this answer.]"
UNMADE = "This call was not made: the run ended before."


class Usage(TypedDict):
    """What requests came to.

    `cost` is US dollars, without those whose price nobody knows (`unpriced`).
    """

    requests: int
    input_tokens: int
    output_tokens: int
    tool_calls: int
    cost: float
    unpriced: int
    seconds: float
    """Of work on requests and tools."""


class CallContext(TypedDict):
    """For whom the turn is."""

    user_id: int | str | None
    """Whom the thread is held with, where the program that opened it said so; else who asked."""
    session_id: str
    """The session that the program named; else the thread, or the work order."""
    metadata: dict[str, str]
    """`run_id`: the run that counts and has limits."""


class AgentCheckpointState(TypedDict):
    """An agent between two loops, or where it waits for a person in the middle of one."""

    prompt_messages: list[Json]
    """The whole conversation.

    Where the last one is a model's with calls, these are being made: there is no other request for
    them.
    """
    current_loop: int
    """The loop to go on with, from 1 in each turn."""
    total_loops: int
    """How many there may be."""
    loops_before: int
    """Loops of this turn that were taken in runs which this one takes up: the limit is one of a
    run.
    """
    intermediate_steps: dict[str, Json]
    """Loop → `{"calls": [{"id", "tool", "status"}], "input_tokens", "output_tokens", "left_out"}`,
    of this turn.

    `left_out`, where it is there, is what the model was not given: `messages`, and `results` of
    tools that were shortened."""
    tool_cache: dict[str, Json]
    """Call's id → its result, of the loop under way.

    Those of earlier loops are in the conversation.
    """
    call_context: CallContext
    history_offset: int
    """Where in `prompt_messages` this turn begins."""
    room: NotRequired[int]
    """About how many tokens the endpoint takes, where it refused more in this turn; 0 for what is
    settled.
    """
    ended: NotRequired[Ended | None]
    """How the last answer ended, where it was no whole one."""
    so_far: NotRequired[str]
    """What was said of the answer under way, where it was cut and is being continued."""
    run_depends: list[str]
    """The runs in which turns of this conversation were taken, oldest first."""
    is_resumed: bool
    """This turn was interrupted, by a question or an end, and goes on."""
    asked: str
    """Id of the call that is a question to a person; "" for none."""
    usage: Usage
    """Of this run, of which the limits are."""
    thread_usage: Usage
    """Of all turns of the conversation."""


NOTHING_USED: Usage = {
    "requests": 0, "input_tokens": 0, "output_tokens": 0, "tool_calls": 0, "cost": 0.0,
    "unpriced": 0, "seconds": 0.0,
}  # fmt: skip
STARTED: Json = {
    "prompt_messages": [],
    "run_depends": [],
    "thread_usage": NOTHING_USED,
}


def plus(one: Mapping[str, Any], other: Mapping[str, Any]) -> Usage:
    return cast(
        Usage, {name: round(one.get(name, 0) + other.get(name, 0), 8) for name in NOTHING_USED}
    )


def recall(state: State, context: Context, *, prompt: str, max_loops: int) -> AgentCheckpointState:
    """Where the agent stands: in the turn under way, or at the first loop of a new one, which
    begins with `prompt`.
    """
    kept = state.get(KEY, {}).get(context.step)
    if kept is not None and not isinstance(kept, Mapping):
        message = (
            f"The step {context.step!r} is named like a secret, so what its agent knows is not "
            "kept. Give it another name."
        )
        raise StepFailed(message, code="step_name_secret")
    if kept is None or not state.get(TURNS, {}).get(context.step):
        return _begin(
            kept or STARTED, context, prompt, max_loops, cut_off=_cut_off(state.get(MESSAGES))
        )
    mind = cast(AgentCheckpointState, dict(kept))
    mind["is_resumed"] = mind["is_resumed"] or bool(
        mind["tool_cache"] or mind["asked"] or open_calls(mind)
    )
    # another run goes on with it: it has limits of its own
    if mind["call_context"]["metadata"].get("run_id") != context.run_id:
        mind["is_resumed"], mind["usage"], mind["total_loops"] = True, NOTHING_USED, max_loops
        mind["loops_before"], mind["ended"] = mind["current_loop"] - 1, None
        mind["call_context"] = _call_context(context)
        mind["run_depends"] = _and(mind["run_depends"], context.run_id)
    return mind


def _cut_off(messages: Any) -> list[Json]:
    """The words at the end of a conversation that a cancelled run left behind, and that no model
    was told of.
    """
    messages_cut: list[Json] = []
    for message in reversed(messages if isinstance(messages, list) else []):
        if not isinstance(message, Mapping) or not str(message.get("id")).endswith(CUT_OFF):
            break
        messages_cut.insert(0, dict(message))
    return messages_cut


def _begin(
    before: Mapping[str, Any],
    context: Context,
    prompt: str,
    max_loops: int,
    *,
    cut_off: Sequence[Mapping[str, Any]],
) -> AgentCheckpointState:
    messages: list[Json] = list(before["prompt_messages"])
    parts = (
        [_returned(call["id"], call["tool"], UNMADE) for call in calls_of(messages[-1])]
        if messages
        else []
    )
    for message in cut_off:
        if message["role"] == "user":
            parts.append({"part_kind": "user-prompt", "content": message["content"]})
        else:
            messages += [{"kind": "request", "parts": parts}] if parts else []
            messages.append(
                {
                    "kind": "response",
                    "parts": [
                        {"part_kind": "text", "content": f"{message['content']}\n\n{INTERRUPTED}"}
                    ],
                }
            )
            parts = []
    parts.append({"part_kind": "user-prompt", "content": prompt})
    return {
        "prompt_messages": [*messages, {"kind": "request", "parts": parts}],
        "current_loop": 1,
        "total_loops": max_loops,
        "loops_before": 0,
        "intermediate_steps": {},
        "tool_cache": {},
        "call_context": _call_context(context),
        "history_offset": len(messages),
        "room": 0,
        "ended": None,
        "so_far": "",
        "run_depends": _and(before["run_depends"], context.run_id),
        "is_resumed": False,
        "asked": "",
        "usage": NOTHING_USED,
        "thread_usage": before["thread_usage"],
    }


def _call_context(context: Context) -> CallContext:
    return {
        "user_id": context.order.for_user or context.order.user_id,
        "session_id": context.order.session or context.order.id,
        "metadata": {"run_id": context.run_id},
    }


def _and(runs: list[str], run_id: str) -> list[str]:
    return runs if run_id in runs else [*runs, run_id]


def prompt_of(mind: AgentCheckpointState) -> str:
    """What this turn began with."""
    first = mind["prompt_messages"][mind["history_offset"]]
    return next(
        (
            str(part["content"])
            for part in reversed(first["parts"])
            if part["part_kind"] == "user-prompt"
        ),
        "",
    )


def heard(
    mind: AgentCheckpointState, message: Json | None, recorded: Mapping[str, Any]
) -> AgentCheckpointState:
    """After a model's answer.

    Args:
        message: what the conversation keeps of it; None for nothing.
        recorded: what was recorded of the request. `left_out` and `room`: see AgentCheckpointState.
    """
    used = {name: recorded[name] for name in NOTHING_USED if name in recorded}
    step = {
        "calls": [],
        "input_tokens": used.get("input_tokens", 0),
        "output_tokens": used.get("output_tokens", 0),
    }
    if recorded.get("left_out"):
        step["left_out"] = dict(recorded["left_out"])
    return {
        **mind,
        "prompt_messages": [*mind["prompt_messages"], *([message] if message else [])],
        "intermediate_steps": {**mind["intermediate_steps"], str(mind["current_loop"]): step},
        "room": recorded.get("room", 0),
        "usage": plus(mind["usage"], used),
        "thread_usage": plus(mind["thread_usage"], used),
    }


def open_calls(mind: AgentCheckpointState) -> list[Json]:
    """The calls of the loop under way, `{"id", "tool", "arguments"}` each; none where the model is
    to be asked.
    """
    return calls_of(mind["prompt_messages"][-1])


def closed(
    mind: AgentCheckpointState, results: Mapping[str, Mapping[str, Any]], used: Mapping[str, Any]
) -> AgentCheckpointState:
    """After the calls of a loop: what they gave is the next thing that the model is told.

    Where a person changed a call's arguments, the model's own message has those that were made from
    then on, and what they were stands beside the result.
    """
    calls, loop = open_calls(mind), str(mind["current_loop"])
    parts = [_returned(call["id"], call["tool"], _given(results[call["id"]])) for call in calls]
    statuses = [
        {"id": call["id"], "tool": call["tool"], "status": results[call["id"]]["status"]}
        for call in calls
    ]
    return {
        **mind,
        "prompt_messages": [
            *mind["prompt_messages"][:-1],
            _as_made(mind["prompt_messages"][-1], results),
            {"kind": "request", "parts": parts},
        ],
        "current_loop": mind["current_loop"] + 1,
        "intermediate_steps": {
            **mind["intermediate_steps"],
            loop: {**mind["intermediate_steps"].get(loop, {}), "calls": statuses},
        },
        "tool_cache": {},
        "asked": "",
        "so_far": "",
        "usage": plus(mind["usage"], used),
        "thread_usage": plus(mind["thread_usage"], used),
    }


def urged(mind: AgentCheckpointState, words: str) -> AgentCheckpointState:
    """After an answer that will not do: the model is told why, in another loop."""
    again = {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": words}]}
    return {
        **mind,
        "prompt_messages": [*mind["prompt_messages"], again],
        "current_loop": mind["current_loop"] + 1,
    }


def _given(result: Mapping[str, Any]) -> Any:
    if "was" not in result:
        return result["result"]
    return {"result": result["result"], "arguments_changed_by_a_person": {"was": result["was"]}}


def _as_made(message: Json, results: Mapping[str, Mapping[str, Any]]) -> Json:
    made = {name: got["arguments"] for name, got in results.items() if "was" in got}
    if not made:
        return message
    parts = [
        {**part, "args": made[part["tool_call_id"]]}
        if part["part_kind"] == "tool-call" and part["tool_call_id"] in made
        else part
        for part in message["parts"]
    ]
    return {**message, "parts": parts}


def _returned(call_id: str, tool: str, content: Any) -> Json:
    return {
        "part_kind": "tool-return",
        "tool_name": tool,
        "tool_call_id": call_id,
        "content": content,
    }


def recorded(reply: Reply, key: str) -> Json:
    """A model's answer as it is kept: its calls with ids that are no other call's, since some
    models number them anew in each answer.
    """
    parts, number = [], 0
    for part in reply.message["parts"]:
        if part["part_kind"] == "tool-call":
            number += 1
            part = {
                **part,
                "tool_call_id": f"call_{name(key, str(number))}",
                "args": _arguments(part.get("args")),
            }
        parts.append(part)
    return {**reply.message, "parts": parts}


def _arguments(written: Any) -> Any:
    """As an object where a state can hold it, so that names of secrets are found in it; else as the
    model wrote it.
    """
    if not isinstance(written, str):
        return written or {}
    try:
        read = json.loads(written or "{}", parse_constant=_refuse)
    except (ValueError, RecursionError):
        return written
    return read if isinstance(read, dict) and _plain(read, DEEPEST) else written


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON value")


def _plain(value: Any, levels: int) -> bool:
    """Whether a JSON value is neither deep nor holds immense numbers."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return levels > 0 and all(_plain(item, levels - 1) for item in inner)
    return not isinstance(value, int) or value.bit_length() <= 1_000


def calls_of(message: Mapping[str, Any]) -> list[Json]:
    """The calls in a model's message; `arguments` are as the model wrote them: text, or an
    object.
    """
    if message["kind"] != "response":
        return []
    return [
        {
            "id": part["tool_call_id"],
            "tool": part["tool_name"],
            "arguments": part.get("args") or "{}",
        }
        for part in message["parts"]
        if part["part_kind"] == "tool-call"
    ]


def text_of(message: Mapping[str, Any]) -> str:
    """What a model said, without its calls and thoughts."""
    return "".join(str(part["content"]) for part in message["parts"] if part["part_kind"] == "text")


def name(*parts: str) -> str:
    """A short name that is the same at every attempt."""
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:20]


def message_id(key: str, role: str) -> str:
    """The id of what one execution of a step (`Context.key`) says in a role."""
    return f"msg_{name(key, role)}"


def upserted(messages: Sequence[Json], *new: Json) -> list[Json]:
    """The conversation with messages added, or replaced where one of that id stands."""
    places = {
        other["id"]: place
        for place, other in enumerate(messages)
        if isinstance(other, Mapping) and "id" in other
    }
    merged = list(messages)
    for other in new:
        if other["id"] in places:
            merged[places[other["id"]]] = other
        else:
            places[other["id"]] = len(merged)
            merged.append(other)
    return merged


def hidden_in(value: Any) -> Iterator[str]:
    """Names in arguments whose values were not kept."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if inner == HIDDEN:
                yield str(key)
            else:
                yield from hidden_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from hidden_in(inner)
