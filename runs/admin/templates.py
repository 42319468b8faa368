"""Templates, step templates and frozen definitions for operators."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy
from unfold.widgets import UnfoldAdminSelectWidget

from checkpoints.admin.base import (
    ReadOnlyAdmin,
    as_json,
    link,
)
from checkpoints.admin.columns import display
from checkpoints.database.people import User
from checkpoints.models import labels
from runs import definitions
from runs.admin import credentials as credentials
from runs.admin.fields import JsonField
from runs.definitions import rights
from runs.models import Definition, StepTemplate, Template
from runs.models.frequency import PROMISES, Frequency


class TemplateAdminForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    steps = JsonField(help_text=Template._meta.get_field("steps").help_text)
    input_schema = JsonField(
        **labels.words_of(Template, "input_schema"), required=False, empty_value={}
    )
    frequency = forms.ChoiceField(
        choices=labels.in_words(Frequency.choices),
        required=False,
        **labels.words_of(Template, "frequency"),
        widget=UnfoldAdminSelectWidget,
    )
    retention = JsonField(**labels.words_of(Template, "retention"), required=False, empty_value={})

    class Meta:
        model = Template
        fields = (
            "title",
            "description",
            "steps",
            "input_schema",
            "needs_repository",
            "frequency",
            "retention",
            "size_budget",
        )

    def clean_frequency(self) -> str:
        """As it was, where nothing is chosen."""
        return str(self.cleaned_data["frequency"] or self.instance.frequency)

    def clean_retention(self) -> dict[str, Any]:
        """An emptied field is a template that says nothing."""
        retention: dict[str, Any] = (
            self.cleaned_data["retention"] if self.cleaned_data["retention"] is not None else {}
        )
        return retention

    def clean(self) -> dict[str, Any]:
        """Ask the service itself whether it would take the edit, and take that back: the form is
        where its refusal can be read.
        """
        values = super().clean() or {}
        if self.errors:
            return values
        newest = definitions.current(self.instance.slug)
        if newest.pk != self.instance.pk:
            raise forms.ValidationError(
                gettext(
                    "Version %(version)s was saved meanwhile. Open it and make your change there."
                )
                % {"version": newest.version}
            )
        try:
            with transaction.atomic():
                definitions.edit_template(self.instance.slug, **values)
                transaction.set_rollback(True)
        except definitions.TemplateInvalid as error:
            for field, sentences in error.errors.items():
                name = field.split(".")[0]
                self.add_error(
                    name if name in self.fields else None,
                    [f"{field}: {sentence}" for sentence in sentences],
                )
        return values


@admin.register(Template)
class TemplateAdmin(ReadOnlyAdmin):
    """Saving makes a new version; only the newest can be edited, and none deleted."""

    form = TemplateAdminForm
    search_fields = ("slug", "title")
    heavy = ("steps", "input_schema", "description")
    list_display = ("__str__", "title", "needs_repository", "created_by", "created_at")
    list_select_related = ("created_by",)
    fields = (
        "slug", "version", "title", "description", "steps", "input_schema", "needs_repository",
        "frequency", "promise", "retention",
        "size_budget", "who_may_order", "created_by", "created_at",
    )  # fmt: skip

    def has_change_permission(self, request: HttpRequest, obj: Template | None = None) -> bool:
        if not request.user.has_perm("runs.change_template"):
            return False
        # a form sent too late is answered by the form, with what was typed
        if obj is None or request.method == "POST":
            return True
        return not Template.objects.filter(slug=obj.slug, version__gt=obj.version).exists()

    def get_readonly_fields(self, request: HttpRequest, obj: Template | None = None) -> Any:
        return ("slug", "version", "promise", "who_may_order", "created_by", "created_at")

    @display(description=gettext_lazy("who may order"))
    def who_may_order(self, template: Template) -> SafeString:
        """Settled apart, so that a new version does not lose it."""
        access = rights.access_to(template.slug)
        change = (
            link("runs_templateaccess_change", gettext("Change"), access.pk)
            if access
            else link("runs_templateaccess_add", gettext("Restrict"))
        )
        return format_html("{} · {}", rights.who_may(access), change)

    @display(description=gettext_lazy("what then holds"))
    def promise(self, template: Template) -> SafeString:
        """Of each frequency, so that who chooses sees all of them."""
        lines = ((Frequency(name).label, gettext(text)) for name, text in PROMISES.items())
        return format_html_join("", "<p><strong>{}.</strong> {}</p>", lines)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        saved = definitions.edit_template(
            obj.slug, by=cast(User, request.user), **form.cleaned_data
        )
        # what follows, log and redirect, speaks of the new version
        obj.pk, obj.version = saved.pk, saved.version

    def response_change(self, request: HttpRequest, obj: Template) -> HttpResponse:
        self.message_user(
            request,
            gettext("%(obj)s is the newest version. Orders made before keep theirs.")
            % {"obj": obj},
            messages.SUCCESS,
        )
        for warning in definitions.warnings_of(obj.steps):
            self.message_user(request, warning, messages.WARNING)
        return HttpResponseRedirect(reverse("admin:runs_template_change", args=[obj.pk]))


@admin.register(StepTemplate)
class StepTemplateAdmin(ReadOnlyAdmin):
    search_fields = ("slug", "title", "function")
    heavy = ("config",)
    list_display = ("__str__", "title", "function", "created_at")
    fields = ("slug", "version", "title", "function", "config_json", "created_at")

    @display(description=gettext_lazy("config"))
    def config_json(self, template: StepTemplate) -> SafeString:
        return as_json(lambda: template.config)


@admin.register(Definition)
class DefinitionAdmin(ReadOnlyAdmin):
    search_fields = ("template_slug", "digest")
    heavy = ("content",)
    ordering = ("-created_at", "-pk")
    list_display = ("__str__", "digest", "created_at")
    fields = ("template_slug", "template_version", "digest", "created_at", "content_json")

    @display(description=gettext_lazy("content"))
    def content_json(self, definition: Definition) -> SafeString:
        return as_json(lambda: definition.content)
