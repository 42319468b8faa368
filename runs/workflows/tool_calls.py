"""Tool calls that a person decides one by one: what is asked, what may be answered, and what a step
may then do.

A step asks with `Ask(calls=[Call(…), …])`. The answer decides every call: approve it, approve it
with other arguments where its `editable` paths allow them, reject it with a reason, or give its
result in the tool's place where it is `answerable`. What was decided is looked up in the ledger
(`Context.decided_calls`), and a step makes `approved` ones alone, so that no rejected call is ever
made. Of a state nothing is believed: anybody who may write one could approve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from runs.workflows import schemas
from runs.workflows.refusals import in_json

DECISIONS = "call_decisions"
"""State key under which earlier versions kept what was decided.

It means nothing any more, and nobody may write it.
"""
APPROVE, EDIT, REJECT, RESPOND = "approve", "edit", "reject", "respond"
MADE = frozenset({APPROVE, EDIT})
"""Decisions that let a call be made."""
ANSWER = "answer"
"""Name of the answer that brings data, or decides calls one by one."""
MAX_CALLS = 50
LONGEST_ID = 128
RISKS = ("low", "normal", "high")
"""How much harm a call may do, from little to much."""
REASON = 4_000
RESULT = 20_000
"""Characters of what a person gives as a call's result."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call that a step wants to make."""

    id: str
    """Unique within the question: the model's own id of the call, or any other."""
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """JSON.

    An argument named like a secret is refused, since it would not be kept: the tool reads it from
    its environment.
    """
    preview: str = ""
    """Markdown: what the call would do, in the tool's own words. Sanitised when shown."""
    risk: Literal["low", "normal", "high"] = "normal"
    editable: Sequence[str] = ()
    """JSON pointers (RFC 6901) of what a person may change in the arguments; all below each too. ""
    is all of them.
    """
    schema: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schema of the arguments, which edited ones must fit."""
    answerable: bool = False
    """Whether a person may give the call's result in words. The tool is not called then, and the
    step reads the words from `answered`.
    """


class CallsRefused(Exception):
    """The calls cannot be asked about; the message says why."""

    code = "calls_refused"


def kept(calls: Sequence[Call]) -> list[dict[str, Any]]:
    """The calls as a question holds them; raises CallsRefused, and schemas.SchemaRefused."""
    if len(calls) > MAX_CALLS:
        raise CallsRefused(
            f"One question asks about up to {MAX_CALLS} calls; these are {len(calls)}."
        )
    by_id: dict[str, dict[str, Any]] = {}
    for call in calls:
        if call.id in by_id or not 0 < len(call.id) <= LONGEST_ID or not call.id.isprintable():
            message = (
                f"Each call needs an id of its own, of up to {LONGEST_ID} printable characters; "
                f"{in_json(call.id, 60)} is none, or taken."
            )
            raise CallsRefused(message)
        if not call.tool or call.risk not in RISKS:
            raise CallsRefused(
                f"The call {call.id} names no tool, or a risk that is none of {', '.join(RISKS)}."
            )
        if any(pointer and not pointer.startswith("/") for pointer in call.editable):
            raise CallsRefused(
                f"The call {call.id}: {list(call.editable)} must be JSON pointers such as /subject."
            )
        by_id[call.id] = {**told(call), "schema": schemas.check(dict(call.schema))}
    return list(by_id.values())


def told(call: Call) -> dict[str, Any]:
    """A call as JSON has it.

    Whether it is answerable stands there where it is: digests of earlier versions know no such key.
    """
    return {
        "id": call.id,
        "tool": call.tool,
        "arguments": dict(call.arguments),
        "preview": call.preview,
        "risk": call.risk,
        "editable": list(call.editable),
        "schema": dict(call.schema),
        **({"answerable": True} if call.answerable else {}),
    }


def required(calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The JSON Schema of an answer about these calls, as `kept` gave them: every one is decided."""
    each = {call["id"]: _one(call) for call in calls}
    answers = {
        "type": "object",
        "properties": each,
        "required": list(each),
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "title": "Decide each call",
        "properties": {"calls": answers},
        "required": ["calls"],
        "additionalProperties": False,
    }


