"""Credentials for operators: written here, listed, replaced and deleted, and never shown again."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlencode

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.translation import gettext, gettext_lazy
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextareaWidget

from checkpoints.database.people import User
from runs.models import Credential
from runs.security import allowed_hosts, credentials


class CredentialForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    """The value is no field of the model's here, so that no page can render what is kept."""

    secret = forms.CharField(
        label=gettext_lazy("Value"),
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("Kept encrypted, and shown to nobody again."),
    )

    bound = forms.CharField(
        label=gettext_lazy("Hosts"),
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text=gettext_lazy(
            "Where it may be sent, a host a line: api.example.org, or localhost:11434 for "
            "another port than the usual one. Bound to hosts, it is given to no program, "
            "such as a coding agent's, which could send it anywhere. Empty: it may be sent "
            "to ANY host that a step template, a repository or a tool names."
        ),
    )

    class Meta:
        model = Credential
        fields = ("name", "team", "note")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "bound" in self.fields and self.instance.pk:
            self.fields["bound"].initial = "\n".join(self.instance.hosts)
        if "secret" in self.fields:
            self.fields["secret"].required = self.instance.pk is None
            if self.instance.pk:
                self.fields["secret"].help_text = gettext(
                    "Leave it empty to keep the present value, which is shown to nobody."
                )

    def clean_bound(self) -> list[str]:
        try:
            return credentials.check_hosts(allowed_hosts.split(self.cleaned_data["bound"]))
        except credentials.CredentialInvalid as error:
            raise forms.ValidationError(str(error)) from error

    def clean_secret(self) -> str:
        value = str(self.cleaned_data["secret"])
        if value:
            try:
                credentials.check_value(value)
            except credentials.CredentialInvalid as error:
                raise forms.ValidationError(str(error)) from error
        return value


@admin.register(Credential)
class CredentialAdmin(ModelAdmin):
    form = CredentialForm
    search_fields = ("name", "note", "team__name")
    list_display = (
        "name",
        "team",
        "sent_to",
        "note",
        "created_by",
        "created_at",
        "rotated_at",
        "used_at",
    )
    list_select_related = ("team", "created_by")
    show_full_result_count = False
    ordering = ("name", "pk")
    told = ("created_by", "created_at", "rotated_at", "used_at")

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).defer("value")

    def get_fields(self, request: HttpRequest, obj: Credential | None = None) -> Any:
        """Who only looks has no field for a value."""
        if obj is None:
            return ("usual", "name", "team", "bound", "note", "secret")
        if self.has_change_permission(request, obj):
            return ("name", "team", "bound", "note", "secret", *self.told)
        return ("name", "team", "sent_to", "note", *self.told)

    @admin.display(description=gettext_lazy("May be sent to"))
    def sent_to(self, obj: Credential) -> str:
        return obj.bound_to

    @admin.display(description=gettext_lazy("Begin with"))
    def usual(self, obj: Credential) -> str:
        """Links that fill in name and hosts of the providers that are known."""
        pages = [
            (f"?{urlencode({'name': name, 'bound': ', '.join(places)})}", title)
            for title, (name, places) in allowed_hosts.KNOWN.items()
        ]
        return format_html_join(" · ", '<a class="underline" href="{}">{}</a>', pages)

    def get_readonly_fields(self, request: HttpRequest, obj: Credential | None = None) -> Any:
        """Another name or team would be another credential, with steps that ask for the old one."""
        return ("name", "team", "sent_to", *self.told) if obj else ("usual",)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        value, note, bound = (form.cleaned_data[field] for field in ("secret", "note", "bound"))
        if value:
            saved = credentials.put(
                obj.name,
                value,
                team=obj.team,
                note=note,
                sent_to=bound,
                by=cast(User, request.user),
            )
            obj.pk = saved.pk
            self.message_user(
                request,
                gettext("%(name)s is kept. Runs use it from now on; its value is not shown again.")
                % {"name": obj.name},
                messages.SUCCESS,
            )
        else:
            obj.hosts = bound
            obj.save(update_fields=["note", "hosts"])
