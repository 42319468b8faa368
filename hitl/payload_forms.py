"""The form of a question that asks for inputs, from its `required_inputs`. What it gives is checked by the one validator, as over REST."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms

from hitl.forms import field_of
from runs.models import Pause
from runs.workflows.sequence import APPROVE

PREFIX = "payload."
ORDER = "x-order"
"""Annotation of an object in a schema: its properties' names in the order in which a form shows them."""
MANY = 8
"""Fields of one object that are shown at once; more are folded away."""


@dataclass(frozen=True)
class Group:
    """Fields that belong together: those of one object of the schema."""

    title: str
    help: str
    fields: list[forms.BoundField]

    @property
    def folded(self) -> bool:
        return len(self.fields) > MANY and not any(field.errors or field.data for field in self.fields)


class PayloadForm(forms.Form):
    """Fields for the schema's properties; those of nested objects are called `outer.inner`."""

    def __init__(self, schema: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.schema = schema
        self.objects: dict[str, Mapping[str, Any]] = {"": schema}
        for path, part, required in _leaves(schema):
            if part.get("type") == "object":
                self.objects[path] = part
            else:
                self.fields[PREFIX + path] = field_of(path.rpartition(".")[2], dict(part), required=required)

    def groups(self) -> list[Group]:
        """The fields as they are shown: those of the whole first, then each object's."""
        found = []
        for path, part in self.objects.items():
            own = [self[name] for name in self.fields if name.removeprefix(PREFIX).rpartition(".")[0] == path]
            if own:
                found.append(Group(part.get("title", "") if path else "", part.get("description", ""), own))
        return found

    def payload(self) -> dict[str, Any]:
        """What was filled in, as the schema has it; what was left empty is left out."""
        made: dict[str, Any] = {}
        for name in self.fields:
            value = self.cleaned_data.get(name)
            if value in (None, "", []):
                continue
            *above, last = name.removeprefix(PREFIX).split(".")
            place = made
            for step in above:
                place = place.setdefault(step, {})
            place[last] = value
        return made

    def add_errors(self, errors: Mapping[str, list[str]]) -> None:
        """Show the validator's errors beside the fields they belong to."""
        for path, texts in errors.items():
            name = PREFIX + path if PREFIX + path in self.fields else None
            for text in texts:
                if name is None or text not in self.errors.get(name, []):
                    self.add_error(name, text)


def form_of(pause: Pause, *args: Any) -> PayloadForm | None:
    """The form of a question; None for one that asks for no inputs."""
    return PayloadForm(pause.required_inputs, *args, auto_id=f"{pause.shown_id}_%s") if pause.required_inputs else None


def sent(pause: Pause, action: str, posted: Any) -> PayloadForm | None:
    """What was filled in; None for an answer that takes no inputs."""
    return form_of(pause, posted) if action == APPROVE else None


def _leaves(schema: Mapping[str, Any], above: str = "", *, needed: bool = True) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Each property, and those of objects inside, with its path and whether it must be filled in."""
    required, properties = set(schema.get("required", [])), schema.get("properties", {})
    ordered = [name for name in schema.get(ORDER, []) if name in properties]  # stored JSON sorts its keys
    for name in dict.fromkeys([*ordered, *properties]):
        part = properties[name]
        yield above + name, part, needed and name in required
        if part.get("type") == "object":
            yield from _leaves(part, f"{above}{name}.", needed=needed and name in required)
