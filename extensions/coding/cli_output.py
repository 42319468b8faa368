"""What a command line agent writes, read line by line: words, tool calls, and what it came to.

Configuration says where they stand.

A rule is a JSON object; the pointers in it are JSON Pointers (RFC 6901) into the JSON object on a
line:

    when            {pointer: value}: the rule is for lines of which all of these hold each, where
    pointer to a list in it: the rule is for each item of which `where` holds, and its pointers are
    into that item text            pointer to words call            {"id", "name", "arguments"}:
    pointers; a name that is no pointer is the name answer          {"id", "result"}: pointers; what
    a tool call came to result          pointer to the final answer, which counts in place of the
    words said failed          {pointer: value}: with all of these, the agent says that it failed;
    `error` is the pointer to its words input_tokens, output_tokens, cost    pointers to numbers,
    which are added up; cost is in US dollars

Whatever a program writes is words: nothing of it is an event, an answer or an approval of ours.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runs.workflows import pointers

Rule = Mapping[str, Any]

PAIRS = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
}
POINTER = {"type": "string", "pattern": "^(/[^/]+)+$", "maxLength": 200}
RULES: dict[str, Any] = {
    "type": "array",
    "maxItems": 50,
    "items": {
        "type": "object",
        "properties": {
            "when": PAIRS,
            "each": POINTER,
            "where": PAIRS,
            "text": POINTER,
            "call": {
                "type": "object",
                "properties": {
                    "id": POINTER,
                    "name": {"type": "string", "maxLength": 200},
                    "arguments": POINTER,
                },
                "required": ["name"],
                "additionalProperties": False,
            },
            "answer": {
                "type": "object",
                "properties": {"id": POINTER, "result": POINTER},
                "additionalProperties": False,
            },
            "deferred": {
                "type": "object",
                "properties": dict.fromkeys(("session", "id", "name", "arguments"), POINTER),
                "required": ["session", "id", "name", "arguments"],
                "additionalProperties": False,
            },
            "result": POINTER,
            "failed": PAIRS,
            "error": POINTER,
            "input_tokens": POINTER,
            "output_tokens": POINTER,
            "cost": POINTER,
        },
        "additionalProperties": False,
    },
}
LARGEST = 2**53
LONGEST_WORDS = 400_000
"""Characters of what an agent said that are held; the beginning goes first."""


@dataclass(frozen=True, kw_only=True)
class AgentCall:
    """A tool call that the agent made by itself."""

    id: str
    name: str
    arguments: Any


@dataclass(frozen=True, kw_only=True)
class CallResult:
    """What a tool call came to."""

    id: str
    result: str


@dataclass(frozen=True, kw_only=True)
class DeferredCall:
    """A tool call that the agent ended for, since somebody else decides it."""

    session: str
    id: str
    name: str
    arguments: Mapping[str, Any]


Piece = str | AgentCall | CallResult
"""Words, or something about a tool."""


@dataclass
class OutputReader:
    """Follows a program's output, and knows in the end what it came to.

    Without rules each line is words.
    """

    rules: Sequence[Rule] = ()
    words: list[str] = field(default_factory=list)
    """Said since the last tool call."""
    result: str | None = None
    failed: bool = False
    error: str = ""
    deferred: DeferredCall | None = None
    usage: dict[str, float] = field(default_factory=dict)
    """`input_tokens`, `output_tokens`, `cost`: those that the program has told."""
    _held: int = 0

    @property
    def answer(self) -> str:
        """The final answer: what the program names so, else what it said last."""
        return (self.result if self.result is not None else "".join(self.words)).strip()

    def read(self, line: str) -> Iterator[Piece]:
        if not self.rules:
            yield self._say(f"{line}\n")
            return
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        # a warning of its runtime, say: shown, but no part of the answer
        if not isinstance(value, dict):
            yield f"{line}\n" if line.strip() else ""
            return
        for rule in self.rules:
            if _holds(value, rule.get("when", {})):
                for item in _items(value, rule):
                    yield from self._apply(rule, item)

    def _apply(self, rule: Rule, item: Any) -> Iterator[Piece]:
        if "text" in rule and (text := _text(pointers.at(item, rule["text"]))):
            yield self._say(text)
        if "call" in rule:
            self.words, self._held = [], 0
            named = rule["call"]
            name = (
                _text(pointers.at(item, named["name"]))
                if named["name"].startswith("/")
                else named["name"]
            )
            yield AgentCall(
                id=_text(pointers.at(item, named.get("id", ""))),
                name=name,
                arguments=pointers.at(item, named.get("arguments", "")),
            )
        if "answer" in rule:
            yield CallResult(
                id=_text(pointers.at(item, rule["answer"].get("id", ""))),
                result=_text(pointers.at(item, rule["answer"].get("result", ""))),
            )
        if "result" in rule and (text := _text(pointers.at(item, rule["result"]))):
            self.result = text
        if "deferred" in rule:
            self.deferred = _deferred(item, rule["deferred"]) or self.deferred
        if "failed" in rule and _holds(item, rule["failed"]):
            self.failed, self.error = True, _text(pointers.at(item, rule.get("error", "")))
        for name in ("input_tokens", "output_tokens", "cost"):
            if name in rule and (number := _number(pointers.at(item, rule[name]))) is not None:
                self.usage[name] = self.usage.get(name, 0) + (
                    number if name == "cost" else int(number)
                )

    def _say(self, text: str) -> str:
        self.words.append(text)
        self._held += len(text)
        while self._held > LONGEST_WORDS and len(self.words) > 1:
            self._held -= len(self.words.pop(0))
        return text


def _deferred(item: Any, named: Mapping[str, str]) -> DeferredCall | None:
    found = {name: pointers.at(item, pointer) for name, pointer in named.items()}
    arguments = found.pop("arguments")
    if not isinstance(arguments, Mapping) or not all(
        isinstance(text, str) and text for text in found.values()
    ):
        return None
    return DeferredCall(**found, arguments=arguments)


def _holds(value: Any, wanted: Mapping[str, Any]) -> bool:
    return all(
        (there := pointers.at(value, pointer)) == expected
        and isinstance(there, bool) == isinstance(expected, bool)
        for pointer, expected in wanted.items()
    )


def _items(found: dict[str, Any], rule: Rule) -> list[Any]:
    if "each" not in rule:
        return [found] if _holds(found, rule.get("where", {})) else []
    items = pointers.at(found, rule["each"])
    return (
        [item for item in items if _holds(item, rule.get("where", {}))]
        if isinstance(items, list)
        else []
    )


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _number(value: Any) -> float | None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not 0 <= value < LARGEST
    ):
        return None
    return value
