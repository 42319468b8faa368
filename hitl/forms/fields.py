"""One field of a form as a template shows it: what it is called, how it is typed, what it holds."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.forms import BoundField
from django.template.defaultfilters import filesizeformat
from django.utils import timezone
from django.utils.translation import gettext

from hitl.forms.kinds import KeptFile, Kind, Option, takes_null
from hitl.forms.texts import UNITS
from runs.definitions.editing.fields import DURATION, GROUP, PERSON
from runs.workflows import attachments, schemas, timing

MANY = 8
"""Parts of one group that are shown at once; more are folded away."""
USUAL_UNIT = "TH"
RADIOS = 6
"""Up to so many options are shown at once; more make a list to choose from."""
ROWS = 200
COLUMNS = 8
CELLS = {
    "text",
    "long",
    "whole",
    "number",
    "check",
    "one",
    "date",
    "time",
    "moment",
    "fixed",
    "file",
}
"""Kinds of fields that a cell of a table holds."""
HELD = {
    "number": re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"),
    "date": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "time": re.compile(r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,3})?)?"),
    "datetime-local": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2})?"),
}
"""Type of an HTML input → what it can show. A browser empties it of anything else."""


class Fault(NamedTuple):
    """What is wrong with a form, as a line of the list above it."""

    id: str
    """Of the field that it is said at, too."""
    title: str
    words: str

    @property
    def names_itself(self) -> bool:
        return any(f"{before}{self.title}{after}" in self.words for before, after in ("“”", "„“"))


def faults_of(fields: Iterable[BoundField]) -> list[Fault]:
    """What is wrong with plain fields."""
    return [
        Fault(field.id_for_label or str(field.auto_id), str(field.label), str(text))
        for field in fields
        for text in field.errors
    ]


@dataclass
class FormField:
    """One field as a template shows it. `value` is what was typed, or a list of what was chosen."""

    kind: Kind
    name: str
    path: str
    label: str
    help: str
    required: bool
    schema: Mapping[str, Any]
    value: str = ""
    options: list[Option] = field(default_factory=list)
    other: bool = False
    other_chosen: bool = False
    parts: list[FormField] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    unit: str = ""
    """Of a duration; "" where the value says it itself."""
    first: bool = False
    """Whether it is the first one that is wrong, where the focus goes."""
    unsaid: str = ""
    """What stands for no answer in a list to choose from; "" where a question is answered, whose
    few options are shown at once.
    """
    kept: KeptFile | None = None
    """Of a file: the one that the form has already."""
    blank: FormField | None = None
    """Of a list: a row with nothing in it."""
    within: str = ""
    """What the row that it stands in is called; "" outside of lists."""
    group: str = ""
    """What the groups that it stands in are called, from the outermost; "" in none."""
    twin: int = 0
    """How many fields before it have the same id but for this number."""

    @property
    def id(self) -> str:
        return "id_" + re.sub(r"[^\w-]", "_", self.name) + (f".{self.twin}" if self.twin else "")

    @property
    def units(self) -> list[Option]:
        """To choose from, beside the number of a duration."""
        if self.schema.get("format") != DURATION:
            return []
        chosen = self.unit if self.value else self.unit or USUAL_UNIT
        units = {**UNITS, **({} if chosen else {"": gettext("as written")})}
        return [
            Option(unit, str(words), unit, chosen=unit == chosen) for unit, words in units.items()
        ]

    @property
    def zone(self) -> dt.tzinfo | None:
        """Of a moment: the zone in which it is typed and shown, which the page says beside it."""
        if self.kind != "moment":
            return None
        named = self.schema.get(schemas.ZONE)
        return timing.zone_of(named) if named else timezone.get_current_timezone()

    @property
    def picks(self) -> str:
        """Whose names the page offers while somebody types."""
        return {PERSON: "people", GROUP: "groups"}.get(self.schema.get("format", ""), "")

    @property
    def control(self) -> str:
        """The type of the HTML input; a plain one where its own could not show the value."""
        control = {
            "whole": "number",
            "number": "number",
            "date": "date",
            "time": "time",
            "moment": "datetime-local",
        }.get(self.kind, "email" if self.schema.get("format") == "email" else "text")
        held = HELD.get(control)
        return "text" if held and self.value and not held.fullmatch(self.value) else control

    @property
    def step(self) -> str:
        steps = {"whole": "1", "number": "any", "time": "1", "moment": "1"}
        return "" if self.control == "text" else steps.get(self.kind, "")

    @property
    def takes(self) -> str:
        """What a file may be, for people who choose one."""
        return filesizeformat(attachments.MAX_BYTES)

    @property
    def nullable(self) -> bool:
        """Whether no answer is an answer, too."""
        return takes_null(self.schema)

    @property
    def radios(self) -> bool:
        return len(self.options) <= RADIOS and not self.unsaid and not self.within

    @property
    def columns(self) -> list[FormField]:
        """Of a list: the columns of the table that shows it; none where its rows are no objects of
        a few plain fields.
        """
        parts = self.blank.parts if self.blank is not None else []
        plain = len(parts) <= COLUMNS and all(part.kind in CELLS for part in parts)
        return parts if plain else []

    @property
    def title(self) -> str:
        """What it is called where it stands by itself, such as in a list of what is wrong."""
        named = ", ".join(filter(None, [self.within, self.group, self.label]))
        return named or self.path

    @property
    def least(self) -> int:
        return min(ROWS, int(self.schema.get("minItems", 0)))

    @property
    def most(self) -> int:
        return min(ROWS, int(self.schema.get("maxItems", ROWS)))

    @property
    def may_grow(self) -> bool:
        return len(self.parts) < self.most

    @property
    def may_shrink(self) -> bool:
        return len(self.parts) > self.least

    @property
    def folded(self) -> bool:
        """Whether the parts of this group wait folded away: many, and nothing to see in them."""
        return len(self.parts) > MANY and not any(
            entry.errors or entry.value for part in self.parts for entry in part.each()
        )

    @property
    def described_by(self) -> str:
        """Ids of what explains the field, for assistive technology."""
        return " ".join(
            [f"{self.id}.help"] * bool(self.help)
            + [f"{self.id}.zone"] * (self.zone is not None)
            + [f"{self.id}.error"] * bool(self.errors)
        )

    def each(self) -> Iterator[FormField]:
        yield self
        for part in self.parts:
            yield from part.each()
