"""Work orders, runs and questions for operators.

They are registered, with what acts on them, in `hitl.admin.orders` and `hitl.admin.pauses`, which
may decide.
"""

from __future__ import annotations

import zlib
from typing import ClassVar

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from checkpoints import store
from checkpoints.admin.base import (
    ConfirmedAdmin,
    as_json,
    link,
    row,
    text,
    text_column,
)
from checkpoints.admin.columns import STATES, display
from checkpoints.admin.page_context import UNREADABLE
from checkpoints.database.people import NAME
from checkpoints.models import Blob
from runs import phases
from runs.models import Pause, Run, WorkOrder
from runs.workflows.sequence import UnknownName


class WorkOrderRows(ConfirmedAdmin):
    """Registered, with its actions, in `hitl.admin.orders`."""

    shown_ids: ClassVar[dict[str, str]] = {
        "wo": "pk",
        "thr": "thread",
        "run": "runs",
        "pse": "runs__pauses",
        "repo": "repository",
    }
    search_fields = ("title", f"created_by__{NAME}")
    search_help_text = gettext_lazy(
        "A wo_, thr_, run_, pse_ or repo_ id, or words of the title or its maker"
    )
    heavy = ("request", "input", "check_command", "delivery")
    sealed: ClassVar[dict[str, str]] = {"request": "request", "input_json": "input"}
    its_title = text_column("title", lines=False)
    list_display = ("shown", "its_title", "status_label", "template", "created_by", "created_at")
    list_filter = (("latest_run__status", admin.ChoicesFieldListFilter),)
    list_select_related = ("latest_run", "template", "created_by")
    fields = (
        "shown", "its_title", "status_label", "phase_words", "template", "definition_link",
        "thread_link", "latest_run_link", "runs_link",
        "page_link", "request", "input_json", "repository", "repository_url", "pull_request_link",
        "check_command_json", "delivery_json",
        "author", "created_by", "created_at",
    )  # fmt: skip

    @display(description=gettext_lazy("status"), label=STATES)
    def status_label(self, order: WorkOrder) -> str:
        return order.standing

    @display(description=gettext_lazy("phase"))
    def phase_words(self, order: WorkOrder) -> str:
        try:
            return phases.words(order.phase)
        except (*UNREADABLE, UnknownName) as error:
            return gettext("Cannot be told: %(error)s") % {"error": error}

    @display(description=gettext_lazy("definition"))
    def definition_link(self, order: WorkOrder) -> SafeString:
        return link("runs_definition_change", order.definition_id[:12], order.definition_id)

    @display(description=gettext_lazy("thread"))
    def thread_link(self, order: WorkOrder) -> SafeString | str:
        return row("checkpoints_thread", "thr", order.thread_id)

    @display(description=gettext_lazy("latest run"))
    def latest_run_link(self, order: WorkOrder) -> SafeString | str:
        return row("runs_run", "run", order.latest_run_id)

    @display(description=gettext_lazy("its rows"))
    def runs_link(self, order: WorkOrder) -> SafeString:
        query = f"?q={order.shown_id}"
        return format_html(
            "{} · {}",
            link("runs_run_changelist", gettext("Runs"), query=query),
            link("runs_pause_changelist", gettext("Pauses"), query=query),
        )

    @display(description=gettext_lazy("page"))
    def page_link(self, order: WorkOrder) -> SafeString:
        return format_html(
            '<a href="{}" class="text-primary-600 dark:text-primary-500 underline">{}</a>',
            f"/work-orders/{order.shown_id}/",
            gettext("Open"),
        )

    @display(description=gettext_lazy("pull request"))
    def pull_request_link(self, order: WorkOrder) -> SafeString | str:
        url = order.pull_request_url
        shown = (
            '<a href="{}" rel="noreferrer" class="text-primary-600 dark:text-primary-500 '
            'underline">{}</a>'
        )
        return format_html(shown, url, url) if url else "-"

    @display(description=gettext_lazy("what may leave with its work"))
    def delivery_json(self, order: WorkOrder) -> SafeString:
        return as_json(lambda: order.delivery)

    @display(description=gettext_lazy("input"))
    def input_json(self, order: WorkOrder) -> SafeString:
        return as_json(lambda: order.input)

    @display(description=gettext_lazy("check command"))
    def check_command_json(self, order: WorkOrder) -> SafeString:
        return as_json(lambda: order.check_command)


