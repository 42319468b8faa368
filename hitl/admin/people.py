"""Accounts, teams and second factors in the admin: rights are handed out by superusers alone.

Somebody who lost a factor gets it removed here.
"""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as BaseGroupAdmin
from django.contrib.auth.admin import UserAdmin as BaseUserAdmin
from django.contrib.auth.models import Group
from django.http import HttpRequest
from django.utils.translation import gettext_lazy
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from checkpoints.admin.base import ReadOnlyAdmin
from checkpoints.database.people import NAME, User
from checkpoints.models import labels
from hitl.admin.base import person


# two typings of one base
class UserAdmin(BaseUserAdmin, ModelAdmin):  # type: ignore[misc, type-arg]
    """Only superusers hand out rights, and only they change the account of somebody who has
    some.
    """

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    show_full_result_count = False

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        rights = ("is_staff", "is_superuser", "groups", "user_permissions")
        return super().get_readonly_fields(request, obj) if person(request).is_superuser else rights

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_change_permission(request, obj) and self.may_touch(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_delete_permission(request, obj) and self.may_touch(request, obj)

    def may_touch(self, request: HttpRequest, obj: User | None) -> bool:
        return (
            obj is None
            or person(request).is_superuser
            or obj == request.user
            or not (obj.is_staff or obj.is_superuser)
        )


class GroupAdmin(BaseGroupAdmin, ModelAdmin):  # type: ignore[misc]  # two typings of one base
    """Teams. Their rights are handed out by superusers only."""

    show_full_result_count = False

    def get_readonly_fields(self, request: HttpRequest, obj: Group | None = None) -> Any:
        return () if person(request).is_superuser else ("permissions",)


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
        by = person(request)
        may = by.has_perm("mfa.delete_authenticator")
        return may and (obj is None or by.is_superuser or not obj.user.is_staff)


# a model of the project's own has the project's own page
if settings.AUTH_USER_MODEL == "auth.User":
    admin.site.unregister(User)
    admin.site.register(User, UserAdmin)
admin.site.unregister(Group)
admin.site.register(Group, GroupAdmin)

if apps.is_installed("allauth.mfa"):
    from allauth.account.models import EmailAddress
    from allauth.mfa.models import Authenticator

    labels.translate_fields(Authenticator)  # "created at", as ours say it
    admin.site.unregister(Authenticator)
    admin.site.register(Authenticator, FactorAdmin)
    admin.site.unregister(EmailAddress)  # addresses stand at the account

if apps.is_installed("allauth.socialaccount"):
    from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken

    for model in (SocialAccount, SocialApp, SocialToken):  # providers are named by settings alone
        admin.site.unregister(model)
