"""What a LangGraph graph asks when it interrupts, as a question of ours; and the value it goes on
with once that is answered.

Pure: an interrupt comes as plain JSON. Four ways of asking are known, and whatever is none of them
is a plain value:

- `HITLRequest`: `{"action_requests": [{name, args, description?}], "review_configs": [{action_name,
  allowed_decisions, args_schema?}]}`, answered with `{"decisions": [{"type": "approve" | "edit" |
  "reject" | "respond", …}]}`, one for each request, in order.
- `HumanInterrupt`, or a list of them: `{"action_request": {action, args}, "config": {allow_accept,
  allow_edit, allow_respond, allow_ignore}, "description"?}`, answered with a list of `{"type":
  "accept" | "edit" | "response" | "ignore", "args"}`.
- one tool call, `{"type": "tool_approval", tool_call_id, name, args, description?}`, answered with
  one decision as in `HITLRequest`.
- a value with a `response_schema`, answered with what fits it.
- any other value is answered with words, with `True` (approve) or with `False` (reject).
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from runs.workflows import tool_calls as tools
from runs.workflows.base import Ask, Call, Report, State, StepFailed
from runs.workflows.sequence import APPROVE, REVISE
from runs.workflows.wait_for_input import ANSWER

REPLY = "graph_answer"
"""State key of what an answer that is no verdict brings."""
REJECT = "reject"
REVIEW = "waystation_review"
"""Key of an interrupt's value that narrows whom it is put to, as `Report.review` does."""
PHASE = "awaiting_graph_answer"
SHOWN = 20_000
"""Characters of an interrupt's value that a question shows."""
ROUNDS = 10_000
"""A graph is answered with words as often as it asks."""
LEFT_OUT = {"response_schema", "description", REVIEW}
"""Keys of an interrupt's value that are not part of what is shown of it as it is."""
TITLES = ("question", "message", "prompt", "title")
DECISIONS = {"approve", "edit", "reject", "respond"}
FLAGS = {
    "allow_accept": "approve",
    "allow_edit": "edit",
    "allow_respond": "respond",
    "allow_ignore": "ignore",
}


@dataclass(frozen=True, kw_only=True)
class Raised:
    """An interrupt that waits for its answer."""

    id: str
    value: Any
    """JSON."""
    schema: Mapping[str, Any] | None = None
    """Of the answer, where the graph gave one."""
    node: str = ""
    """Of the graph itself, which asks or holds the graph that asks."""


