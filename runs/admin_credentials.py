"""Credentials for operators: written here, listed, replaced and deleted, and never shown again."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminPasswordWidget

from runs import credentials
from runs.models import Credential


class CredentialForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    """The value is no field of the model's here, so that no page can render what is kept."""

    secret = forms.CharField(
        label="Value",
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Kept encrypted, and shown to nobody again.",
    )

    class Meta:
        model = Credential
        fields = ("name", "team", "note")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "secret" in self.fields:
            self.fields["secret"].required = self.instance.pk is None
            if self.instance.pk:
                self.fields["secret"].help_text = "Leave it empty to keep the present value, which is shown to nobody."

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
    list_display = ("name", "team", "note", "created_by", "created_at", "rotated_at", "used_at")
    list_select_related = ("team", "created_by")
    show_full_result_count = False
    ordering = ("name", "pk")
    told = ("created_by", "created_at", "rotated_at", "used_at")

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).defer("value")

    def get_fields(self, request: HttpRequest, obj: Credential | None = None) -> Any:
        """Who only looks has no field for a value."""
        if obj is None:
            return ("name", "team", "note", "secret")
        return ("name", "team", "note", *(("secret",) if self.has_change_permission(request, obj) else ()), *self.told)

    def get_readonly_fields(self, request: HttpRequest, obj: Credential | None = None) -> Any:
        """Another name or team would be another credential, with steps that ask for the old one."""
        return ("name", "team", *self.told) if obj else ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        value, note = form.cleaned_data["secret"], form.cleaned_data["note"]
        if value:
            saved = credentials.put(obj.name, value, team=obj.team, note=note, by=cast(User, request.user))
            obj.pk = saved.pk
            self.message_user(request, f"{obj.name} is kept. Runs use it from now on; its value is not shown again.", messages.SUCCESS)
        else:
            obj.save(update_fields=["note"])
