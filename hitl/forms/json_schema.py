"""A form made of a JSON Schema: fields as plain HTML has them, and the payload that a browser's
answer stands for.

It works without JavaScript: a list grows and shrinks by buttons that send the form (`change`),
which decides nothing. Reading is lenient (what is no number stays text), since
`runs.workflows.schemas.validate_resume_payload` judges the payload, whichever door it came through.

What is left empty is absent. What nobody touched is what it was, though its field may show less of
it (a time without its zone, a text without its white space). A shape that no field can hold (a list
of lists, alternatives of several kinds) is a field for JSON text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext

from hitl.forms.fields import ROWS, Fault, FormField
from hitl.forms.kinds import (
    KeptFile,
    Option,
    escaped,
    flatten,
    kind_of,
    options_of,
    same,
    words,
)
from hitl.forms.texts import (
    NotAsTyped,
    as_duration,
    as_sent,
    duration_of,
    needed,
    read,
    shown,
)
from hitl.rendering.own_words import own
from runs.workflows import attachments, refusals, schemas

PREFIX = "input"
OTHER = "~other"
"""The posted value of the option that lets a person write their own.

No schema's own option is posted so: `~` is written `~0`.
"""
BLANK = "~n"
"""Stands for the number of a row in the names of a row's fields before it has one."""


class _NoValue:
    def __bool__(self) -> bool:
        return False


ABSENT: Final = _NoValue()


