"""How many runs of a template may be at work at once, as operators settle it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import gettext_lazy
from unfold.admin import ModelAdmin

from runs.models import Place, WorkLimit
from runs.services import limits as work_limits


class WorkLimitForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    class Meta:
        model = WorkLimit
        fields = ("template", "name", "pointer", "most", "rate", "priority")

    def clean(self) -> dict[str, Any]:
        """As everywhere else that a limit is settled."""
        values: dict[str, Any] = super().clean() or {}
        if not self.errors:
            limit = WorkLimit.objects.filter(pk=self.instance.pk).first() or WorkLimit()
            try:
                work_limits.put(limit, values)
            except work_limits.LimitInvalid as error:
                self.add_error(error.field, str(error))
        return values


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
        obj.off = False
        super().save_model(request, obj, form, change)
        work_limits.look_again(obj)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        work_limits.take_away(obj)

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        for limit in queryset:
            work_limits.take_away(limit)
