"""Repositories' settings for operators."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from checkpoints.admin.base import (
    IdSearch,
)
from checkpoints.models import labels
from runs.admin import credentials as credentials
from runs.admin.fields import JsonField
from runs.definitions import rights
from runs.git import repositories
from runs.git.sources import BadSource
from runs.models import Repository
from runs.workflows.code import extras


class RepositoryForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    check_command = JsonField(
        **labels.words_of(Repository, "check_command"),
        required=False,
        empty_value=[],
    )

    class Meta:
        model = Repository
        fields = ("url", *repositories.SETTLED, *repositories.GROUPS)

    allowed_templates = JsonField(
        **labels.words_of(Repository, "allowed_templates"),
        required=False,
        empty_value=[],
    )

    def clean_allowed_templates(self) -> Any:
        return self.cleaned_data["allowed_templates"] or []

    def clean_url(self) -> str:
        try:
            return repositories.checked_source(self.cleaned_data["url"])
        except BadSource as error:
            raise forms.ValidationError(str(error)) from error

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if not self.errors:
            for field, sentences in repositories.problems(values).items():
                self.add_error(field, sentences)
        return values


@admin.register(Repository)
class RepositoryAdmin(IdSearch):
    form = RepositoryForm
    shown_ids: ClassVar[dict[str, str]] = {"repo": "pk", "wo": "work_orders"}
    search_fields = ("name", "url")
    search_help_text = gettext_lazy("A repo_ or wo_ id, or words of the name or URL")
    show_full_result_count = False
    ordering = ("name", "pk")
    list_display = (
        "name",
        "url",
        "push_policy",
        "pull_request_policy",
        "use_template_execution",
        "created_at",
    )
    filter_horizontal = ("use_groups", "delivery_groups")

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        for relation, flag in repositories.GROUPS.items():
            rights.settle(form.instance, relation, flag, form.cleaned_data[relation])
        if warning := extras.missing(form.instance.forge):
            self.message_user(request, warning, messages.WARNING)

    fieldsets = (
        (
            None,
            {
                "fields": (
                    "name",
                    "url",
                    "default_template",
                    "check_command",
                    "use_template_execution",
                )
            },
        ),
        (
            gettext_lazy("Who may"),
            {"fields": ("use_groups", "delivery_groups", "allowed_templates")},
        ),
        (
            gettext_lazy("What leaves with an order"),
            {"fields": ("author", "base_branch", "push_policy", "pull_request_policy")},
        ),
        (
            gettext_lazy("Where to"),
            {"fields": ("forge", "forge_url", "forge_project", "credential")},
        ),
    )