class RunRows(ConfirmedAdmin):
    """Registered, with its actions, in `hitl.admin.orders`."""

    shown_ids: ClassVar[dict[str, str]] = {
        "run": "pk",
        "thr": "thread",
        "wo": "work_order",
        "pse": "pauses",
    }
    search_help_text = gettext_lazy("A run_, thr_, wo_ or pse_ id")
    heavy = ("error",)
    sealed: ClassVar[dict[str, str]] = {"error_text": "error"}
    list_select_related = ("thread",)
    list_display = (
        "shown",
        "order_link",
        "status_label",
        "failure_code",
        "epoch",
        "lost_attempts",
        "lease_until",
        "created_at",
        "ended_at",
        "imported_at",
    )
    list_filter = ("status",)
    fields = (
        "shown", "order_link", "thread_link", "status_label", "failure_code", "error_text",
        "definition_link", "retry_of_link", "epoch",
        "lease_owner", "lease_until", "lost_attempts", "deaths", "due_at", "lists", "created_at",
        "started_at", "ended_at",
        "imported_at",
    )  # fmt: skip

    @display(description=gettext_lazy("status"), label=STATES)
    def status_label(self, run: Run) -> str:
        return run.status

    @display(description=gettext_lazy("work order"))
    def order_link(self, run: Run) -> SafeString | str:
        return row("runs_workorder", "wo", run.work_order_id)

    @display(description=gettext_lazy("thread"))
    def thread_link(self, run: Run) -> SafeString | str:
        return row("checkpoints_thread", "thr", run.thread_id)

    @display(description=gettext_lazy("definition"))
    def definition_link(self, run: Run) -> SafeString:
        return link("runs_definition_change", run.definition_id[:12], run.definition_id)

    @display(description=gettext_lazy("retry of"))
    def retry_of_link(self, run: Run) -> SafeString | str:
        return row("runs_run", "run", run.retry_of_id)

    @display(description=gettext_lazy("error"))
    def error_text(self, run: Run) -> SafeString | str:
        return text(run.error) if run.error else "-"

    @display(description=gettext_lazy("its rows"))
    def lists(self, run: Run) -> SafeString:
        query = f"?q={run.shown_id}"
        return format_html(
            "{} · {} · {}",
            link("checkpoints_checkpoint_changelist", gettext("Checkpoints"), query=query),
            link("checkpoints_event_changelist", gettext("Events"), query=query),
            link("runs_pause_changelist", gettext("Pauses"), query=query),
        )


class PauseRows(ConfirmedAdmin):
    """Registered, with its actions, in `hitl.admin.pauses`."""

    shown_ids: ClassVar[dict[str, str]] = {
        "pse": "pk",
        "run": "run",
        "thr": "run__thread",
        "wo": "run__work_order",
        "ckpt": "checkpoint",
    }
    search_help_text = gettext_lazy("A pse_, run_, thr_, wo_ or ckpt_ id")
    heavy = ("content", "facts", "effects", "answers", "labels", "calls")
    sealed: ClassVar[dict[str, str]] = {
        "question_text": "question", "content_text": "content", "facts_json": "facts",
        "effects_json": "effects", "patch_text": "",
        "calls_json": "calls",
    }  # fmt: skip
    question_text = text_column("question", lines=False)
    list_display = (
        "shown",
        "question_text",
        "order_link",
        "status_label",
        "kind",
        "step",
        "revision",
        "opened_at",
        "deadline_at",
        "closed_at",
    )
    list_filter = ("status", "kind")
    list_select_related = ("run__thread",)
    fields = (
        "shown", "question_text", "status", "kind", "revision", "max_revisions", "order_link",
        "run_link", "checkpoint_link", "step",
        "phase", "content_text", "facts_json", "effects_json", "calls_json", "answers_json",
        "labels_json", "patch_text", "content_digest",
        "decision_link", "opened_at", "deadline_at", "extendable_until", "next_at", "reminded",
        "stage", "closed_at",
    )  # fmt: skip

    @display(description=gettext_lazy("status"), label=STATES)
    def status_label(self, pause: Pause) -> str:
        return pause.status

    @display(description=gettext_lazy("work order"))
    def order_link(self, pause: Pause) -> SafeString | str:
        return row("runs_workorder", "wo", pause.run.work_order_id)

    @display(description=gettext_lazy("run"))
    def run_link(self, pause: Pause) -> SafeString | str:
        return row("runs_run", "run", pause.run_id)

    @display(description=gettext_lazy("checkpoint"))
    def checkpoint_link(self, pause: Pause) -> SafeString | str:
        return row("checkpoints_checkpoint", "ckpt", pause.checkpoint_id)

    @display(description=gettext_lazy("decision"))
    def decision_link(self, pause: Pause) -> SafeString:
        return link("hitl_decision_changelist", gettext("Decision"), query=f"?q={pause.shown_id}")

    @display(description=gettext_lazy("content"))
    def content_text(self, pause: Pause) -> SafeString:
        return text(pause.content)

    @display(description=gettext_lazy("facts"))
    def facts_json(self, pause: Pause) -> SafeString:
        return as_json(lambda: pause.facts)

    @display(description=gettext_lazy("tool calls"))
    def calls_json(self, pause: Pause) -> SafeString:
        return as_json(lambda: pause.calls)

    @display(description=gettext_lazy("effects"))
    def effects_json(self, pause: Pause) -> SafeString:
        return as_json(lambda: pause.effects)

    @display(description=gettext_lazy("answers and where they lead"))
    def answers_json(self, pause: Pause) -> SafeString:
        return as_json(lambda: pause.answers)

    @display(description=gettext_lazy("labels"))
    def labels_json(self, pause: Pause) -> SafeString:
        return as_json(lambda: pause.labels)

    @display(description=gettext_lazy("patch"))
    def patch_text(self, pause: Pause) -> SafeString | str:
        if not pause.patch_digest:
            return "-"
        try:
            return text(store.get_blob(pause.patch_digest).decode("utf-8", "surrogateescape"))
        except (store.CheckpointDamaged, Blob.DoesNotExist, zlib.error) as error:
            return gettext("Damaged: %(error)s") % {"error": error}
