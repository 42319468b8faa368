"""Which tool calls a person is asked about before they are made: rules in order, the first that
matches decides.

The rules of the step's configuration come first, then the tool's own; where none matches, a tool of
high risk asks and others do not. As configuration a rule is `{"tool": "fetch", "when": …, "ask":
true, "why": "…"}`, with `when` one of

    "always" {"risk": "high"}                                     a rule that asks: that risk or
    higher; one that lets pass: that or lower {"argument": "/amount", "op": "gt", "value": 100}    a
    JSON pointer (RFC 6901) into the arguments

and `op` one of `equals contains matches in gt lt exists`. `tool` is left out in rules for every
tool. An argument that is not there matches nothing. One that cannot be compared (text where a
number is expected) matches the rules that ask and none that let pass: what is not understood is
never waved through.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

import re2

from runs.workflows import refusals, schemas
from runs.workflows.base import pointers
from runs.workflows.tool_calls import RISKS

MAX_RULES = 100
LONGEST_WHY = 300
LONGEST_PATTERN = 1_000
LONGEST_POINTER = 300
Op = Literal["equals", "contains", "matches", "in", "gt", "lt", "exists"]
OPS: tuple[str, ...] = get_args(Op)


@dataclass(frozen=True, kw_only=True)
class Risk:
    """Matches by the tool's risk."""

    risk: str


@dataclass(frozen=True, kw_only=True)
class Argument:
    """Matches by one argument."""

    pointer: str
    op: str
    value: Any = None


@dataclass(frozen=True, kw_only=True)
class ApprovalRule:
    """One rule. `why` is what operators and reviewers read."""

    ask: bool
    when: Literal["always"] | Risk | Argument = "always"
    tool: str = ""
    """The tool it is about; "" for every one."""
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """As it stands in configuration."""
        when: Any = self.when
        if isinstance(when, Risk):
            when = {"risk": when.risk}
        elif isinstance(when, Argument):
            when = {
                "argument": when.pointer,
                "op": when.op,
                **({} if when.op == "exists" else {"value": when.value}),
            }
        return {
            **({"tool": self.tool} if self.tool else {}),
            "when": when,
            "ask": self.ask,
            "why": self.why,
        }


class Known(Protocol):
    """What is asked of a tool here."""

    @property
    def name(self) -> str: ...
    @property
    def risk(self) -> str: ...
    @property
    def approval(self) -> Sequence[ApprovalRule]: ...


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a person is asked, and why."""

    ask: bool
    why: str
    rule: ApprovalRule | None = None
    """The rule that decided; None where none matched."""
    place: str = ""
    """Where that rule stands: `approvals.2` of the step, `tool.0` of the tool's own; "" where none
    matched.
    """


class RulesRefused(refusals.FieldsRefused):
    """Rules that cannot be taken. `errors` maps the place of each fault, such as `2.when.op`, to
    sentences.
    """

    code = "rules_refused"


def explain(
    tool: Known, arguments: Mapping[str, Any], rules: Sequence[ApprovalRule] = ()
) -> Verdict:
    """Whether a person is asked about this call, by the step's `rules` and then the tool's own: the
    first that matches.
    """
    placed = [*((f"approvals.{number}", rule) for number, rule in enumerate(rules)),
              *((f"tool.{number}", rule) for number, rule in enumerate(tool.approval))]  # fmt: skip
    for place, rule in placed:
        if (not rule.tool or rule.tool == tool.name) and _matches(rule, tool, arguments):
            return Verdict(
                ask=rule.ask, why=rule.why or _in_words(rule, tool), rule=rule, place=place
            )
    if tool.risk == "high":
        return Verdict(
            ask=True, why=f"No rule speaks of this call, and {tool.name} is a tool of high risk."
        )
    return Verdict(
        ask=False, why=f"No rule asks about this call, and {tool.name} is no tool of high risk."
    )


def parse(rules: Any, *, tools: Collection[str] | None = None) -> tuple[ApprovalRule, ...]:
    """Rules from configuration; raises RulesRefused.

    `tools`: the names that a rule may speak of, where they are known.
    """
    if not isinstance(rules, list | tuple) or len(rules) > MAX_RULES:
        raise RulesRefused(
            {
                "": [
                    f"Rules are a list of up to {MAX_RULES} objects, the first that matches "
                    "decides."
                ]
            }
        )
    read = _RuleReader(tools)
    found = [read.rule(rule, str(number)) for number, rule in enumerate(rules)]
    if read.errors:
        raise RulesRefused(read.errors)
    return tuple(rule for rule in found if rule is not None)


@dataclass
class _RuleReader:
    """Reads rules and gathers what is wrong with them."""

    tools: Collection[str] | None
    errors: dict[str, list[str]] = field(default_factory=dict)

    def say(self, place: str, text: str) -> None:
        self.errors.setdefault(place, []).append(text)

    def rule(self, given: Any, place: str) -> ApprovalRule | None:
        if not isinstance(given, Mapping):
            self.say(
                place, 'A rule is an object such as {"when": "always", "ask": true, "why": "…"}.'
            )
            return None
        self._only(given, {"tool", "when", "ask", "why"}, place)
        ask, tool, why = given.get("ask"), given.get("tool", ""), given.get("why", "")
        if type(ask) is not bool:
            self.say(f"{place}.ask", "true (ask a person) or false (let it pass).")
        if not isinstance(tool, str):
            self.say(f"{place}.tool", "The name of a tool; leave it out for every tool.")
        # a misspelt one would silently never match
        elif tool and self.tools is not None and tool not in self.tools:
            self.say(
                f"{place}.tool",
                f"{refusals.in_json(tool, 80)} is none of the tools here: "
                f"{', '.join(sorted(self.tools)) or 'there are none'}.",
            )
        if not isinstance(why, str) or len(why) > LONGEST_WHY:
            self.say(f"{place}.why", f"A sentence of up to {LONGEST_WHY} characters.")
        when = self._when(given.get("when", "always"), f"{place}.when")
        return None if self.errors else ApprovalRule(ask=bool(ask), when=when, tool=tool, why=why)

    def _when(self, given: Any, place: str) -> Literal["always"] | Risk | Argument:
        if isinstance(given, Mapping) and "risk" in given:
            self._only(given, {"risk"}, place)
            if given["risk"] not in RISKS:
                self.say(f"{place}.risk", f"One of {', '.join(RISKS)}.")
            return Risk(risk=str(given["risk"]))
        if isinstance(given, Mapping) and "argument" in given:
            self._only(given, {"argument", "op", "value"}, place)
            return self._argument(given, place)
        if given != "always":
            self.say(
                place,
                '"always", {"risk": "high"}, or {"argument": "/path", "op": "equals", "value": …}.',
            )
        return "always"

    def _argument(self, given: Mapping[str, Any], place: str) -> Argument:
        pointer, op, value = (
            given["argument"],
            given.get("op"),
            given.get("value", pointers.NOTHING),
        )
        if not isinstance(pointer, str) or not _is_pointer(pointer):
            self.say(
                f"{place}.argument", "A JSON pointer into the arguments, such as /amount or /to/0."
            )
        if op not in OPS:
            self.say(f"{place}.op", f"One of {', '.join(OPS)}.")
        elif fault := _unfit(str(op), value):
            self.say(f"{place}.value", fault)
        return Argument(
            pointer=str(pointer), op=str(op), value=None if value is pointers.NOTHING else value
        )

    def _only(self, given: Mapping[str, Any], known: set[str], place: str) -> None:
        for name in sorted(map(str, given.keys() - known)):
            self.say(
                f"{place}.{name}"[:200],
                f"There is no such key; known are {', '.join(sorted(known))}.",
            )


def _is_pointer(text: str) -> bool:
    return text.startswith("/") and len(text) <= LONGEST_POINTER


def _unfit(op: str, value: Any) -> str:
    """What is wrong with a rule's value; "" where nothing is."""
    if op == "exists":
        return "" if value is pointers.NOTHING else "`exists` takes no value."
    if value is pointers.NOTHING:
        return f"`{op}` needs a value to compare with."
    if op in {"gt", "lt"} and not _is_number(value):
        return "A number."
    if op == "in" and not isinstance(value, list | tuple):
        return "A list of values."
    return _bad_pattern(value) if op == "matches" else ""


