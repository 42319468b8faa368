"""The admin's action that erases threads, for people with the right to erase; and its records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy
from unfold.widgets import UnfoldAdminTextareaWidget

from checkpoints import ids
from checkpoints.admin.base import MOST, ConfirmedAdmin, ReadOnlyAdmin, as_json, confirmed
from checkpoints.admin.columns import display
from checkpoints.models import Thread
from hitl.admin.forensics import ThreadForensics
from hitl.decisions.services import NotFound
from hitl.models import Erasure
from hitl.threads import erasure


class ErasureReasonForm(forms.Form):
    reason = forms.CharField(
        max_length=erasure.LONGEST,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text=gettext_lazy("Why they are erased. It is kept with the record of the erasure."),
    )


@admin.register(Thread)
# two typings of one base
class ErasableThreadAdmin(ConfirmedAdmin, ThreadForensics):  # type: ignore[misc]
    actions = ("erase",)

    def has_erase_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(erasure.RIGHT)

    @confirmed(
        gettext_lazy("Erase…"),
        button=gettext_lazy("Erase for good"),
        title=gettext_lazy("Erase these threads for good?"),
        words=gettext_lazy(
            "Each goes with its child runs, checkpoints, log, questions, work order and workspace. "
            "The ledger keeps that somebody decided, not what they said. This cannot be undone."
        ),
        danger=True,
        permission="erase",
        form=ErasureReasonForm,
    )
    def erase(
        self, request: HttpRequest, queryset: QuerySet[Thread], given: Mapping[str, Any]
    ) -> None:
        for thread in queryset[:MOST]:
            try:
                record = erasure.erase(
                    thread.pk, by=request.user.get_username(), reason=given["reason"]
                )
                self.message_user(
                    request,
                    gettext("%(thread)s: erased, recorded as %(erasure)s.")
                    % {"thread": thread.shown_id, "erasure": record.shown_id},
                    messages.SUCCESS,
                )
            except (NotFound, erasure.CannotErase) as refusal:
                self.message_user(request, f"{thread.shown_id}: {refusal}", messages.WARNING)


@admin.register(Erasure)
class ErasureAdmin(ReadOnlyAdmin):
    search_fields = ("erased_by",)
    search_help_text = gettext_lazy("Who erased")
    list_display = ("shown", "thread_words", "erased_by", "erased_at")
    fields = (
        "shown",
        "thread_words",
        "erased_by",
        "erased_at",
        "reason",
        "counts_json",
        "decisions_json",
        "digest",
    )

    @display(description=gettext_lazy("thread"))
    def thread_words(self, done: Erasure) -> str:
        return ids.show(Thread.PREFIX, done.thread_id)

    @display(description=gettext_lazy("rows"))
    def counts_json(self, done: Erasure) -> SafeString:
        return as_json(lambda: done.counts)

    @display(description=gettext_lazy("decisions"))
    def decisions_json(self, done: Erasure) -> SafeString:
        return as_json(lambda: done.decisions)
