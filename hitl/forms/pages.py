"""Forms: a deadline, threads, and a work order's input from its template's JSON Schema."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

from django import forms
from django.contrib.auth.models import Group
from django.forms.utils import ErrorDict
from django.utils.translation import gettext, gettext_lazy

from checkpoints.database.people import User
from checkpoints.models import WhenBusy, labels
from hitl.decisions.deadlines.changes import LONGEST_SNOOZE, MAX_REASON
from hitl.decisions.services import MAX_FEEDBACK
from hitl.forms.fields import Fault, faults_of
from hitl.forms.json_schema import SchemaForm
from hitl.forms.priorities import PriorityField
from hitl.rendering.own_words import in_words, own
from runs.definitions import readiness, rights
from runs.models import Template
from runs.workflows import attachments, schemas

PREFIX = "input."


class Told(forms.Form):
    @property
    def texts(self) -> list[str]:
        """What is wrong, in sentences."""
        return [str(text) for texts in self.errors.values() for text in texts]


class ExtendForm(Told):
    until = forms.DateTimeField(
        error_messages={
            "required": gettext_lazy("Choose a later time."),
            "invalid": gettext_lazy("Choose one of the times."),
        }
    )
    reason = forms.CharField(
        max_length=MAX_REASON,
        error_messages={"required": gettext_lazy("Say why: it is recorded with your name.")},
    )


class SnoozeForm(Told):
    hours = forms.IntegerField(
        min_value=0,
        max_value=LONGEST_SNOOZE.days * 24,
        error_messages={"required": gettext_lazy("Choose for how long.")},
    )

    def until(self, now: dt.datetime) -> dt.datetime | None:
        """None to show it again."""
        hours: int = self.cleaned_data["hours"]
        return now + dt.timedelta(hours=hours) if hours else None


class ThreadForm(forms.Form):
    title = forms.CharField(max_length=200, label=gettext_lazy("What it is about"))
    team = forms.ModelChoiceField(
        Group.objects.none(),
        required=False,
        empty_label=gettext_lazy("Only me"),
        help_text=gettext_lazy("Its members see the thread and may answer."),
        label=gettext_lazy("Team"),
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer_teams(self, user)


class MessageForm(forms.Form):
    """What is said on a thread; the first message chooses the template of its runs."""

    template = forms.ChoiceField(
        help_text=gettext_lazy("The steps that a message on this thread goes through."),
        label=gettext_lazy("Template"),
    )
    text = forms.CharField(
        max_length=MAX_FEEDBACK,
        label=gettext_lazy("Message"),
        widget=forms.Textarea(attrs={"rows": 3, "data-send-keys": ""}),
    )

    def __init__(
        self, *args: Any, first: bool, user: User, locked: bool = False, **kwargs: Any
    ) -> None:
        """`locked` while no message is taken: as the page shows it, the words that were sent are
        refused by the service.
        """
        super().__init__(*args, **kwargs)
        self.fields["text"].widget.attrs |= {"disabled": True} if locked else {}
        template = self.fields["template"]
        assert isinstance(template, forms.ChoiceField)
        if first:
            fitting = Template.objects.current().filter(needs_repository=False).order_by("title")
            refused = rights.refusals(user)
            lacks = readiness.lacking(fitting, by=user)
            offered = [
                candidate
                for candidate in fitting
                if candidate.slug not in refused | lacks
                and not attachments.names_in(candidate.input_schema)
            ]
            template.choices = [(candidate.slug, own(candidate.title)) for candidate in offered]
        else:
            del self.fields["template"]


class EditForm(forms.Form):
    """An earlier message in other words."""

    message = forms.CharField(max_length=200)
    text = forms.CharField(max_length=MAX_FEEDBACK)


class BusyForm(forms.Form):
    when_busy = forms.ChoiceField(
        choices=labels.in_words(WhenBusy.choices),
        label=gettext_lazy("A message while a run is at work"),
    )


def offer_teams(form: forms.Form, user: User) -> None:
    """Let the field `team` offer the person's own; without one there is nothing to choose."""
    team = form.fields["team"]
    assert isinstance(team, forms.ModelChoiceField)
    team.queryset = user.groups.order_by("name")
    if not team.queryset.exists():
        del form.fields["team"]