class Dialect(Enum):
    HITL = "HITLRequest"
    HUMAN = "HumanInterrupt"
    ONE_CALL = "tool_approval"


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A call that a graph wants to make."""

    name: str
    arguments: Mapping[str, Any]
    description: str
    allowed: frozenset[str]
    """Of `DECISIONS`, and `ignore`."""
    schema: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Wishes:
    dialect: Dialect
    each: Sequence[Wish]

    @property
    def as_calls(self) -> bool:
        """Whether each may be approved, or rejected with a reason: then they are decided like any
        calls of tools.
        """
        no = {"ignore", "respond"} if self.dialect is Dialect.HUMAN else {"reject"}
        return len(self.each) <= tools.MAX_CALLS and all(
            "approve" in wish.allowed and wish.allowed & no for wish in self.each
        )

    @property
    def takes_words(self) -> bool:
        """Whether the one call may be answered with words instead of being made."""
        return len(self.each) == 1 and "respond" in self.each[0].allowed


def wishes(raised: Raised) -> Wishes | None:
    """The calls that an interrupt is about; None for a plain value."""
    value = raised.value
    match value:
        case {"action_requests": [_, *_] as requests, "review_configs": list() as configs}:
            by_name = {
                config.get("action_name"): config
                for config in configs
                if isinstance(config, Mapping)
            }
            return _all(Dialect.HITL, [_requested(request, by_name) for request in requests])
        case {"action_request": _, "config": _}:
            return _all(Dialect.HUMAN, [_human(value)])
        case [{"action_request": _, "config": _}, *_]:
            return _all(Dialect.HUMAN, [_human(wish) for wish in value])
        case {"type": "tool_approval", "name": str() as name, "args": Mapping() as arguments}:
            allowed = frozenset(_words_of(raised.schema or {}) & DECISIONS) or frozenset(
                {"approve", "reject"}
            )
            return Wishes(
                Dialect.ONE_CALL,
                [
                    Wish(
                        name=name,
                        arguments=arguments,
                        description=_text(value, "description"),
                        allowed=allowed,
                    )
                ],
            )
    return None


def takes_words(raised: Raised) -> bool:
    """Whether the question may be answered with words instead of a verdict on its call."""
    asked = wishes(raised)
    return asked is not None and asked.as_calls and asked.takes_words


def _all(dialect: Dialect, found: Sequence[Wish | None]) -> Wishes | None:
    whole = [wish for wish in found if wish is not None]
    return Wishes(dialect, whole) if len(whole) == len(found) else None


def _requested(request: Any, configs: Mapping[Any, Mapping[str, Any]]) -> Wish | None:
    match request:
        case {"name": str() as name, "args": Mapping() as arguments} if name and name in configs:
            given = configs[name].get("allowed_decisions")
            allowed = (
                frozenset(request for request in given if isinstance(request, str)) & DECISIONS
                if isinstance(given, list)
                else frozenset()
            )
            schema = configs[name].get("args_schema")
            if not allowed:
                return None
            return Wish(
                name=name,
                arguments=arguments,
                description=_text(request, "description"),
                allowed=allowed,
                schema=schema if isinstance(schema, Mapping) else {},
            )
    return None


def _human(value: Any) -> Wish | None:
    match value:
        case {
            "action_request": {"action": str() as name, "args": Mapping() as arguments},
            "config": Mapping() as config,
        } if name:
            allowed = frozenset(
                decision for flag, decision in FLAGS.items() if config.get(flag) is True
            )
            return (
                Wish(
                    name=name,
                    arguments=arguments,
                    description=_text(value, "description"),
                    allowed=allowed,
                )
                if allowed
                else None
            )
    return None


def _text(value: Mapping[str, Any], key: str) -> str:
    text = value.get(key)
    return text if isinstance(text, str) else ""


def _words_of(schema: Any) -> set[str]:
    """The constants that a schema names, at any depth: of a decision's type they are what may be
    decided.
    """
    if isinstance(schema, Mapping):
        own = (
            {schema.get("const"), *(schema["enum"] if isinstance(schema.get("enum"), list) else ())}
            if "properties" not in schema
            else set()
        )
        return {option for option in own if isinstance(option, str)}.union(
            *(_words_of(part) for part in schema.values())
        )
    parts = schema if isinstance(schema, list) else []
    return set[str]().union(*(_words_of(part) for part in parts))


def question(
    raised: Raised, *, step: str, graph: str, update: Mapping[str, Any], material: Any, waiting: int
) -> Ask:
    """The question of ours that asks what an interrupt asks.

    Args:
        step: every way leads back to it.
        update: joins the state before the question is asked.
        material: what the answer is bound to.
        waiting: how many further interrupts of the graph wait for their turn.
    """
    asked = wishes(raised)
    about: dict[str, str | int] = {
        "Graph": graph,
        **({"Questions after this one": waiting} if waiting else {}),
    }
    narrowed = raised.value.get(REVIEW) if isinstance(raised.value, Mapping) else None
    report = Report(
        content=_content(raised.value, asked), facts=about, material=material, review=narrowed
    )
    common: dict[str, Any] = {"report": report, "update": update, "phase": PHASE}
    if asked is not None and asked.as_calls:
        return _about_calls(asked, raised, step, common)
    if asked is not None:
        each = {name: _decision(wish) for name, wish in named(raised, asked).items()}
        schema = {
            "type": "object",
            "properties": each,
            "required": list(each),
            "additionalProperties": False,
        }
        return _form(schema, _title(asked), step, common)
    if (wanted := _wanted(raised)) is not None:
        return _form(wanted, _heading(raised.value, graph), step, common)
    return Ask(
        question=_heading(raised.value, graph),
        answers={APPROVE: step, REJECT: step, ANSWER: step},
        labels={REJECT: "Reject", ANSWER: "Send answer"},
        required_inputs=_object(
            {"type": "string", "title": "Your answer", "minLength": 1, "maxLength": SHOWN}
        ),
        answers_without_input=[APPROVE, REJECT],
        kind="approval",
        **common,
    )


def _about_calls(asked: Wishes, raised: Raised, step: str, common: Mapping[str, Any]) -> Ask:
    feedback = {REVISE: step} if asked.takes_words else {}
    return Ask(
        question=_title(asked),
        answers={APPROVE: step, ANSWER: step, **feedback},
        labels={
            APPROVE: "Approve all" if len(asked.each) > 1 else "Approve",
            ANSWER: "Send decisions",
        },
        calls=calls_of(raised, asked),
        max_revisions=ROUNDS,
        **common,
    )


def calls_of(raised: Raised, asked: Wishes) -> list[Call]:
    return [
        Call(
            id=name,
            tool=wish.name,
            arguments=wish.arguments,
            preview=wish.description,
            editable=[""] if "edit" in wish.allowed else [],
            schema=wish.schema,
            answerable="respond" in wish.allowed,
        )
        for name, wish in named(raised, asked).items()
    ]


def named(raised: Raised, asked: Wishes) -> dict[str, Wish]:
    """The wishes by an id that no other question of the thread uses."""
    return {f"{raised.id[:12]}-{number}": wish for number, wish in enumerate(asked.each, start=1)}


def _form(schema: Mapping[str, Any], title: str, step: str, common: Mapping[str, Any]) -> Ask:
    return Ask(
        question=title,
        answers={ANSWER: step},
        labels={ANSWER: "Send"},
        required_inputs=_object(schema),
        kind="input",
        **common,
    )


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {REPLY: dict(schema)},
        "required": [REPLY],
        "additionalProperties": False,
    }


def _decision(wish: Wish) -> dict[str, Any]:
    arguments = {
        "arguments": {
            **(wish.schema or {"type": "object"}),
            "title": "Arguments",
            "default": wish.arguments,
        }
    }
    allowed = sorted(wish.allowed)
    named = [name.capitalize() for name in allowed]
    return {
        "type": "object",
        "title": wish.name,
        "properties": {
            "decision": {"enum": allowed, "enumNames": named, "title": "Decision"},
            **(arguments if "edit" in wish.allowed else {}),
            "message": {"type": "string", "title": "Message", "maxLength": SHOWN},
        },
        "required": ["decision"],
        "additionalProperties": False,
    }


def _wanted(raised: Raised) -> Mapping[str, Any] | None:
    given = raised.schema
    if given is None and isinstance(raised.value, Mapping):
        given = raised.value.get("response_schema")
    return given if isinstance(given, Mapping) else None


def _title(asked: Wishes) -> str:
    names = ", ".join(wish.name for wish in asked.each)
    return f"May the graph do this: {names}?"[:300]


def _heading(value: Any, graph: str) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip().splitlines()[0][:300]
    heading = (
        next(
            (
                value[key]
                for key in TITLES
                if isinstance(value.get(key), str) and value[key].strip()
            ),
            "",
        )
        if isinstance(value, Mapping)
        else ""
    )
    return heading.strip().splitlines()[0][:300] if heading else f"The graph {graph} asks"


def _content(value: Any, asked: Wishes | None) -> str:
    if asked is not None:
        return (
            f"The graph waits for your decision on {len(asked.each)} "
            f"call{'s' if len(asked.each) > 1 else ''}."
        )
    if isinstance(value, str):
        return value[:SHOWN]
    described = _text(value, "description") if isinstance(value, Mapping) else ""
    rest = (
        {key: item for key, item in value.items() if key not in LEFT_OUT}
        if isinstance(value, Mapping)
        else value
    )
    return "\n\n".join(
        filter(
            None,
            [described[:SHOWN], _fenced(json.dumps(rest, indent=2, ensure_ascii=False)[:SHOWN])],
        )
    )


def _fenced(text: str) -> str:
    """A block of code that the text cannot leave."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}json\n{text}\n{fence}"


