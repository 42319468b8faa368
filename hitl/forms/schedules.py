"""Forms of schedules: when one occurs, and what it orders."""

from __future__ import annotations

from typing import Any

from django import forms

from checkpoints.database.people import User
from hitl.forms.pages import PREFIX, WorkOrderForm
from runs.models import Schedule, Template
from runs.models.schedules import CatchUp, Overlap
from runs.schedules import keeping, times


class TimesForm(forms.Form):
    """When a schedule occurs."""

    name = forms.CharField(max_length=120, help_text="What you call it.")
    cron = forms.CharField(
        max_length=times.LONGEST,
        label="Times",
        help_text=(
            "Five fields: minute, hour, day of the month, month, day of the week. "
            "0 9 * * MON-FRI is nine o'clock on weekdays."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    zone = forms.CharField(
        max_length=64,
        initial="UTC",
        label="Time zone",
        help_text="Such as Europe/Berlin. A time that a change of the clock leaves out is the "
        "first moment after it; one that comes twice is the first of the two.",
    )
    overlap = forms.ChoiceField(
        choices=Overlap.choices,
        initial=Overlap.SKIP,
        label="While work of an earlier time has not ended",
    )
    catch_up = forms.ChoiceField(
        choices=CatchUp.choices,
        initial=CatchUp.LATEST,
        label="Times that were missed",
        help_text="While the server was away, for example.",
    )
    catch_up_most = forms.IntegerField(
        min_value=1, max_value=times.MOST, initial=10, label="Of all, at most"
    )

    def times(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in ("name", *keeping.WHEN)}

    @classmethod
    def of(cls, schedule: Schedule) -> TimesForm:
        """With what a schedule has now."""
        return cls(initial={name: getattr(schedule, name) for name in ("name", *keeping.WHEN)})


class ScheduleForm(TimesForm, WorkOrderForm):
    """Both; a file is named by its path, and read at each start."""

    def __init__(self, *args: Any, template: Template, user: User, **kwargs: Any) -> None:
        super().__init__(*args, template=template, user=user, **kwargs)
        for name in self.takes_files:
            del self.fields[PREFIX + name]
            path = self.fields[PREFIX + name + ".path"]
            path.label = f"Path of {name.replace('_', ' ')}"
            path.required = name in self.schema.get("required", [])
        self.fields["title"].label = "Title of each order"

    def clean(self) -> dict[str, Any]:
        # a work order's form asks for a file or its path; here there is the path alone
        return forms.Form.clean(self) or {}

    def order(self) -> dict[str, Any]:
        """What is ordered."""
        values = self.cleaned_data
        return {
            "title": values["title"],
            "request": values["request"],
            "input": self.input_values(),
            "repository_url": values.get("repository_url", ""),
            "team": values.get("team"),
            "priority": values["priority"],
        }