def _bad_pattern(value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_PATTERN:
        return f"A pattern of up to {LONGEST_PATTERN} characters."
    try:
        schemas.compiled(value)
    except re2.error:
        return (
            f"{refusals.in_json(value, 80)} is no pattern of RE2's syntax (no look-around, no "
            "back-references)."
        )
    return ""


def _matches(rule: ApprovalRule, tool: Known, arguments: Mapping[str, Any]) -> bool:
    if isinstance(rule.when, Risk):
        own, named = RISKS.index(tool.risk), RISKS.index(rule.when.risk)
        return own >= named if rule.ask else own <= named
    if not isinstance(rule.when, Argument):
        return True
    value = pointers.find(arguments, rule.when.pointer)
    if value is pointers.NOTHING:
        return False
    fits = _compare(rule.when.op, value, rule.when.value)
    return rule.ask if fits is None else fits


def _compare(op: str, value: Any, wanted: Any) -> bool | None:
    """Whether an argument is as a rule has it; None where the two cannot be compared."""
    match op:
        case "exists":
            return True
        case "equals":
            return same(value, wanted)
        case "in":
            return any(same(value, candidate) for candidate in wanted)
        case "gt" | "lt":
            return (value > wanted if op == "gt" else value < wanted) if _is_number(value) else None
        case "matches":
            return bool(schemas.compiled(wanted).search(value)) if isinstance(value, str) else None
    if isinstance(value, str):
        return wanted in value if isinstance(wanted, str) else None
    if isinstance(value, Mapping):
        return isinstance(wanted, str) and wanted in value
    return (
        any(same(candidate, wanted) for candidate in value)
        if isinstance(value, list | tuple)
        else None
    )


def same(one: Any, other: Any) -> bool:
    """As JSON has it: true is not 1."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _in_words(rule: ApprovalRule, tool: Known) -> str:
    """For a rule that does not say why."""
    act = "A person is asked" if rule.ask else "Nobody is asked"
    if isinstance(rule.when, Risk):
        return f"{act}: {tool.name} is a tool of {tool.risk} risk."
    if isinstance(rule.when, Argument):
        value = "" if rule.when.op == "exists" else f" {refusals.in_json(rule.when.value)}"
        return f"{act}: a rule speaks of {rule.when.pointer} ({rule.when.op}{value})."
    return f"{act} about every call of {'this tool' if rule.tool else 'any tool'}."
