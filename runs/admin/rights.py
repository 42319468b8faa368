"""Who may order by which template, as operators settle it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy
from unfold.admin import ModelAdmin

from runs.definitions import rights
from runs.models import Template, TemplateAccess
from runs.services.external_runs import SLUG as WAIT_GATE
from runs.workflows import refusals


class TemplateAccessForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    class Meta:
        model = TemplateAccess
        fields = ("slug", "enabled", "default", "groups")

    def clean_slug(self) -> str:
        slug = str(self.cleaned_data["slug"])
        known = {*Template.objects.values_list("slug", flat=True), WAIT_GATE}
        if slug not in known:
            raise forms.ValidationError(refusals.unknown("template", slug, known))
        return slug


@admin.register(TemplateAccess)
class TemplateAccessAdmin(ModelAdmin):
    """A template without a row here is everybody's.

    `wait-gate` is what other engines open waits with.
    """

    form = TemplateAccessForm
    search_fields = ("slug",)
    ordering = ("slug", "pk")
    show_full_result_count = False
    list_display = ("slug", "enabled", "default", "who")
    filter_horizontal = ("groups",)

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).prefetch_related("groups")

    def get_fields(self, request: HttpRequest, obj: TemplateAccess | None = None) -> Any:
        fields = ("slug", "enabled", "default", "groups")
        return (*fields, "who") if obj else fields

    def get_readonly_fields(self, request: HttpRequest, obj: TemplateAccess | None = None) -> Any:
        return ("slug", "who") if obj else ()

    @admin.display(description=gettext_lazy("Who may order"))
    def who(self, access: TemplateAccess) -> str:
        return rights.who_may(access)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        rights.settle(form.instance, "groups", "restricted", form.cleaned_data["groups"])
