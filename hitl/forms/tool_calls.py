"""The form of a question about tool calls: for each a choice, a reason, and fields for what may be
edited, and for its result where a person may give that. Works without JavaScript.

Like `json_schema`, it reads and judges nothing: what it makes of a browser's answer goes through
the one validator.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext

from hitl.forms.fields import Fault
from hitl.forms.json_schema import SchemaForm
from hitl.forms.texts import parsed
from hitl.rendering.own_words import in_words, own
from runs.models import Pause
from runs.workflows.base import pointers
from runs.workflows.tool_calls import APPROVE, EDIT, MADE, REASON, REJECT, RESPOND, RESULT

PREFIX = "call"
FIELDS = ("decision", "arguments", "result", "reason")
"""Of a call, in the order in which they stand."""
MOST_FIELDS = 100
"""Arguments that are shown one by one."""


VITAL = re.compile(
    r"(?:^|[._ -])(?:amount|total|price|sum|currency|iban|bic|account|payee|recipients?|to|cc|bcc"
    r"|e?mail|address|url|host)(?: \d+)?$",
    re.IGNORECASE,
)
"""Names of arguments that say how much, to whom or where to."""


@dataclass
class EditablePart:
    """One place in the arguments that may be edited."""

    name: str
    pointer: str
    text: str
    """As JSON where the value is no text."""
    plain: bool
    before: str

    @property
    def id(self) -> str:
        return "id_" + self.name.replace(".", "_")

    @property
    def label(self) -> str:
        return self.pointer.removeprefix("/") or gettext("Arguments, as JSON")

    @property
    def changed(self) -> bool:
        return self.text.strip() != self.before.strip()


@dataclass
class CallRow:
    """One call as the card shows it."""

    call: Mapping[str, Any]
    name: str
    decision: str = ""
    reason: str = ""
    result: str = ""
    """What a person gives in the tool's place."""
    parts: list[EditablePart] = field(default_factory=list)
    errors: dict[str, list[str]] = field(default_factory=dict)
    """`decision`, `arguments`, `result` or `reason` → sentences."""
    first: str = ""
    """Which of these has the focus: of all calls, the first that is wrong."""

    @property
    def id(self) -> str:
        return "id_" + self.name.replace(".", "_")

    def id_of(self, field: str) -> str:
        """Of the control that one of FIELDS is about."""
        if field == "decision":
            return self.id
        return self.parts[0].id if field == "arguments" and self.parts else f"{self.id}_{field}"

    @property
    def arguments(self) -> str:
        return json.dumps(self.call["arguments"], indent=2, ensure_ascii=False)

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The arguments one by one: the way to each, and its value; a text stands without quotes.

        None where they are too many to be read so.
        """
        fields = list(islice(_flat("", self.call["arguments"]), MOST_FIELDS + 1))
        return fields if len(fields) <= MOST_FIELDS else []

    @property
    def shown(self) -> list[tuple[str, str, bool]]:
        """The arguments as the card has them, each with whether it says whom or how much: those
        come first, and stand there of however many arguments.
        """
        fields = list(_flat("", self.call["arguments"]))
        vital = [(name, value, True) for name, value in fields if VITAL.search(name)]
        if len(fields) > MOST_FIELDS:
            return vital[:MOST_FIELDS]
        return [*vital, *((name, value, False) for name, value in fields if not VITAL.search(name))]

    @property
    def changed(self) -> int:
        """How many of them were changed, where the call is made."""
        not_made = self.decision and self.decision not in MADE
        return 0 if not_made else sum(part.changed for part in self.parts)

    @property
    def sent(self) -> list[tuple[str, str, str | None]]:
        """The arguments as they go out: name, value, and what stood there before a change. What was
        changed comes first, then whom and how much it is about.
        """
        asked = dict(_flat("", self.call["arguments"]))
        changed = [part for part in self.parts if part.changed and self.decision == EDIT]
        after = _edited(self.call["arguments"], changed)
        given = dict(_flat("", after)) if isinstance(after, Mapping) else {"": str(after)}
        names = sorted(
            dict.fromkeys([*asked, *given]),
            key=lambda name: (given.get(name) == asked.get(name), VITAL.search(name) is None),
        )
        return [
            (
                name,
                given.get(name, ""),
                None if given.get(name) == asked.get(name) else asked.get(name, ""),
            )
            for name in names
        ]

    @property
    def choices(self) -> list[tuple[str, str]]:
        edits = [(EDIT, gettext("Approve with changes"))] if self.parts else []
        answers = [(RESPOND, gettext("Answer in its place"))] if self.answerable else []
        return [(APPROVE, gettext("Approve")), *edits, *answers, (REJECT, gettext("Reject"))]

    @property
    def answerable(self) -> bool:
        return bool(self.call.get("answerable"))

    longest, longest_result = REASON, RESULT


class CallsForm:
    """The form of one question; `payload` is what a browser's answer stands for, `None` before
    there is one.
    """

    def __init__(
        self, calls: Sequence[Mapping[str, Any]], data: MultiValueDict[str, str] | None = None
    ) -> None:
        self.data = data
        self.rows = [self._row(call, f"{PREFIX}.{number}") for number, call in enumerate(calls)]
        self.payload: Any = (
            None if data is None else {"calls": {row.call["id"]: _answer(row) for row in self.rows}}
        )

    def _row(self, call: Mapping[str, Any], name: str) -> CallRow:
        row = CallRow(call=call, name=name)
        for number, pointer in enumerate(call["editable"]):
            if _may_hold(call["arguments"], pointer):
                row.parts.append(self._part(call["arguments"], pointer, f"{name}.edit.{number}"))
        if self.data is not None:
            row.decision = self.data.get(f"{name}.decision", "")
            row.reason = self.data.get(f"{name}.reason", "")
            row.result = self.data.get(f"{name}.result", "")
        return row

    def _part(self, arguments: Mapping[str, Any], pointer: str, name: str) -> EditablePart:
        value = pointers.find(arguments, pointer)
        plain = isinstance(value, str)
        before = (
            value
            if isinstance(value, str)
            else ""
            if value is pointers.NOTHING
            else json.dumps(value, indent=2, ensure_ascii=False)
        )
        text = before if self.data is None else self.data.get(name, before).replace("\r\n", "\n")
        return EditablePart(name=name, pointer=pointer, text=text, plain=plain, before=before)

    @property
    def changed(self) -> int:
        """How many arguments were changed."""
        return sum(row.changed for row in self.rows)

    @property
    def problems_told(self) -> list[Fault]:
        """What is wrong, in the order of the calls."""
        return [
            Fault(row.id_of(name), f"{row.call['tool']}, {number}", text)
            for number, row in enumerate(self.rows, start=1)
            for name in FIELDS
            for text in row.errors.get(name, [])
        ]

    def mark_first(self) -> bool:
        """Let the first field that is wrong say so; tells whether one is."""
        wrong = next((row for row in self.rows if row.errors), None)
        if wrong is not None:
            wrong.first = next(name for name in FIELDS if name in wrong.errors)
        return wrong is not None

    def add_errors(self, errors: Mapping[str, Sequence[str]]) -> list[str]:
        """Show errors (dotted path → sentences) at the calls they belong to; what belongs to none
        is given back.
        """
        left: list[str] = []
        for path, texts in errors.items():
            row = next(
                (row for row in self.rows if f"{path}.".startswith(f"calls.{row.call['id']}.")),
                None,
            )
            if row is None:
                left += map(own, texts)
                continue
            at = path.removeprefix(f"calls.{row.call['id']}").removeprefix(".").partition(".")[0]
            field = at if at in FIELDS else "decision"
            row.errors.setdefault(field, []).extend(map(own, texts))
        return left


def form_of(
    pause: Pause,
    data: MultiValueDict[str, str] | None = None,
    *,
    known: Mapping[str, Any] | None = None,
) -> SchemaForm | CallsForm | None:
    """The form of what comes with an answer; None where words are enough.

    It begins with what is `known`, else with what the step knew.
    """
    if pause.calls:
        return CallsForm(pause.calls, data)
    if not pause.required_inputs:
        return None
    schema = in_words(pause.required_inputs)
    return SchemaForm(schema, data, pause.known if known is None else known)


def _answer(row: CallRow) -> dict[str, Any]:
    """What was posted about one call; what was typed is not dropped silently where the choice
    leaves no room for it.
    """
    answer: dict[str, Any] = {"decision": row.decision} if row.decision else {}
    if row.reason.strip():
        answer["reason"] = row.reason.replace("\r\n", "\n").strip()
    if row.answerable and row.result.strip():
        answer["result"] = row.result.replace("\r\n", "\n").strip()
    changed = [part for part in row.parts if part.changed]
    if row.decision == EDIT or (row.decision == APPROVE and changed):
        answer["arguments"] = _edited(row.call["arguments"], changed)
    return answer


def _edited(arguments: Mapping[str, Any], changed: Sequence[EditablePart]) -> Any:
    edited: Any = copy.deepcopy(dict(arguments))
    for part in changed:
        edited = _put(edited, part.pointer, part.text if part.plain else _read(part.text))
    return edited


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), inner)
    elif isinstance(value, list | tuple) and value:
        for number, inner in enumerate(value, start=1):
            yield from _flat(f"{name} {number}", inner)
    elif name:
        yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read(text: str) -> Any:
    """A value that was typed; what is no JSON stays text, for the validator to judge."""
    if not text.strip():
        return pointers.NOTHING
    try:
        return parsed(text)
    except (ValueError, RecursionError):
        return text


def _may_hold(whole: Any, pointer: str) -> bool:
    """Whether something can stand at a JSON pointer: in an object under any name, in a list where
    an entry is.
    """
    above = pointers.find(whole, pointer.rpartition("/")[0])
    return isinstance(above, Mapping) or pointers.find(whole, pointer) is not pointers.NOTHING


def _put(whole: Any, pointer: str, value: Any) -> Any:
    """`whole` with another value at a JSON pointer where something can stand.

    What is emptied is gone from an object; in a list, whose other entries keep their places, it is
    null, for the validator to judge.
    """
    if not pointer:
        return {} if value is pointers.NOTHING else value
    if not _may_hold(whole, pointer):  # what is above was changed, too
        return whole
    above, last = pointers.find(whole, pointer.rpartition("/")[0]), pointers.names(pointer)[-1]
    if isinstance(above, list):
        above[int(last)] = None if value is pointers.NOTHING else value
    elif value is pointers.NOTHING:
        above.pop(last, None)
    else:
        above[last] = value
    return whole
