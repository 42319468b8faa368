"""Decisions of clients on tool calls, in LangChain's two forms: `HITLResponse`, and `HumanResponse`
of Agent Inbox. A decision is for the call that it names, else for the call at the same place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from extensions.langgraph.api.interrupts import allowed, as_told, is_call
from hitl.decisions.services import AnswerInvalid
from hitl.live.pump import StreamRefused
from hitl.outbound.links import absolute
from hitl.rendering.links import place_of
from runs.models import Pause
from runs.workflows.tool_calls import APPROVE, EDIT, REJECT, RESPOND, same

IGNORED = "Ignored by the client."
WORDS = {"accept": APPROVE, "ignore": REJECT, "response": RESPOND}
"""Words of `HumanResponse` → the same of `HITLResponse`."""
CUT = 300
"""Characters that an error repeats of what a client sent."""


def on_calls(pause: Pause, given: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return, for the id of each call, what was decided of this call.

    Raises AnswerInvalid, in the words of LangChain's middleware where that refuses too, and
    StreamRefused where a decision brings back a call that is not asked about.
    """
    calls = pause.calls
    if len(given) != len(calls):
        raise _invalid(
            f"Number of human decisions ({len(given)}) does not match number of hanging tool calls "
            f"({len(calls)})."
        )
    placed: dict[int, Mapping[str, Any]] = {}
    for place, decision in enumerate(given):
        at = _place_of(pause, decision, place, set(range(len(calls))) - placed.keys())
        if at in placed:
            raise _invalid(
                f"Two decisions are for one call of {calls[at]['tool']}: name the call in each, or "
                "give them in the order of the calls."
            )
        placed[at] = decision
    return {call["id"]: _on_call(pause, call, placed[at]) for at, call in enumerate(calls)}


def _place_of(pause: Pause, decision: Mapping[str, Any], place: int, free: set[int]) -> int:
    """Find the number of the call that a decision is for."""
    calls, is_edit = pause.calls, decision["type"] == EDIT
    action = brought(decision)
    if action is None:
        return place
    named = [at for at, call in enumerate(calls) if is_call(action, call, edited=is_edit)]
    if not named and is_edit:
        raise _invalid(
            f"Reviewer edited tool call {calls[place]['id']!r} to "
            f"{str(action.get('name', action.get('action')))[:CUT]!r}, which is not an available "
            f"tool. Available tools: {', '.join(sorted({call['tool'] for call in calls}))}."
        )
    if not named:
        raise stale(pause)
    unused = [at for at in named if at in free] or named
    if place in unused:
        return place
    if any(not _alike(calls[unused[0]], calls[at]) for at in unused):
        raise _invalid(
            f"Several calls of {calls[unused[0]]['tool']} wait: give the decisions in the order of "
            "the calls."
        )
    return unused[0]


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one["tool"] == other["tool"] and same(one["arguments"], other["arguments"])


def _on_call(pause: Pause, call: Mapping[str, Any], decision: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a decision on a call into the form that the question takes."""
    allowed_kinds, kind = allowed(pause, call), WORDS.get(decision["type"], decision["type"])
    edited = _edited(call, decision) if kind == EDIT else {}
    if kind == EDIT and same(edited, call["arguments"]):
        kind = APPROVE
    if kind not in allowed_kinds:
        raise _invalid(
            f"Unexpected human decision: {str(dict(decision))[:CUT]}. Decision type "
            f"'{decision['type'][:CUT]}' is not allowed for tool '{call['tool']}'. Expected one of "
            f"{allowed_kinds} based on the tool's configuration."
        )
    match kind:
        case "edit":
            return {"decision": EDIT, "arguments": edited}
        case "reject":
            return {"decision": REJECT, "reason": message_of(decision).strip() or IGNORED}
        case "respond":
            if not (words := message_of(decision)).strip():
                raise _invalid(f"Say what the result of {call['tool']} is.")
            return {"decision": RESPOND, "result": words}
    return {"decision": APPROVE}


def _edited(call: Mapping[str, Any], decision: Mapping[str, Any]) -> dict[str, Any]:
    given, before = arguments_of(decision), call["arguments"]
    if not isinstance(given, Mapping):
        raise _invalid(f"Say what the arguments of {call['tool']} should be.")
    return {name: as_told(before.get(name, ""), value) for name, value in given.items()}


def brought(value: Any) -> Mapping[str, Any] | None:
    """Return the name and arguments that a decision brings back from a page, if any."""
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        return None
    action = value.get("edited_action", value.get("args"))
    if not isinstance(action, Mapping) or not action:
        return None
    if _is_named(value, action):
        return action
    # arguments alone: those of an edit are new ones
    return None if value["type"] == EDIT else {"args": action}


def arguments_of(value: Mapping[str, Any]) -> Any:
    """Return the arguments of an edit, in either form."""
    action = value.get("edited_action", value.get("args"))
    if isinstance(action, Mapping) and _is_named(value, action):
        return action.get("args")
    return action


def _is_named(value: Mapping[str, Any], action: Mapping[str, Any]) -> bool:
    """Whether an action is `{"action" or "name", "args"}`, and not the arguments alone."""
    is_pair = "args" in action and ("action" in action or "name" in action)
    return "edited_action" in value or is_pair


def message_of(value: Mapping[str, Any]) -> str:
    words = value.get("message", value.get("args"))
    return words if isinstance(words, str) else ""


def stale(pause: Pause) -> StreamRefused:
    """Refuse with 409 where a person looked, or may have looked, at a question that is not open."""
    return StreamRefused(
        409,
        "stale",
        "Nothing was decided: this thread asks something else by now, or may. Look again, and "
        f"answer that: {absolute(place_of(pause))}",
    )


def _invalid(words: str) -> AnswerInvalid:
    return AnswerInvalid.of("resume", words)