def answers_to(
    calls: Sequence[Mapping[str, Any]], *, to: str
) -> tuple[dict[str, str], dict[str, str]]:
    """The answers to a question about these calls, as `kept` gave them, and their labels: all at
    once, unless one is of high risk; or one by one.
    """
    at_once = {} if any(call["risk"] == "high" for call in calls) else {APPROVE: to}
    label = "Approve all" if len(calls) > 1 else "Approve"
    return {**at_once, ANSWER: to}, {APPROVE: label, ANSWER: "Send decisions"}


def _one(call: Mapping[str, Any]) -> dict[str, Any]:
    own: dict[str, Any] = {"arguments": {"type": "object"}} if call["editable"] else {}
    if call.get("answerable"):
        own["result"] = {"type": "string", "maxLength": RESULT}
    return {
        "type": "object",
        "title": call["tool"],
        "properties": {
            "decision": {"enum": allowed(call)},
            **own,
            "reason": {"type": "string", "maxLength": REASON},
        },
        "required": ["decision"],
        "additionalProperties": False,
    }


def allowed(call: Mapping[str, Any]) -> list[str]:
    """What may be decided of a call, as `kept` gave it."""
    may = {EDIT: call["editable"], RESPOND: call.get("answerable")}
    return [word for word in (APPROVE, EDIT, REJECT, RESPOND) if may.get(word, True)]


def faults(calls: Sequence[Mapping[str, Any]], payload: Mapping[str, Any]) -> dict[str, list[str]]:
    """What is wrong with an answer that fits `required`: dotted path → sentences; empty where
    nothing is.
    """
    errors: dict[str, list[str]] = {}
    for call in calls:
        answer, path = payload["calls"][call["id"]], f"calls.{call['id']}"
        edited = answer.get("arguments")
        match answer["decision"]:
            case "respond" if not answer.get("result", "").strip():
                errors[f"{path}.result"] = ["Say what the call's result is."]
            case "approve" | "edit" | "reject" if answer.get("result", "").strip():
                errors[f"{path}.result"] = ["A result of your own is taken with `respond` alone."]
            case "reject" if not answer.get("reason", "").strip():
                errors[f"{path}.reason"] = ["Say why this call is rejected."]
            case "edit" if edited is None:
                errors[f"{path}.arguments"] = ["Say what the arguments should be."]
            case "edit":
                if refusal := _refused(call, edited):
                    errors[f"{path}.arguments"] = refusal
            case "approve" if edited is not None and not same(edited, call["arguments"]):
                errors[f"{path}.arguments"] = [
                    "Approved as it stands, a call keeps its arguments; decide `edit` to "
                    "change them."
                ]
    return errors


def _refused(call: Mapping[str, Any], edited: Any) -> list[str]:
    """Why edited arguments cannot be taken."""
    outside = [
        path
        for path in _changes(call["arguments"], edited)
        if not any(_within(path, allowed) for allowed in call["editable"])
    ]
    if outside:
        allowed = ", ".join(call["editable"])
        return [
            f"{', '.join(path or 'the whole' for path in outside[:5])} may not be changed; "
            f"only {allowed} may."
        ]
    errors = schemas.validate_resume_payload(call["schema"], edited) if call["schema"] else {}
    return [
        f"{place}: {text}" if place else text for place, texts in errors.items() for text in texts
    ]


def _within(path: str, allowed: str) -> bool:
    return not allowed or path == allowed or path.startswith(f"{allowed}/")