class WorkOrderForm(forms.Form):
    """The fields of every work order, and those of the template's input schema under names that
    start with `input.`.
    """

    title = forms.CharField(
        max_length=200,
        required=False,
        help_text=gettext_lazy("Left empty, it is named after the template and the repository."),
        label=gettext_lazy("Title"),
    )
    request = forms.CharField(
        max_length=20_000,
        required=False,
        label=gettext_lazy("Request"),
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("What is asked for, in your words."),
    )
    repository_url = forms.CharField(
        max_length=500,
        label=gettext_lazy("Repository"),
        help_text=gettext_lazy("A local path in an allowed folder, or a URL of an allowed host."),
    )
    team = forms.ModelChoiceField(
        Group.objects.none(),
        required=False,
        empty_label=gettext_lazy("Only me"),
        help_text=gettext_lazy("Its members see the order and may answer."),
        label=gettext_lazy("Team"),
    )
    uploads = True  # else files are named by their path alone

    def __init__(
        self,
        *args: Any,
        template: Template,
        user: User,
        begun: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """`begun` is an input to begin with; fields that are not changed keep its values."""
        super().__init__(*args, **kwargs)
        self.begun = begun or {}
        self.schema: dict[str, Any] = in_words(template.input_schema or {})
        offer_teams(self, user)
        self.fields["priority"] = PriorityField(user)
        if not template.needs_repository:
            del self.fields["repository_url"]
            self.fields["title"].help_text = gettext("Left empty, it is named after the template.")
        self.takes_files = attachments.names_in(self.schema)
        if self.takes_files:
            self.fields["title"].help_text = gettext(
                "Left empty, it is named after the template and the file."
            )
        parts = schemas.declared(self.schema)
        asked = {
            name: part
            for name, part in parts.items()
            if self.uploads or name not in self.takes_files
        }
        needed = set(self.schema.get("required", [])).difference(self.takes_files)
        shape = {
            "type": "object",
            "properties": asked,
            "required": [name for name in asked if name in needed],
            schemas.ORDER: list(asked),
        }
        self.input_shape = schemas.check(attachments.as_kept(shape, attachments.ANY))
        typed: Any = self.data if self.is_bound else None
        self.input = SchemaForm(self.input_shape, typed, self.begun)
        for name in self.takes_files:
            self._take_path(name, parts[name])

    def _take_path(self, name: str, part: Mapping[str, Any]) -> None:
        """A file by its path on the server, where it may be named so."""
        if self.uploads and "path" not in part.get("properties", {}):
            return
        self.fields[PREFIX + name + ".path"] = forms.CharField(
            label=gettext("Or its path"),
            max_length=1000,
            required=False,
            help_text=gettext(
                "Instead of sending it: where it lies, as an absolute path in an allowed folder "
                "of the server."
            ),
        )

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        self.check_input()
        for name in self.takes_files:
            sent, path = name in self.input.payload, values.get(PREFIX + name + ".path")
            needed = name in self.schema.get("required", [])
            if sent and path:
                words = gettext("Send the file or name its path, not both.")
            elif needed and not sent and not path:
                words = gettext("Choose a file.")
            else:
                continue
            if not any(field.path == name and field.errors for field in self.input.fields):
                self.input.add_errors({name: [words]})
        return values

    def check_input(self) -> None:
        """Show all that is wrong at once; the service says it again, and the rest."""
        found = schemas.validate_resume_payload(self.input_shape, self.input.payload)
        self.input.add_errors(found)

    @property
    def shown(self) -> Iterator[tuple[bool, Any]]:
        """The fields in their order, each with whether it is one of `input`."""
        first = [name for name in self.fields if not name.startswith(PREFIX)]
        yield from ((False, self[name]) for name in first)
        asked = {field.path: field for field in self.input.fields}
        for name in schemas.declared(self.schema):
            if name in asked:
                yield True, asked[name]
            if (path := PREFIX + name + ".path") in self.fields:
                yield False, self[path]

    def is_multipart(self) -> bool:
        return self.uploads and self.input.is_multipart

    def show_as_typed(self) -> None:
        """Refuse nothing yet: somebody only wants another row."""
        self._errors = ErrorDict()

    @property
    def refused(self) -> bool:
        """Whether something is wrong, wherever it is shown."""
        return bool(self.errors or self.input.problems_told)

    @property
    def problems_told(self) -> list[Fault]:
        """What is wrong, in the order of the fields."""
        told: list[Fault] = []
        for of_input, field in self.shown:
            if of_input:
                ids = {entry.id for entry in field.each()}
                told += [fault for fault in self.input.problems_told if fault.id in ids]
            else:
                told += faults_of([field])
        return told

    def input_values(self) -> dict[str, Any]:
        """The input as the schema's types; what was left empty is left out."""
        properties = self.schema.get("properties", {})
        values: dict[str, Any] = dict(self.input.payload)
        if self.schema.get("additionalProperties") is not False:
            values |= {name: self.begun[name] for name in self.begun if name not in properties}
        for name in self.takes_files:
            path = PREFIX + name + ".path"
            if name in self.begun and path in self.fields and path not in self.changed_data:
                values[name] = self.begun[name]
            elif given := self.cleaned_data.get(path):
                values[name] = {"path": given}
        return values

    def add_errors(self, errors: dict[str, list[str]]) -> None:
        """Show a service's errors beside the fields they belong to."""
        for field, texts in errors.items():
            names = (field, PREFIX + field)  # a file is named by its path
            name = next((known for known in names if known in self.fields), None)
            left = texts if name is not None else self.input.add_errors({field: texts})
            for text in left:
                self.add_error(name, own(text))
