"""Decisions, and the ledgers that chain them, for operators: to be looked at, never changed."""

from __future__ import annotations

from typing import ClassVar

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from checkpoints.admin.base import ReadOnlyAdmin, row, text_column
from checkpoints.admin.columns import STATES, display
from checkpoints.database.people import NAME
from hitl.models import Anchor, Decision, Ledger


@admin.register(Decision)
class DecisionAdmin(ReadOnlyAdmin):
    shown_ids: ClassVar[dict[str, str]] = {
        "dec": "pk",
        "pse": "pause",
        "run": "pause__run",
        "thr": "pause__run__thread",
    }
    search_fields = (f"decided_by__{NAME}",)
    search_help_text = gettext_lazy("A dec_, pse_, run_ or thr_ id, or who decided")
    heavy = ("feedback", "edited_content")
    sealed: ClassVar[dict[str, str]] = {
        "words": "feedback",
        "edited": "edited_content",
        "external": "external",
    }
    list_display = (
        "shown",
        "action_label",
        "pause_link",
        "revision",
        "decided_by",
        "external",
        "via",
        "ledger_place",
        "decided_at",
    )
    list_filter = ("via",)
    list_select_related = ("decided_by",)
    fields = (
        "shown", "pause_link", "action", "words", "edited", "decided_by", "external",
        "on_behalf_of", "votes",
        "decided_at", "via", "revision", "content_digest", "ledger_place",
        "previous", "digest", "digest_check", "evidence", "goes_on_at", "undoes", "receipt",
    )  # fmt: skip

    @display(description=gettext_lazy("answer"), label=STATES)
    def action_label(self, decision: Decision) -> str:
        return decision.action

    @display(description=gettext_lazy("pause"))
    def pause_link(self, decision: Decision) -> SafeString | str:
        return row("runs_pause", "pse", decision.pause_id)

    words = text_column("feedback")
    edited = text_column("edited_content")

    @display(description=gettext_lazy("place in the ledger"))
    def ledger_place(self, decision: Decision) -> str:
        return f"{decision.ledger_id} #{decision.position}"

    @display(description=gettext_lazy("receipt"))
    def receipt(self, decision: Decision) -> SafeString:
        url = reverse("hitl:receipt", args=[decision.pk])
        return format_html('<a href="{}">{}</a>', url, _("Open"))

    @display(description=gettext_lazy("digest check"))
    def digest_check(self, decision: Decision) -> str:
        matches = (
            _("Matches what %(erasure)s recorded when its thread was erased")
            % {"erasure": decision.erasure}
            if decision.erasure
            else _("Matches")
        )
        return (
            matches
            if decision.intact
            else _("Does not match: this row was changed after it was written.")
        )


@admin.register(Ledger)
class LedgerAdmin(ReadOnlyAdmin):
    search_fields = ("name",)
    list_display = ("name", "length", "tip")
    fields = ("name", "length", "tip")


@admin.register(Anchor)
class AnchorAdmin(ReadOnlyAdmin):
    search_fields = ("ledger__name",)
    search_help_text = gettext_lazy("A ledger's name")
    list_display = ("ledger_id", "day", "position", "tip")
    fields = ("ledger_id", "day", "position", "tip", "previous", "digest")
