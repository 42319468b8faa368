"""Tokens of programs for operators: made and revoked."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from checkpoints.admin.base import ConfirmedAdmin, confirmed
from checkpoints.admin.columns import display
from checkpoints.database import clock
from checkpoints.database.people import NAME, User
from hitl.admin.base import person
from hitl.identity import service_accounts
from hitl.models import ApiToken, is_service


class ApiTokenForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    class Meta:
        model = ApiToken
        fields = ("user", "name", "scope", "expires_at")

    def clean(self) -> dict[str, Any]:
        """A token that nobody can use is none, and one of a service account is as everywhere."""
        values: dict[str, Any] = super().clean() or {}
        ends = values.get("expires_at")
        if is_service(values.get("user")) and not self.errors:
            try:
                service_accounts.check_token(**values)
            except service_accounts.AccountRefused as error:
                self.add_error(
                    "expires_at" if error.field == "days" else error.field or None, str(error)
                )
        elif ends is not None and ends <= clock.now():
            words = _("The end lies before the beginning, or has passed already.")
            self.add_error("expires_at", words)
        return values


@admin.register(ApiToken)
class ApiTokenAdmin(ConfirmedAdmin):
    """Made and revoked, never edited. Its secret is shown once, when it is made."""

    search_fields = ("name", f"user__{NAME}")
    search_help_text = gettext_lazy("Words of the name or its user")
    actions = ("revoke",)
    list_display = ("name", "user", "scope", "standing", "created_at", "expires_at", "last_write")
    list_select_related = ("user",)
    fields = (
        "user", "name", "scope", "expires_at", "created_at", "made_by", "replaces", "revoked_at",
        "last_write",
    )  # fmt: skip
    form = ApiTokenForm

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("hitl.add_apitoken")

    def get_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> Any:
        return self.fields if obj else ("user", "name", "scope", "expires_at")

    def get_readonly_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> Any:
        return self.fields if obj else ()

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """A token acts as its user: only superusers make one for somebody else."""
        users = User.objects.filter(is_active=True).order_by(NAME)
        kwargs["queryset"] = (
            users if person(request).is_superuser else users.filter(pk=person(request).pk)
        )
        kwargs["initial"] = request.user.pk
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        made, secret = ApiToken.make(**form.cleaned_data, made_by=person(request))
        obj.pk = made.pk
        self.message_user(
            request,
            _("The secret of %(name)s, shown only now: %(secret)s")
            % {"name": made.name, "secret": secret},
            messages.WARNING,
        )

    @display(description=gettext_lazy("last asked to change something"))
    def last_write(self, token: ApiToken) -> dt.datetime | None:
        return token.last_used_at  # reading leaves no trace in the database

    @display(
        description=gettext_lazy("standing"),
        label={"valid": "success", "revoked": "danger"},
    )
    def standing(self, token: ApiToken) -> str:
        if token.revoked_at:
            return "revoked"
        return "expired" if token.expires_at and token.expires_at <= clock.now() else "valid"

    @confirmed(
        gettext_lazy("Revoke…"),
        button=gettext_lazy("Revoke"),
        title=gettext_lazy("Revoke these tokens?"),
        words=gettext_lazy(
            "Programs that use them are refused from now on. This cannot be undone."
        ),
        danger=True,
    )
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        count = queryset.order_by().filter(revoked_at__isnull=True).update(revoked_at=clock.now())
        self.message_user(request, _("%(count)s revoked.") % {"count": count}, messages.SUCCESS)
