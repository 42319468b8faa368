"""How many runs of a template may be at work at once, as operators settle it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_lazy
from unfold.admin import ModelAdmin

from runs.models import Place, Template, WorkLimit
from runs.services import limits as work_limits
from runs.workflows import refusals
from runs.workflows.base import pointers, rates


class WorkLimitForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    class Meta:
        model = WorkLimit
        fields = ("template", "name", "pointer", "most", "rate", "priority")

    def clean_template(self) -> str:
        slug = str(self.cleaned_data["template"])
        known = set(Template.objects.values_list("slug", flat=True))
        if slug not in known:
            raise forms.ValidationError(refusals.unknown("template", slug, known))
        return slug

    def clean_pointer(self) -> str:
        pointer = str(self.cleaned_data["pointer"]).strip()
        if pointer and not pointers.is_pointer(pointer):
            raise forms.ValidationError(
                gettext("A JSON pointer, such as /customer or /order/region.")
            )
        return pointer

    def clean_rate(self) -> str:
        rate = str(self.cleaned_data["rate"]).strip()
        try:
            if rate:
                rates.parse(rate)
        except ValueError as error:
            raise forms.ValidationError(
                gettext("How many begin in which time, such as 60/min, 1/s or 500/h.")
            ) from error
        return rate


@admin.register(WorkLimit)
class WorkLimitAdmin(ModelAdmin):
    form = WorkLimitForm
    search_fields = ("template", "name")
    ordering = ("template", "pk")
    show_full_result_count = False
    list_display = (
        "template", "name", "pointer", "most", "rate", "priority", "off", "at_work", "waiting",
    )  # fmt: skip

    @admin.display(description=gettext_lazy("At work"))
    def at_work(self, limit: WorkLimit) -> int:
        return Place.objects.at_work().filter(limit=limit).count()

    @admin.display(description=gettext_lazy("Waiting"))
    def waiting(self, limit: WorkLimit) -> int:
        return Place.objects.waiting().filter(limit=limit).count()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        work_limits.look_again(obj)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        work_limits.take_away(obj)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        for limit in queryset:
            work_limits.take_away(limit)