def answer(
    raised: Raised, *, action: str, state: State, context: tools.CallContext, step: str
) -> Any:
    """The value that the graph goes on with.

    Raises StepFailed where the answer decides nothing of what was asked.
    """
    asked = wishes(raised)
    if asked is None:
        verdicts = {APPROVE: True, REJECT: False} if _wanted(raised) is None else {}
        # a state is read-only
        return verdicts[action] if action in verdicts else copy.deepcopy(state.get(REPLY))
    if action == REVISE:
        feedback = state["revision_feedback"]
        return _wrapped(asked, [_said(asked.dialect, asked.each[0], "respond", {}, feedback)])
    each = named(raised, asked)
    if asked.as_calls:
        made = _decided(raised, asked, context, step)
    else:
        made = {
            name: _filled(each[name], reply)
            for name, reply in (state.get(REPLY) or {}).items()
            if name in each
        }
    if made.keys() != each.keys():
        raise StepFailed(
            "The answer does not decide what the graph asked, so nothing was done. Ask again.",
            code="graph_answer_missing",
        )
    return _wrapped(asked, [_said(asked.dialect, each[name], *made[name]) for name in each])


Said = tuple[str, Mapping[str, Any], str]
"""Decision, arguments, words."""


def _decided(
    raised: Raised, asked: Wishes, context: tools.CallContext, step: str
) -> dict[str, Said]:
    """Of calls that were decided one by one, as they were asked about: no other ones count."""
    wanted = calls_of(raised, asked)
    if not tools.all_decided(context, step, wanted):
        return {}
    reasons = tools.rejected(context, step)
    made: dict[str, Said] = {
        call.id: ("reject", call.arguments, reasons.get(call.id, "")) for call in wanted
    }
    for done in tools.approved(context, step, wanted):
        made[done.id] = "edit" if done.edited else "approve", done.arguments, ""
    for given in tools.answered(context, step, wanted):
        made[given.id] = "respond", {}, given.result
    return made


