"""Second factors, where allauth keeps them: who lost theirs gets them removed here."""

from __future__ import annotations

from typing import Any, cast

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from checkpoints.admin.checkpoints import ReadOnlyAdmin
from checkpoints.database.people import NAME, User


class FactorAdmin(ReadOnlyAdmin):
    """Seen without its secret, and removed; never edited. Only superusers remove one of somebody
    who has rights.
    """

    search_fields = (f"user__{NAME}",)
    search_help_text = gettext_lazy("Whose it is")
    list_display = ("user", "type", "created_at", "last_used_at")
    list_select_related = ("user",)
    fields = ("user", "type", "created_at", "last_used_at")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        by = cast(User, request.user)
        may = by.has_perm("mfa.delete_authenticator")
        return may and (obj is None or by.is_superuser or not obj.user.is_staff)


if apps.is_installed("allauth.mfa"):
    from allauth.account.models import EmailAddress
    from allauth.mfa.models import Authenticator

    admin.site.unregister(Authenticator)
    admin.site.register(Authenticator, FactorAdmin)
    admin.site.unregister(EmailAddress)  # addresses stand at the account

if apps.is_installed("allauth.socialaccount"):
    from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken

    for model in (SocialAccount, SocialApp, SocialToken):  # providers are named by settings alone
        admin.site.unregister(model)
