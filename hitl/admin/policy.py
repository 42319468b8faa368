"""Votes and delegations for operators."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from checkpoints.admin.base import ReadOnlyAdmin, row, text_column
from checkpoints.admin.columns import display
from checkpoints.database.people import NAME, User
from hitl.decisions.reviewers import delegations
from hitl.models import Delegation, Vote


@admin.register(Vote)
class VoteAdmin(ReadOnlyAdmin):
    shown_ids: ClassVar[dict[str, str]] = {"vote": "pk", "pse": "pause"}
    search_help_text = gettext_lazy("A vote_ or pse_ id")
    heavy = ("feedback", "edited_content")
    sealed: ClassVar[dict[str, str]] = {
        "words": "feedback",
        "edited": "edited_content",
        "external": "external",
    }
    list_display = ("shown", "action", "pause_link", "voter", "external", "seat", "via", "voted_at")
    list_select_related = ("voter", "seat")
    fields = (
        "shown", "pause_link", "action", "words", "edited", "voter", "external", "seat", "voted_at",
        "via",
        "content_digest", "digest", "digest_check",
    )  # fmt: skip
    words = text_column("feedback")
    edited = text_column("edited_content")

    @display(description=gettext_lazy("pause"))
    def pause_link(self, vote: Vote) -> SafeString | str:
        return row("runs_pause", "pse", vote.pause_id)

    @display(description=gettext_lazy("digest check"))
    def digest_check(self, vote: Vote) -> str:
        return (
            gettext("Matches")
            if vote.digest == vote.compute_digest()
            else gettext("Does not match: this row was changed after it was written.")
        )


class DelegationAdminForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    class Meta:
        model = Delegation
        fields = ("from_user", "to_user", "starts_at", "ends_at", "reason")

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        if values.get("from_user") is not None and values.get("from_user") == values.get("to_user"):
            self.add_error("to_user", gettext("Somebody else."))
        if not self.errors:
            when = {name: values[name] for name in ("starts_at", "ends_at", "reason")}
            try:
                delegations.check(**when)
            except delegations.DelegationRefused as error:
                self.add_error(error.field, str(error))
        return values


@admin.register(Delegation)
class DelegationAdmin(ReadOnlyAdmin):
    """Made here by superusers for anybody, ended by whoever delegated; never edited, since answers
    were given by it.
    """

    form = DelegationAdminForm
    search_fields = (f"from_user__{NAME}", f"to_user__{NAME}")
    search_help_text = gettext_lazy("Who delegated, or to whom")
    list_display = (
        "from_user",
        "to_user",
        "starts_at",
        "ends_at",
        "pause_link",
        "reason",
        "created_by",
    )
    list_select_related = ("from_user", "to_user", "created_by")
    fields = (
        "from_user",
        "to_user",
        "pause_link",
        "starts_at",
        "ends_at",
        "reason",
        "created_by",
        "created_at",
    )

    @display(description=gettext_lazy("question"), empty_value="all")
    def pause_link(self, delegation: Delegation) -> SafeString | str | None:
        return row("runs_pause", "pse", delegation.pause_id) if delegation.pause_id else None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return cast(User, request.user).is_superuser and request.user.is_active

    def get_fields(self, request: HttpRequest, obj: Delegation | None = None) -> Any:
        return self.fields if obj else DelegationAdminForm.Meta.fields

    def get_readonly_fields(self, request: HttpRequest, obj: Delegation | None = None) -> Any:
        return self.fields if obj else ()

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """People alone: an account without a person decides nothing."""
        people = User.objects.filter(is_active=True, service_account=None).order_by(NAME)
        return super().formfield_for_foreignkey(db_field, request, queryset=people, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        obj.created_by = cast(User, request.user)
        obj.save(force_insert=True)
