"""Threads, checkpoints and events for operators: to be looked at, never changed."""

from __future__ import annotations

import datetime as dt
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from checkpoints import store
from checkpoints.admin.base import ReadOnlyAdmin, as_json, link, row, text_column
from checkpoints.admin.columns import STATES, display
from checkpoints.admin.lists import (
    AgeField,
    FarChangeList,
    NodeField,
    SizeField,
    StatusField,
)
from checkpoints.admin.page_context import UNREADABLE, key_of
from checkpoints.database.people import NAME
from checkpoints.models import Checkpoint, Event, Thread


class ThreadAdmin(ReadOnlyAdmin):
    """Registered, with its pages and actions, in `hitl.admin.forensics`."""

    shown_ids: ClassVar[dict[str, str]] = {
        "thr": "pk",
        "wo": "work_order",
        "run": "runs",
        "ckpt": "checkpoints",
    }
    search_fields = ("title", f"owner__{NAME}")
    search_help_text = gettext_lazy("A thr_, wo_, run_ or ckpt_ id, or words of the title or owner")
    list_display = ("shown", "its_title", "owner", "team", "last_seq", "created_at", "imported_at")
    list_select_related = ("owner", "team")
    fields = (
        "shown",
        "its_title",
        "owner",
        "team",
        "head_link",
        "last_seq",
        "lists",
        "created_at",
        "imported_at",
    )
    its_title = text_column("title", lines=False)

    @display(description=gettext_lazy("head"))
    def head_link(self, thread: Thread) -> SafeString | str:
        return row("checkpoints_checkpoint", "ckpt", thread.head_id)

    @display(description=gettext_lazy("its rows"))
    def lists(self, thread: Thread) -> SafeString:
        query = f"?q={thread.shown_id}"
        return format_html(
            "{} · {} · {}",
            link("checkpoints_checkpoint_changelist", gettext("Checkpoints"), query=query),
            link("checkpoints_event_changelist", gettext("Events"), query=query),
            link("runs_run_changelist", gettext("Runs"), query=query),
        )


def came_along(thread: Thread, at: dt.datetime) -> bool:
    """Whether a row of that time came with the document from which the thread was imported."""
    return thread.imported_at is not None and at <= thread.imported_at


class CheckpointAdmin(ReadOnlyAdmin):
    """Registered, with its pages and actions, in `hitl.admin.forensics`."""

    shown_ids: ClassVar[dict[str, str]] = {"ckpt": "pk", "thr": "thread", "run": "run_id"}
    sealed: ClassVar[dict[str, str]] = {"state_json": "body", "metadata_json": "metadata"}
    search_help_text = gettext_lazy("A ckpt_, thr_ or run_ id")
    heavy = ("body", "metadata")
    list_display = (
        "shown",
        "thread_link",
        "run_link",
        "status_label",
        "node_id",
        "next_step",
        "progress",
        "size",
        "created_at",
        "came_along",
    )
    list_select_related = ("thread",)
    list_filter = (StatusField, NodeField, AgeField, SizeField)
    list_before_template = "admin/checkpoint_filters.html"  # type: ignore[assignment]  # typed by its default, None
    fields = (
        "shown", "thread_link", "run_link", "parent_link", "children_link", "status", "node_id",
        "next_step", "loop_num", "progress",
        "digest", "digest_check", "storage", "schema_version", "created_at", "came_along",
        "metadata_json",
    )  # fmt: skip

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return FarChangeList

    @display(description=gettext_lazy("imported"), boolean=True)
    def came_along(self, checkpoint: Checkpoint) -> bool:
        return came_along(checkpoint.thread, checkpoint.created_at)

    @display(description=gettext_lazy("thread"))
    def thread_link(self, checkpoint: Checkpoint) -> SafeString | str:
        return row("checkpoints_thread", "thr", checkpoint.thread_id)

    @display(description=gettext_lazy("run"))
    def run_link(self, checkpoint: Checkpoint) -> SafeString | str:
        return row("runs_run", "run", checkpoint.run_id)

    @display(description=gettext_lazy("parent"))
    def parent_link(self, checkpoint: Checkpoint) -> SafeString | str:
        return row("checkpoints_checkpoint", "ckpt", checkpoint.parent_id)

    @display(description=gettext_lazy("followed by"))
    def children_link(self, checkpoint: Checkpoint) -> SafeString:
        following = (
            Checkpoint.objects.filter(thread=checkpoint.thread_id, parent=checkpoint.pk)
            .order_by("pk")
            .values_list("pk", flat=True)
        )
        return format_html_join(
            " · ", "{}", ((row("checkpoints_checkpoint", "ckpt", key),) for key in following[:20])
        )

    @display(description=gettext_lazy("status"), label=STATES)
    def status_label(self, checkpoint: Checkpoint) -> str:
        return checkpoint.standing

    @display(description=gettext_lazy("nodes"))
    def progress(self, checkpoint: Checkpoint) -> str:
        return gettext("%(done)s of %(total)s") % {
            "done": checkpoint.completed_nodes,
            "total": checkpoint.total_nodes,
        }

    @display(description=gettext_lazy("stored as"))
    def storage(self, checkpoint: Checkpoint) -> str:
        kind = (
            gettext("whole state")
            if checkpoint.is_snapshot
            else gettext("change against the parent, %(depth)s from the nearest whole state")
            % {"depth": checkpoint.depth}
        )
        return f"{kind}, {checkpoint.size} bytes"

    @display(description=gettext_lazy("digest check"))
    def digest_check(self, checkpoint: Checkpoint) -> SafeString | str:
        try:
            store.load(checkpoint)
        except UNREADABLE:
            return format_html(
                '<strong class="text-red-700 dark:text-red-500">{}</strong>',
                gettext("Does not match"),
            )
        return gettext("Matches")

    @display(description=gettext_lazy("metadata"))
    def metadata_json(self, checkpoint: Checkpoint) -> SafeString:
        return as_json(lambda: checkpoint.metadata)


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    shown_ids: ClassVar[dict[str, str]] = {"thr": "thread", "run": "run_id"}
    sealed: ClassVar[dict[str, str]] = {"data_json": "data"}
    search_help_text = gettext_lazy("A thr_ or run_ id")
    heavy = ("data",)
    list_display = ("name", "thread_link", "run_link", "at", "came_along")
    list_select_related = ("thread",)
    list_filter = ("kind",)
    fields = ("kind", "seq", "thread_link", "run_link", "at", "came_along", "data_json")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Look for a run's events among those of its thread: events have no index by run, since
        every step would pay for it.
        """
        events, doubled = super().get_search_results(request, queryset, search_term)
        if (run := key_of(search_term, "run")) is None:
            return events, doubled
        return events.filter(
            thread__in=Checkpoint.objects.filter(run_id=run).values("thread")[:1]
        ), doubled

    @display(description=gettext_lazy("imported"), boolean=True)
    def came_along(self, event: Event) -> bool:
        return came_along(event.thread, event.at)

    @display(description=gettext_lazy("event"))
    def name(self, event: Event) -> str:
        return f"#{event.seq} {event.kind}"

    @display(description=gettext_lazy("thread"))
    def thread_link(self, event: Event) -> SafeString | str:
        return row("checkpoints_thread", "thr", event.thread_id)

    @display(description=gettext_lazy("run"))
    def run_link(self, event: Event) -> SafeString | str:
        return row("runs_run", "run", event.run_id)

    @display(description=gettext_lazy("data"))
    def data_json(self, event: Event) -> SafeString:
        return as_json(lambda: event.data)