def _filled(wish: Wish, given: Mapping[str, Any]) -> Said:
    return given["decision"], given.get("arguments", wish.arguments), given.get("message", "")


def _said(
    dialect: Dialect, wish: Wish, decision: str, arguments: Mapping[str, Any], message: str
) -> dict[str, Any]:
    if dialect is Dialect.HUMAN:
        return _said_to_inbox(wish, decision, arguments, message)
    match decision:
        case "edit":
            return {
                "type": "edit",
                "edited_action": {"name": wish.name, "args": copy.deepcopy(arguments)},
            }
        case "reject":
            return {"type": "reject", **({"message": message} if message else {})}
        case "respond":
            return {"type": "respond", "message": message}
    return {"type": "approve"}


def _said_to_inbox(
    wish: Wish, decision: str, arguments: Mapping[str, Any], message: str
) -> dict[str, Any]:
    """In the words of `HumanResponse`, which knows no rejection: it is ignored where that is
    allowed, else answered with the reason.
    """
    match decision:
        case "approve" | "edit":
            kind = "accept" if decision == "approve" else "edit"
            return {"type": kind, "args": {"action": wish.name, "args": copy.deepcopy(arguments)}}
        case "reject" | "respond" if decision == "respond" or "ignore" not in wish.allowed:
            return {"type": "response", "args": message}
    return {"type": "ignore", "args": None}


def _wrapped(asked: Wishes, said: list[dict[str, Any]]) -> Any:
    match asked.dialect:
        case Dialect.HITL:
            return {"decisions": said}
        case Dialect.HUMAN:
            return said
        case Dialect.ONE_CALL:
            return said[0]
