"""The rules of a template, or of one of its steps, as a form beside its words.

The page says with `<prefix>.rules` that it showed them: what a page did not show stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.utils.translation import gettext_lazy

from hitl.forms import unchanged
from hitl.forms.fields import FormField
from hitl.forms.json_schema import ABSENT, SchemaForm
from hitl.forms.kinds import same
from hitl.rendering.own_words import in_words

UNSAID = gettext_lazy("As usual")


@dataclass(frozen=True)
class Part:
    """Fields that are folded away together, under a title."""

    title: str
    fields: list[FormField]
    errors: list[str]
    open: bool
    """Whether there is something in it to see."""


class RulesForm:
    """A form of `base` by a schema; see `runs.definitions.editing.fields`.

    Args:
        data: what a browser posted, or None.
        prefix: what the names of the fields begin with.
    """

    def __init__(
        self, schema: Mapping[str, Any], base: Mapping[str, Any], data: Any, *, prefix: str
    ) -> None:
        self.schema, self.base, self.prefix = in_words(schema), base, prefix
        self.sent = data is not None and f"{prefix}.rules" in data
        self.form = (
            SchemaForm(self.schema, data, prefix=prefix, unsaid=str(UNSAID))
            if self.sent
            else SchemaForm(self.schema, initial=base, prefix=prefix, unsaid=str(UNSAID))
        )
        if self.sent:
            self._focus(data.get("change", ""))

    def _focus(self, change: str) -> None:
        """Put the focus where a row was added or removed."""
        what, _, where = change.partition(":")
        name = where if what == "add" else where.rpartition(".")[0]
        rows = next((field for field in self.form.root.each() if field.name == name), None)
        if rows is None or rows.kind != "rows" or not what:
            return
        target = rows
        while target.parts:
            target = target.parts[-1 if target is rows else 0]
        target.first = True

    @property
    def grew(self) -> bool:
        """Whether a row was added or removed in it just now."""
        return any(field.first for field in self.form.root.each())

    @property
    def wrong(self) -> bool:
        return any(field.errors for field in self.form.root.each())

    def forget_errors(self) -> None:
        """Judge nothing of what was entered."""
        for field in self.form.root.each():
            field.errors.clear()

    def add_errors(self, errors: Mapping[str, Sequence[str]]) -> list[str]:
        """As `SchemaForm.add_errors`."""
        return self.form.add_errors(errors)

    def mark_first(self) -> None:
        self.form.mark_first()

    def to_save(self) -> dict[str, Any]:
        """`base` with what was changed."""
        if not self.sent:
            return dict(self.base)
        return dict(unchanged.changed(self.schema, self.base, self.form.payload))

    @cached_property
    def _usual(self) -> dict[str, Any]:
        """The payload where nothing is said."""
        return dict(SchemaForm(self.schema, unchanged.sent(SchemaForm(self.schema))).payload)

    def part(self, title: str, names: Sequence[str]) -> Part:
        """Give the fields of these names; those of an object that is optional stand for it."""
        known = {field.path: field for field in self.form.root.parts}
        fields: list[FormField] = []
        errors: list[str] = []
        says = False
        for name in names:
            says |= not same(_said(self.form.payload, name), _said(self._usual, name))
            if known[name].kind == "group" and len(names) < len(known[name].parts):
                fields += known[name].parts
                errors += known[name].errors
            else:
                fields.append(known[name])
        seen = [inner for field in fields for inner in field.each()]
        shown = says or bool(errors) or any(field.errors or field.first for field in seen)
        return Part(title=title, fields=fields, errors=errors, open=shown)


def _said(payload: Mapping[str, Any], name: str) -> Any:
    """What a payload says under a name, None where that is nothing."""
    value = payload.get(name, ABSENT)
    if isinstance(value, Mapping):
        return {key: inner for key, inner in value.items() if inner not in (False, [], {})}
    return None if value is ABSENT or value in (False, [], {}) else value
