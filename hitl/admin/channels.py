"""Accounts of chat services, for operators: which of them answers as whom."""

from __future__ import annotations

from typing import ClassVar, cast

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from checkpoints.admin.base import ReadOnlyAdmin
from checkpoints.database.people import NAME, User
from hitl.models import ChatAccount


@admin.register(ChatAccount)
class ChatAccountAdmin(ReadOnlyAdmin):
    """Made by superusers, since such an account answers as a person; never changed."""

    shown_ids: ClassVar[dict[str, str]] = {}
    search_fields = ("account", "team", f"user__{NAME}")
    search_help_text = gettext_lazy("An id of the service, or whose account it is")
    list_display = ("service", "team", "account", "user", "made_at")
    list_filter = ("service",)
    list_select_related = ("user",)
    fields = ("service", "team", "account", "user")

    def get_readonly_fields(
        self, request: HttpRequest, obj: ChatAccount | None = None
    ) -> tuple[str, ...]:
        return self.fields if obj else ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        user = cast(User, request.user)
        return user.is_active and user.is_superuser

    def has_delete_permission(self, request: HttpRequest, obj: ChatAccount | None = None) -> bool:
        return cast(User, request.user).has_perm("hitl.delete_chataccount")
