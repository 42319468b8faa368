"""Admin pages of the identity provider's groups: which group of ours each one stands for, and whose
groups a login changed.
"""

from __future__ import annotations

from typing import Any, cast

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy
from unfold.admin import ModelAdmin

from checkpoints.admin.base import ReadOnlyAdmin
from checkpoints.database.people import NAME, User
from hitl.models import ClaimedGroup, MembershipChange


@admin.register(ClaimedGroup)
class ClaimedGroupAdmin(ModelAdmin):
    """Only superusers change these rows: a group gives rights, and only they hand out rights."""

    search_fields = ("claim", "group__name")
    search_help_text = gettext_lazy("Words of the value or the group")
    list_display = ("claim", "group")
    list_select_related = ("group",)
    fields = ("claim", "group")
    show_full_result_count = False

    def _is_superuser(self, request: HttpRequest) -> bool:
        return cast(User, request.user).is_superuser and request.user.is_active

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self._is_superuser(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._is_superuser(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._is_superuser(request)


@admin.register(MembershipChange)
class MembershipChangeAdmin(ReadOnlyAdmin):
    search_fields = (f"user__{NAME}",)
    search_help_text = gettext_lazy("Whose groups changed")
    list_display = ("user", "at", "connection", "added", "removed", "refused")
    list_select_related = ("user",)
    fields = ("user", "at", "provider", "connection", "added", "removed", "claims", "refused")