class SchemaForm:
    """The form of one schema, as `runs.workflows.schemas.check` gave it.

    Args:
        data: what a browser posted; without it the fields show `initial`.
        initial: a payload to begin with, e.g. what is known already; of a form that was posted,
            what it began with.
        prefix: what the names of the fields begin with.
        unsaid: as of `FormField`.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        data: MultiValueDict[str, str] | None = None,
        initial: Any = ABSENT,
        *,
        prefix: str = PREFIX,
        unsaid: str = "",
    ) -> None:
        self.data, self.unsaid = data, unsaid
        self.problems: dict[str, list[str]] = {}
        self.root, payload = self._made(schema, prefix, "", initial, label="", required=True)
        self.payload: Any = (
            payload if payload is not ABSENT else {} if self.root.kind == "group" else None
        )
        """What the posted fields stand for."""
        twins = Counter[str]()
        for entry in self.root.each():
            name = entry.id
            entry.twin = twins[name]
            twins[name] += 1
        self.add_errors(self.problems)

    @property
    def fields(self) -> list[FormField]:
        return self.root.parts if self.root.kind == "group" else [self.root]

    def add_errors(self, errors: Mapping[str, Sequence[str]]) -> list[str]:
        """Show errors (dotted path → sentences) at the fields they belong to, in the reader's
        language; what belongs to none is given back.
        """
        known = {entry.path: entry for entry in self.root.each()}
        left: list[str] = []
        for path, texts in errors.items():
            at = path
            while at and at not in known:
                at = at.rpartition(".")[0]
            if at and (target := known.get(at)):
                said = [self._said(text, target) if at == path else own(text) for text in texts]
                target.errors += [text for text in said if text not in target.errors]
            else:
                left += [own(text) for text in texts]
        return left

    @staticmethod
    def _said(text: str, at: FormField) -> str:
        return needed(at.kind, at.label or at.title) if text == refusals.NEEDED else own(text)

    @property
    def is_multipart(self) -> bool:
        """Whether a file may come with it."""
        return attachments.asked_in(self.root.schema)

    @property
    def problems_told(self) -> list[Fault]:
        """What is wrong, in the order of the fields."""
        return [
            Fault(entry.id, entry.title, text)
            for entry in self.root.each()
            for text in entry.errors
        ]

    def mark_first(self) -> bool:
        """Let the first field that is wrong say so; tells whether one is.

        Of a group or a list it is the first field inside.
        """
        wrong = next((entry for entry in self.root.each() if entry.errors), None)
        return wrong is not None and _look_at(wrong)

    def _made(
        self,
        schema: Any,
        name: str,
        path: str,
        initial: Any,
        *,
        label: str,
        required: bool,
        within: str = "",
        group: str = "",
    ) -> tuple[FormField, Any]:
        """A field and what it stands for, ABSENT where it was left empty."""
        flat = flatten(schema)
        kind = kind_of(flat)
        made = FormField(
            kind=kind,
            name=name,
            path=path,
            label=str(flat.get("title") or label),
            help=str(flat.get("description") or ""),
            required=required,
            schema=flat,
            unsaid=self.unsaid,
            within=within,
            group=group,
        )
        if initial is ABSENT and "default" in flat:
            initial = flat["default"]
        if kind == "group":
            return made, self._group(made, initial)
        if kind == "rows":
            return made, self._rows(made, initial)
        if kind == "fixed":
            made.value = words(flat["const"])
            return made, flat["const"] if required else ABSENT
        if kind in {"one", "several"}:
            return made, self._choice(made, initial)
        if kind == "file":
            return made, self._file(made, initial)
        return made, self._typed(made, initial)

    def _group(self, made: FormField, initial: Any) -> Any:
        known = initial if isinstance(initial, Mapping) else {}
        needed = made.schema.get("required", [])
        payload = {}
        is_row = made.within and made.path.rpartition(".")[2].isdecimal()
        above = [made.group] if is_row or not made.path else [made.group, made.label]
        for key, part in schemas.declared(made.schema).items():
            place = {
                "name": f"{made.name}.{escaped(key)}",
                "path": f"{made.path}.{key}" if made.path else key,
            }
            entry, value = self._made(
                part,
                **place,
                initial=known.get(key, ABSENT),
                label=own(refusals.label_of(key, {})),
                required=key in needed,
                within=made.within,
                group=", ".join(filter(None, above)),
            )
            made.parts.append(entry)
            if value is not ABSENT:
                payload[key] = value
        if not payload and made.nullable and made.path and initial in (None, ABSENT):
            return None if made.required else ABSENT
        return payload if payload or made.required else ABSENT

    def _rows(self, made: FormField, initial: Any) -> Any:
        known = list(initial) if isinstance(initial, list | tuple) else []
        payload = []
        places, added = self._places(made, len(known))
        for at in places:
            begun = known[at] if at < len(known) else ABSENT
            row, value = self._row(made, at, begun)
            if (
                self.data is not None
                and (value is ABSENT or value == {})
                and "change" not in self.data
            ):
                continue  # a row that was left empty
            if at != len(made.parts):  # one before it is gone
                _rename(row, f"{made.name}.{len(made.parts)}")
            made.parts.append(row)
            payload.append({} if value is ABSENT else value)
        # what is still to be filled in
        while len(made.parts) < made.least:
            made.parts.append(self._blank(made, str(len(made.parts))))
        made.blank = self._blank(made, BLANK)
        if added and made.parts:
            _look_at(made.parts[-1])
        return payload if payload or made.required else ABSENT

    def _row(self, made: FormField, at: int | str, begun: Any) -> tuple[FormField, Any]:
        number = len(made.parts)
        return self._made(
            made.schema["items"],
            f"{made.name}.{at}",
            f"{made.path}.{number}" if made.path else str(number),
            begun,
            label="",
            required=True,
            within=f"{made.title} {number + 1}",
        )

    def _blank(self, made: FormField, at: str) -> FormField:
        """A row as it is before anything is typed."""
        data, self.data = self.data, None
        try:
            return self._row(made, at, ABSENT)[0]
        finally:
            self.data = data

    def _places(self, made: FormField, known: int) -> tuple[list[int], bool]:
        """The numbers of the rows to read or show, and whether the last is a new one."""
        if self.data is None:
            return list(range(max(known, made.least))), False
        count = self.data.get(f"{made.name}.count", "0")
        places = list(range(min(int(count) if count.isdecimal() and len(count) < 6 else 0, ROWS)))
        change, _, where = self.data.get("change", "").partition(":")
        added = change == "add" and where == made.name and len(places) < made.most
        if added:
            places.append(len(places))
        gone = where if change == "remove" else ""
        return [at for at in places if gone != f"{made.name}.{at}"], added

    def _choice(self, made: FormField, initial: Any) -> Any:
        several = made.kind == "several"
        made.options, made.other = options_of(made.schema["items"] if several else made.schema)
        if self.data is not None:
            chosen = self.data.getlist(made.name)
            made.other_chosen = OTHER in chosen
            made.value = self.data.get(f"{made.name}.other", "")  # shown again as it was typed
            own = made.value.strip()
        else:
            chosen, strange = _begun_with(made.options, initial, several=several)
            made.other_chosen = made.other and bool(strange)
            made.value = own = words(strange[0]) if made.other_chosen else ""
        for option in made.options:
            option.chosen = option.value in chosen
        picked = [option.means for option in made.options if option.chosen] + (
            [own] if made.other_chosen and own and made.other else []
        )
        if several:
            return picked if picked or (made.required and self.data is not None) else ABSENT
        needed = made.required and made.nullable and self.data is not None
        return picked[-1] if picked else None if needed or initial is None else ABSENT

    def _file(self, made: FormField, initial: Any) -> Any:
        known = None
        if isinstance(initial, Mapping) and "sha256" in initial:
            name = str(initial.get("name", ""))
            known = KeptFile(str(initial["sha256"]), int(initial.get("bytes", 0)), "", name)
        if self.data is None:
            made.kept = known
        else:
            made.kept = KeptFile.parse(self.data.get(f"{made.name}.kept", ""))
            if refused := self.data.get(f"{made.name}.refused"):
                self.problems[made.path] = [refused]
            if f"{made.name}.drop" in self.data:
                made.kept = None
        made.value = made.kept.name if made.kept else ""
        if made.kept is not None:
            return {"upload": made.kept.key} if made.kept.is_upload else initial
        return None if made.required and made.nullable and self.data is not None else ABSENT

    def _typed(self, made: FormField, initial: Any) -> Any:
        if self.data is None:
            begun = None if initial is ABSENT else initial
            made.value = shown(made.kind, begun, zone=made.zone)
            if made.units:
                made.value, made.unit = duration_of(made.value)
            return initial
        if made.kind == "check":
            made.value = "true" if made.name in self.data else ""
            return made.name in self.data or (ABSENT if "const" in made.schema else False)
        made.value = self.data.get(made.name, "").replace("\r\n", "\n")
        text = made.value if made.kind == "long" else made.value.strip()
        if not text.strip():
            if not made.required:
                return ABSENT
            return None if made.nullable else [] if made.kind == "lines" else ABSENT
        if initial is not ABSENT and self._is_untouched(made, initial):
            return initial
        if made.units:
            made.unit = self.data.get(f"{made.name}.unit", "")
            return as_duration(text, made.unit)
        try:
            return read(made.kind, text, zone=made.zone)
        except NotAsTyped as error:
            self.problems[made.path] = [str(error)]
        except (ValueError, OverflowError, RecursionError):
            if made.kind == "json":
                self.problems[made.path] = [gettext("This is not JSON.")]
        return text

    def _is_untouched(self, made: FormField, initial: Any) -> bool:
        """Whether a browser sends this of a field that shows what it began with, and that fits."""
        if made.units:
            return False
        sent = as_sent(made.kind, shown(made.kind, initial, zone=made.zone))
        return made.value == sent and schemas.fits(made.schema, initial)


def _begun_with(
    options: Sequence[Option], initial: Any, *, several: bool
) -> tuple[list[str], list[Any]]:
    """The options that stand for a value, or for the values of a list, and what none stands for."""
    if initial is ABSENT or initial is None:
        return [], []
    values = [*initial] if several and isinstance(initial, list | tuple) else [initial]
    known = [one for one in options if any(same(one.means, value) for value in values)]
    strange = [value for value in values if not any(same(one.means, value) for one in options)]
    return [one.value for one in known], strange


def _look_at(entry: FormField) -> bool:
    """Give the focus to the first field inside that takes it; tells whether one does."""
    at = next((part for part in entry.each() if part.kind not in {"group", "rows", "fixed"}), None)
    if at is not None:
        at.first = True
    return at is not None


def _rename(row: FormField, name: str) -> None:
    old = len(row.name)
    for inner in row.each():
        inner.name = f"{name}{inner.name[old:]}"