def _changes(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """JSON pointers of the places at which two values differ."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in {**before, **after}:
            inner = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if (key in before) != (key in after):
                yield inner
            else:
                yield from _changes(before[key], after[key], inner)
    elif (
        isinstance(before, list | tuple)
        and isinstance(after, list | tuple)
        and len(before) == len(after)
    ):
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _changes(old, new, f"{path}/{place}")
    elif not _equal(before, after):
        yield path


def same(one: Any, other: Any) -> bool:
    """Whether two arguments are equal as JSON has it."""
    return next(_changes(one, other), None) is None


def _equal(one: Any, other: Any) -> bool:
    """As JSON has it: true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def decided(
    calls: Sequence[Mapping[str, Any]], payload: Mapping[str, Any] | None
) -> dict[str, dict[str, Any]]:
    """What an answer without `faults` decided, by id. None approves every call as it stands."""
    calls_decided = {}
    for call in calls:
        answer = {"decision": APPROVE} if payload is None else payload["calls"][call["id"]]
        changed = answer["decision"] == EDIT and not same(answer["arguments"], call["arguments"])
        calls_decided[call["id"]] = {
            "decision": APPROVE
            if answer["decision"] == EDIT and not changed
            else answer["decision"],
            "tool": call["tool"],
            "arguments": answer["arguments"] if changed else call["arguments"],
            "reason": answer.get("reason", "").strip(),
            **({"asked": call["arguments"]} if changed else {}),
            **({"result": answer["result"]} if answer["decision"] == RESPOND else {}),
        }
    return calls_decided


class CallContext(Protocol):
    """A step's context, as far as it is needed here."""

    @property
    def decided_calls(self) -> Callable[[str], Mapping[str, Mapping[str, Any]]]:
        """Step → id of a call → `{"decision", "tool", "arguments", "reason", "decision_id"}`, and
        `asked` where arguments were changed, `result` where the decision is `respond`.
        """


@dataclass(frozen=True, kw_only=True)
class Approved:
    """A call that may be made, with the arguments that were approved."""

    id: str
    tool: str
    arguments: Mapping[str, Any]
    """As they were approved."""
    edited: bool
    """Whether a person changed them."""
    decision_id: str = ""
    """Of the answer that says so."""


def approved(
    context: CallContext, step: str, calls: Sequence[Call] | None = None
) -> list[Approved]:
    """The calls that people let a step make, in the order in which they were asked about; never one
    that was rejected.

    Args:
        step: the step that asked.
        calls: those that are to be made now. What was decided on others, or on other arguments
            under the same id, does not count.

    A step may run twice: `context.once(call.id, lambda: make(call))` makes each once.
    """
    known = context.decided_calls(step)
    wanted = [
        (name, known[name])
        for name in (known if calls is None else [call.id for call in calls])
        if name in known
    ]
    about = None if calls is None else {call.id: call for call in calls}
    return [
        Approved(
            id=name,
            tool=call["tool"],
            arguments=call["arguments"],
            edited=call["decision"] == EDIT,
            decision_id=call.get("decision_id", ""),
        )
        for name, call in wanted
        if call["decision"] in MADE and (about is None or _is_about(call, about[name]))
    ]


@dataclass(frozen=True, kw_only=True)
class Answered:
    """A call that a person answered in the tool's place."""

    id: str
    tool: str
    result: str
    """The person's words."""
    decision_id: str = ""


def answered(context: CallContext, step: str, calls: Sequence[Call]) -> list[Answered]:
    """Those of these calls, with these arguments, that people answered in the tool's place."""
    known = context.decided_calls(step)
    return [
        Answered(
            id=call.id,
            tool=call.tool,
            result=answer["result"],
            decision_id=answer.get("decision_id", ""),
        )
        for call in calls
        if (answer := known.get(call.id)) is not None
        and answer["decision"] == RESPOND
        and _is_about(answer, call)
    ]


def rejected(context: CallContext, step: str) -> dict[str, str]:
    """The calls that people refused: id → reason, for the model that wanted them."""
    return {
        name: call["reason"]
        for name, call in context.decided_calls(step).items()
        if call["decision"] == REJECT
    }


def all_decided(context: CallContext, step: str, calls: Sequence[Call]) -> bool:
    """Whether each of these calls, with these arguments, was decided."""
    known = context.decided_calls(step)
    return all(call.id in known and _is_about(known[call.id], call) for call in calls)


def _is_about(one: Mapping[str, Any], call: Call) -> bool:
    return one["tool"] == call.tool and same(one.get("asked", one["arguments"]), call.arguments)
