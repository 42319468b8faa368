"""Accounts without a person, for superusers: each can be given any team, and so sees what that team
does.
"""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.widgets import UnfoldAdminSelectMultipleWidget, UnfoldAdminTextInputWidget

from checkpoints.admin.base import ConfirmedAdmin, confirmed
from checkpoints.admin.columns import display
from checkpoints.database import clock
from checkpoints.database.people import NAME, User
from hitl.identity import service_accounts
from hitl.models import ApiToken, ServiceAccount


class ServiceAccountForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    name = forms.CharField(
        label=gettext_lazy("Name"), max_length=150, widget=UnfoldAdminTextInputWidget
    )
    teams = forms.ModelMultipleChoiceField(
        Group.objects.order_by("name"),
        required=False,
        label=gettext_lazy("Teams"),
        widget=UnfoldAdminSelectMultipleWidget,
    )

    class Meta:
        model = ServiceAccount
        fields = ("purpose",)

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        if not self.errors:
            try:
                service_accounts.checked(values["name"], purpose=values["purpose"])
            except service_accounts.AccountRefused as error:
                self.add_error(error.field, str(error))
        return values


@admin.register(ServiceAccount)
class ServiceAccountAdmin(ConfirmedAdmin):
    """Made, and switched off and on; never edited, since work was asked for by it."""

    form = ServiceAccountForm
    search_fields = (f"user__{NAME}", "purpose")
    search_help_text = gettext_lazy("Words of the name or the purpose")
    actions = ("rotate_tokens", "switch_off", "switch_on")
    list_display = ("user", "purpose", "standing", "tokens", "made_by", "created_at")
    list_select_related = ("user", "made_by")
    fields = ("user", "purpose", "standing", "teams_of", "tokens", "made_by", "created_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return cast(User, request.user).is_superuser and request.user.is_active

    def has_operate_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_add_permission(request)

    def get_fields(self, request: HttpRequest, obj: ServiceAccount | None = None) -> Any:
        return self.fields if obj else ("name", "purpose", "teams")

    def get_readonly_fields(self, request: HttpRequest, obj: ServiceAccount | None = None) -> Any:
        return self.fields if obj else ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        values = form.cleaned_data
        made = service_accounts.make(
            values["name"],
            purpose=values["purpose"],
            teams=values["teams"],
            by=cast(User, request.user),
        )
        obj.user, obj.pk = made.user, made.pk
        words = _("%(name)s is made. Give it a token under API tokens.") % {"name": made}
        self.message_user(request, words, messages.SUCCESS)

    @display(description=gettext_lazy("teams"))
    def teams_of(self, account: ServiceAccount) -> str:
        return ", ".join(account.user.groups.values_list("name", flat=True))

    @display(description=gettext_lazy("valid tokens"))
    def tokens(self, account: ServiceAccount) -> int:
        return ApiToken.objects.valid(now=clock.now()).filter(user=account.user).count()

    @display(description=gettext_lazy("standing"), label={"active": "success", "off": "danger"})
    def standing(self, account: ServiceAccount) -> str:
        return "active" if account.user.is_active else "off"

    @confirmed(
        gettext_lazy("New tokens in place of the old ones…"),
        button=gettext_lazy("Make them"),
        title=gettext_lazy("Make new tokens?"),
        words=gettext_lazy(
            "Each valid token gets a successor, shown once. The old ones are refused after a day."
        ),
    )
    def rotate_tokens(self, request: HttpRequest, queryset: QuerySet[ServiceAccount]) -> None:
        for token in service_accounts.to_rotate(queryset):
            made, secret = service_accounts.rotate(token, by=cast(User, request.user))
            words = _("%(account)s, %(token)s: the secret, shown only now: %(secret)s")
            self.message_user(
                request,
                words % {"account": token.user, "token": made.name, "secret": secret},
                messages.WARNING,
            )

    @confirmed(
        gettext_lazy("Switch off…"),
        button=gettext_lazy("Switch off"),
        title=gettext_lazy("Switch these accounts off?"),
        words=gettext_lazy("Their tokens are refused from now on."),
    )
    def switch_off(self, request: HttpRequest, queryset: QuerySet[ServiceAccount]) -> None:
        self._switch(request, queryset, on=False)

    @confirmed(
        gettext_lazy("Switch on…"),
        button=gettext_lazy("Switch on"),
        title=gettext_lazy("Switch these accounts on?"),
        words=gettext_lazy("Their tokens are taken again."),
    )
    def switch_on(self, request: HttpRequest, queryset: QuerySet[ServiceAccount]) -> None:
        self._switch(request, queryset, on=True)

    def _switch(
        self, request: HttpRequest, queryset: QuerySet[ServiceAccount], *, on: bool
    ) -> None:
        for account in queryset:
            service_accounts.switch(account, on=on)
        self.message_user(request, _("Done."), messages.SUCCESS)
