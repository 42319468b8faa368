"""Schedules for operators: looked at, switched off and on; they are made and changed by owners."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from checkpoints.admin.base import (
    MOST,
    ConfirmedAdmin,
    ReadOnlyAdmin,
    as_json,
    confirmed,
    row,
    text,
)
from checkpoints.admin.columns import display
from checkpoints.database.people import NAME
from runs.models import Occurrence, Schedule
from runs.schedules import keeping


@admin.register(Schedule)
class ScheduleAdmin(ConfirmedAdmin):
    shown_ids: ClassVar[dict[str, str]] = {"sch": "pk"}
    search_fields = ("name", "template", f"owner__{NAME}")
    search_help_text = gettext_lazy("A sch_ id, or words of its name, template or owner")
    actions = ("switch_off", "switch_on")
    heavy = ("request", "input")
    sealed: ClassVar[dict[str, str]] = {"input_json": "input", "request_text": "request"}
    list_display = ("shown", "name", "owner", "template", "cron", "zone", "standing", "next_at")
    list_filter = ("enabled", "overlap", "catch_up")
    list_select_related = ("owner", "team")
    fields = (
        "shown", "name", "owner", "template", "title", "request_text", "input_json",
        "repository_url", "team", "cron", "zone", "until", "overlap", "catch_up", "catch_up_most",
        "standing", "stopped_because", "cursor", "next_at", "made_at",
    )  # fmt: skip

    @display(
        description=gettext_lazy("state"),
        label={"on": "success", "stopped": "danger", "off": "info"},
    )
    def standing(self, schedule: Schedule) -> str:
        return "on" if schedule.enabled else "stopped" if schedule.stopped_because else "off"

    @display(description=gettext_lazy("request"))
    def request_text(self, schedule: Schedule) -> SafeString:
        return text(schedule.request)

    @display(description=gettext_lazy("input"))
    def input_json(self, schedule: Schedule) -> SafeString:
        return as_json(lambda: schedule.input)

    @confirmed(
        gettext_lazy("Switch off…"),
        button=gettext_lazy("Switch off"),
        title=gettext_lazy("Switch off these schedules?"),
        words=gettext_lazy("They start nothing any more. Orders at work go on."),
    )
    def switch_off(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        self._switch(request, queryset, enabled=False)

    @confirmed(
        gettext_lazy("Switch on…"),
        button=gettext_lazy("Switch on"),
        title=gettext_lazy("Switch on these schedules?"),
        words=gettext_lazy("They start by their times from now on, and catch up on nothing."),
    )
    def switch_on(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        self._switch(request, queryset, enabled=True)

    def _switch(self, request: HttpRequest, queryset: QuerySet[Schedule], *, enabled: bool) -> None:
        chosen = queryset.select_related("owner", "team")[:MOST]
        for schedule in chosen:
            keeping.change(schedule, enabled=enabled)
        self.message_user(request, gettext("Done."), messages.SUCCESS)


@admin.register(Occurrence)
class OccurrenceAdmin(ReadOnlyAdmin):
    shown_ids: ClassVar[dict[str, str]] = {"occ": "pk", "sch": "schedule", "wo": "order"}
    search_help_text = gettext_lazy("An occ_, sch_ or wo_ id")
    list_display = ("shown", "schedule", "local", "status", "count", "order_link", "why")
    list_filter = ("status",)
    list_select_related = ("schedule", "by")
    fields = (
        "shown", "schedule", "at", "local", "until", "count", "status", "why", "order_link", "by",
        "made_at", "settled_at",
    )  # fmt: skip

    @display(description=gettext_lazy("work order"))
    def order_link(self, occurrence: Occurrence) -> Any:
        return row("runs_workorder", "wo", occurrence.order_id)
