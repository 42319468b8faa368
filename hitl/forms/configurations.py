"""A step template as a form: its words, and its configuration as the function's schema has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from hitl.forms.fields import Fault, faults_of
from hitl.forms.json_schema import ABSENT, SchemaForm
from hitl.rendering.own_words import in_words, own
from runs.models import StepTemplate
from runs.workflows import registry, schemas


class JsonText(forms.JSONField):
    """JSON as text; nothing is an empty field."""

    def prepare_value(self, value: Any) -> Any:
        """Give the text that the field shows."""
        return "" if value is None else super().prepare_value(value)


class KindForm(forms.Form):
    """`version` is the one that was looked at, 0 for a new one; `more` holds, as JSON, what the
    function's schema does not name.
    """

    version = forms.IntegerField(widget=forms.HiddenInput)
    title = forms.CharField(max_length=120, label=gettext_lazy("Title"))
    more = JsonText(
        required=False,
        label=gettext_lazy("Further configuration"),
        help_text=gettext_lazy("As JSON: an object of what has no field above."),
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
    )

    def __init__(self, data: Any = None, *, kind: StepTemplate, new: bool) -> None:
        self.kind, self.new = kind, new
        self.schema = _schema(kind.function)
        named = schemas.declared(self.schema)
        self.rest = {name: value for name, value in kind.config.items() if name not in named}
        first = {"version": kind.version, "title": kind.title, "more": self.rest or None}
        super().__init__(data, initial=first)
        if new:
            self.fields["slug"] = forms.SlugField(
                max_length=80,
                label=gettext("Name"),
                help_text=gettext(
                    "How templates name it: letters, digits, hyphens and underscores."
                ),
            )
        if registry.config_schema(kind.function) is not None and not self.rest:
            del self.fields["more"]
        begun = {name: value for name, value in kind.config.items() if name in named}
        self.config = SchemaForm(in_words(self.schema), data, begun if data is None else ABSENT)

    @property
    def changes_only(self) -> bool:
        """Whether a button was pressed that adds a row to a list, or removes one."""
        return self.is_bound and "change" in self.data

    @property
    def words(self) -> list[forms.BoundField]:
        names = ["slug", "title"] if self.new else ["title"]
        return [self[name] for name in names]

    @property
    def problems_told(self) -> list[Fault]:
        """What is wrong, in the order of the fields."""
        return [
            *faults_of(self.words),
            *self.config.problems_told,
            *faults_of([self["more"]] if "more" in self.fields else []),
        ]

    def clean_more(self) -> dict[str, Any]:
        """An object, or nothing."""
        more = self.cleaned_data["more"]
        if more is not None and not isinstance(more, dict):
            raise forms.ValidationError(gettext('An object, such as {"name": "value"}.'))
        return more or {}

    def config_to_save(self) -> dict[str, Any]:
        """The configuration with what was left empty left out."""
        given = self.config.payload if isinstance(self.config.payload, dict) else {}
        kept = {name: value for name, value in given.items() if _says(name, value, self.kind)}
        return {**self.cleaned_data.get("more", self.rest), **kept}

    def add_errors(self, errors: Mapping[str, list[str]]) -> None:
        """Show what was refused beside its field."""
        inner = {
            place.removeprefix("config."): texts
            for place, texts in errors.items()
            if place.startswith("config")
        }
        left = self.config.add_errors(inner)
        self.config.mark_first()
        for text in left:
            self.add_error("more" if "more" in self.fields else None, text)
        if inner and not left:
            self.add_error(None, gettext("See the marked fields of the configuration."))
        for place, texts in errors.items():
            if not place.startswith("config"):
                self.add_error(
                    place if place in self.fields else None, [own(text) for text in texts]
                )


def _says(name: str, value: Any, kind: StepTemplate) -> bool:
    """Whether a value was said: an unticked box and an empty list say nothing that was not said
    before.
    """
    return name in kind.config or value not in (False, [], {})


def _schema(function: str) -> dict[str, Any]:
    found = registry.config_schema(function)
    return found if found is not None else {"type": "object", "properties": {}}
