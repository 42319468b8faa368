"""Forms of schedules: when one occurs, and what it orders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import forms
from django.forms.utils import ErrorDict
from django.utils.translation import gettext, gettext_lazy

from checkpoints.database.people import User
from checkpoints.models import labels
from hitl.forms.fields import Fault, faults_of
from hitl.forms.pages import PREFIX, WorkOrderForm
from runs.models import Schedule, Template
from runs.models.schedules import CatchUp, Overlap
from runs.schedules import keeping, times
from runs.schedules.preview import Preview


class TimesForm(forms.Form):
    """When a schedule occurs."""

    name = forms.CharField(
        max_length=120, help_text=gettext_lazy("What you call it."), label=gettext_lazy("Name")
    )
    cron = forms.CharField(
        max_length=times.LONGEST,
        label=gettext_lazy("Times"),
        help_text=gettext_lazy(
            "Five fields: minute, hour, day of the month, month, day of the week. "
            "0 9 * * MON-FRI is nine o'clock on weekdays."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    zone = forms.CharField(
        max_length=64,
        initial="UTC",
        label=gettext_lazy("Time zone"),
        help_text=gettext_lazy(
            "Such as Europe/Berlin. A time that a change of the clock leaves out is the "
            "first moment after it; one that comes twice is the first of the two."
        ),
    )
    until = forms.CharField(
        max_length=5,
        required=False,
        label=gettext_lazy("Not after"),
        help_text=gettext_lazy(
            "A time such as 12:00: what could not start until then is left out."
        ),
    )
    overlap = forms.ChoiceField(
        choices=labels.in_words(Overlap.choices),
        initial=Overlap.SKIP,
        label=gettext_lazy("While work of an earlier time has not ended"),
    )
    catch_up = forms.ChoiceField(
        choices=labels.in_words(CatchUp.choices),
        initial=CatchUp.LATEST,
        label=gettext_lazy("Times that were missed"),
        help_text=gettext_lazy("While the server was away, for example."),
    )
    catch_up_most = forms.IntegerField(
        min_value=1, max_value=times.MOST, initial=10, label=gettext_lazy("Of all, at most")
    )

    def times(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in ("name", *keeping.WHEN)}

    def order(self) -> dict[str, Any]:
        """What is ordered, as far as this form has fields for it."""
        return {}

    def changes(self, schedule: Schedule) -> dict[str, Any]:
        """What the form says otherwise than the schedule.

        What is ordered is looked at anew only where it was changed: the times of a schedule can be
        mended while its template is switched off.
        """
        values = {**self.times(), **self.order()}
        return {name: value for name, value in values.items() if value != getattr(schedule, name)}

    def preview(self) -> Preview | None:
        """What the times as they are typed would be; None with the reason on the form, or where
        only a row was asked for. Refuses nothing else yet: somebody only looks.
        """
        self.full_clean()
        self._errors = ErrorDict()
        if "show" not in self.data:
            return None
        try:
            return keeping.preview(self.data.get("cron", ""), self.data.get("zone", "").strip())
        except keeping.ScheduleInvalid as error:
            self.add_error(error.field, str(error))
            return None

    @property
    def shown(self) -> Iterator[tuple[bool, Any]]:
        return ((False, field) for field in self)

    @property
    def refused(self) -> bool:
        return bool(self.errors)

    @property
    def problems_told(self) -> list[Fault]:
        return faults_of(self)


class ScheduleForm(WorkOrderForm, TimesForm):
    """Both; a file is named by its path, and read at each start."""

    uploads = False

    def __init__(self, *args: Any, template: Template, user: User, **kwargs: Any) -> None:
        super().__init__(*args, template=template, user=user, **kwargs)
        for name in self.takes_files:
            path = self.fields[PREFIX + name + ".path"]
            path.label = gettext("Path of %(replace)s") % {"replace": name.replace("_", " ")}
            path.required = name in set(self.schema.get("required", [])) - self.begun.keys()
            kept = self.begun.get(name)
            path.initial = kept.get("path") if isinstance(kept, dict) else None
        self.fields["title"].label = gettext("Title of each order")

    def clean(self) -> dict[str, Any]:
        # a work order's form asks for a file or its path; here there is the path alone
        self.check_input()
        return forms.Form.clean(self) or {}

    def order(self) -> dict[str, Any]:
        values = self.cleaned_data
        return {
            "title": values["title"],
            "request": values["request"],
            "input": self.input_values(),
            "repository_url": values.get("repository_url", ""),
            "team": values.get("team"),
            "priority": values["priority"],
        }


def form_of(schedule: Schedule, template: Template | None, data: Any, *, user: User) -> TimesForm:
    """The form with what a schedule has now; of its times alone without a template."""
    known = {name: getattr(schedule, name) for name in ("name", *keeping.WHAT, *keeping.WHEN)}
    if template is None:
        return TimesForm(data, initial=known)
    begun = known.pop("input")
    return ScheduleForm(data, template=template, user=user, begun=begun, initial=known)
