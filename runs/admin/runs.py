"""Templates and the machine's rows for operators.

What acts on runs and their questions is registered in `hitl.admin.decisions`, which may
decide."""

from __future__ import annotations

import json
import zlib
from typing import Any, ClassVar, cast

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget

from checkpoints import store
from checkpoints.admin.checkpoints import (
    UNREADABLE,
    ConfirmedAdmin,
    IdSearch,
    ReadOnlyAdmin,
    as_json,
    link,
    row,
    text,
    text_column,
)
from checkpoints.database.people import NAME, User
from checkpoints.models import Blob
from runs import definitions, phases
from runs.admin import credentials as credentials  # registers its page
from runs.definitions import rights
from runs.git import repositories
from runs.git.sources import BadSource
from runs.models import Definition, Pause, Repository, Run, StepTemplate, Template, WorkOrder
from runs.models.frequency import PROMISES, WHEN, Frequency
from runs.workflows.code import extras
from runs.workflows.sequence import UnknownName

RUN_COLOURS = {
    "pending": "info",
    "running": "primary",
    "paused": "warning",
    "completed": "success",
    "failed": "danger",
    "cancelled": "danger",
    "expired": "danger",
}
PAUSE_COLOURS = {
    "open": "warning",
    "answered": "success",
    "cancelled": "danger",
    "expired": "danger",
}


class JsonField(forms.JSONField):
    """JSON in lines that a person can read and edit; only such as every database keeps."""

    widget = UnfoldAdminTextareaWidget

    def to_python(self, value: Any) -> Any:
        try:
            found = super().to_python(value)
            kept = b"\\u0000" not in json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):  # NaN, half a character, nested too deeply
            kept = False
        if not kept:
            raise forms.ValidationError(
                "This holds what cannot be kept: NaN, a NUL, half a character, or too many levels."
            )
        return found

    def bound_data(self, data: Any, initial: Any) -> Any:
        return data or ""  # a form that is shown again shows what was typed

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


class TemplateAdminForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    steps = JsonField(help_text=Template._meta.get_field("steps").help_text)
    input_schema = JsonField(
        help_text=Template._meta.get_field("input_schema").help_text, required=False, empty_value={}
    )
    frequency = forms.ChoiceField(
        choices=Frequency.choices, required=False, help_text=WHEN, widget=UnfoldAdminSelectWidget
    )
    retention = JsonField(
        help_text=Template._meta.get_field("retention").help_text, required=False, empty_value={}
    )

    class Meta:
        model = Template
        fields = (
            "title",
            "description",
            "steps",
            "input_schema",
            "needs_repository",
            "frequency",
            "retention",
            "size_budget",
        )

    def clean_frequency(self) -> str:
        """As it was, where nothing is chosen."""
        return str(self.cleaned_data["frequency"] or self.instance.frequency)

    def clean_retention(self) -> dict[str, Any]:
        """An emptied field is a template that says nothing."""
        said: dict[str, Any] = (
            self.cleaned_data["retention"] if self.cleaned_data["retention"] is not None else {}
        )
        return said

    def clean(self) -> dict[str, Any]:
        """Ask the service itself whether it would take the edit, and take that back: the form is
        where its refusal can be read.
        """
        values = super().clean() or {}
        if self.errors:
            return values
        newest = definitions.current(self.instance.slug)
        if newest.pk != self.instance.pk:
            raise forms.ValidationError(
                f"Version {newest.version} was saved meanwhile. Open it and make your change there."
            )
        try:
            with transaction.atomic():
                definitions.edit_template(self.instance.slug, **values)
                transaction.set_rollback(True)
        except definitions.TemplateInvalid as error:
            for field, sentences in error.errors.items():
                name = field.split(".")[0]
                self.add_error(
                    name if name in self.fields else None,
                    [f"{field}: {sentence}" for sentence in sentences],
                )
        return values


@admin.register(Template)
class TemplateAdmin(ReadOnlyAdmin):
    """Saving makes a new version; only the newest can be edited, and none deleted."""

    form = TemplateAdminForm
    search_fields = ("slug", "title")
    heavy = ("steps", "input_schema", "description")
    list_display = ("__str__", "title", "needs_repository", "created_by", "created_at")
    list_select_related = ("created_by",)
    fields = (
        "slug", "version", "title", "description", "steps", "input_schema", "needs_repository",
        "frequency", "promise", "retention",
        "size_budget", "who_may_order", "created_by", "created_at",
    )  # fmt: skip

    def has_change_permission(self, request: HttpRequest, obj: Template | None = None) -> bool:
        if not request.user.has_perm("runs.change_template"):
            return False
        # a form sent too late is answered by the form, with what was typed
        if obj is None or request.method == "POST":
            return True
        return not Template.objects.filter(slug=obj.slug, version__gt=obj.version).exists()

    def get_readonly_fields(self, request: HttpRequest, obj: Template | None = None) -> Any:
        return ("slug", "version", "promise", "who_may_order", "created_by", "created_at")

    @display(description="who may order")
    def who_may_order(self, template: Template) -> SafeString:
        """Settled apart, so that a new version does not lose it."""
        access = rights.access_to(template.slug)
        change = (
            link("runs_templateaccess_change", "Change", access.pk)
            if access
            else link("runs_templateaccess_add", "Restrict")
        )
        return format_html("{} · {}", rights.who_may(access), change)

    @display(description="what then holds")
    def promise(self, template: Template) -> SafeString:
        """Of each frequency, so that who chooses sees all of them."""
        lines = ((Frequency(name).label, words) for name, words in PROMISES.items())
        return format_html_join("", "<p><strong>{}.</strong> {}</p>", lines)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        saved = definitions.edit_template(
            obj.slug, by=cast(User, request.user), **form.cleaned_data
        )
        # what follows, log and redirect, speaks of the new version
        obj.pk, obj.version = saved.pk, saved.version

    def response_change(self, request: HttpRequest, obj: Template) -> HttpResponse:
        self.message_user(
            request,
            f"{obj} is the newest version. Orders made before keep theirs.",
            messages.SUCCESS,
        )
        for words in definitions.warnings_of(obj.steps):
            self.message_user(request, words, messages.WARNING)
        return HttpResponseRedirect(reverse("admin:runs_template_change", args=[obj.pk]))


@admin.register(StepTemplate)
class StepTemplateAdmin(ReadOnlyAdmin):
    search_fields = ("slug", "title", "function")
    heavy = ("config",)
    list_display = ("__str__", "title", "function", "created_at")
    fields = ("slug", "version", "title", "function", "config_json", "created_at")

    @display(description="config")
    def config_json(self, template: StepTemplate) -> SafeString:
        return as_json(lambda: template.config)


@admin.register(Definition)
class DefinitionAdmin(ReadOnlyAdmin):
    search_fields = ("template_slug", "digest")
    heavy = ("content",)
    ordering = ("-created_at", "-pk")
    list_display = ("__str__", "digest", "created_at")
    fields = ("template_slug", "template_version", "digest", "created_at", "content_json")

    @display(description="content")
    def content_json(self, definition: Definition) -> SafeString:
        return as_json(lambda: definition.content)


class RepositoryForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    check_command = JsonField(
        help_text=Repository._meta.get_field("check_command").help_text,
        required=False,
        empty_value=[],
    )

    class Meta:
        model = Repository
        fields = ("url", *repositories.SETTLED, *repositories.GROUPS)

    allowed_templates = JsonField(
        help_text=Repository._meta.get_field("allowed_templates").help_text,
        required=False,
        empty_value=[],
    )

    def clean_allowed_templates(self) -> Any:
        return self.cleaned_data["allowed_templates"] or []

    def clean_url(self) -> str:
        try:
            return repositories.checked_source(self.cleaned_data["url"])
        except BadSource as error:
            raise forms.ValidationError(str(error)) from error

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if not self.errors:
            for field, sentences in repositories.problems(values).items():
                self.add_error(field, sentences)
        return values


@admin.register(Repository)
class RepositoryAdmin(IdSearch):
    form = RepositoryForm
    shown_ids: ClassVar[dict[str, str]] = {"repo": "pk", "wo": "work_orders"}
    search_fields = ("name", "url")
    search_help_text = "A repo_ or wo_ id, or words of the name or URL"
    show_full_result_count = False
    ordering = ("name", "pk")
    list_display = (
        "name",
        "url",
        "push_policy",
        "pull_request_policy",
        "use_template_execution",
        "created_at",
    )
    filter_horizontal = ("use_groups", "delivery_groups")

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        for relation, flag in repositories.GROUPS.items():
            rights.settle(form.instance, relation, flag, form.cleaned_data[relation])
        if words := extras.missing(form.instance.forge):
            self.message_user(request, words, messages.WARNING)

    fieldsets = (
        (
            None,
            {
                "fields": (
                    "name",
                    "url",
                    "default_template",
                    "check_command",
                    "use_template_execution",
                )
            },
        ),
        ("Who may", {"fields": ("use_groups", "delivery_groups", "allowed_templates")}),
        (
            "What leaves with an order",
            {"fields": ("author", "base_branch", "push_policy", "pull_request_policy")},
        ),
        ("Where to", {"fields": ("forge", "forge_url", "forge_project", "credential")}),
    )


class WorkOrderRows(ConfirmedAdmin):
    """Registered, with its actions, in `hitl.admin.decisions`."""

    shown_ids: ClassVar[dict[str, str]] = {
        "wo": "pk",
        "thr": "thread",
        "run": "runs",
        "pse": "runs__pauses",
        "repo": "repository",
    }
    search_fields = ("title", f"created_by__{NAME}")
    search_help_text = "A wo_, thr_, run_, pse_ or repo_ id, or words of the title or its maker"
    heavy = ("request", "input", "check_command", "delivery")
    sealed: ClassVar[dict[str, str]] = {"request": "request", "input_json": "input"}
    its_title = text_column("title", lines=False)
    list_display = ("shown", "its_title", "status_label", "template", "created_by", "created_at")
    list_filter = (("latest_run__status", admin.ChoicesFieldListFilter),)
    list_select_related = ("latest_run", "template", "created_by")
    fields = (
        "shown", "its_title", "status", "phase_words", "template", "definition_link", "thread_link",
        "latest_run_link", "runs_link",
        "page_link", "request", "input_json", "repository", "repository_url", "pull_request_link",
        "check_command_json", "delivery_json",
        "author", "created_by", "created_at",
    )  # fmt: skip

    @display(description="status", label=RUN_COLOURS)
    def status_label(self, order: WorkOrder) -> str:
        return order.status

    @display(description="phase")
    def phase_words(self, order: WorkOrder) -> str:
        try:
            return phases.words(order.phase)
        except (*UNREADABLE, UnknownName) as error:
            return f"Cannot be told: {error}"

    @display(description="definition")
    def definition_link(self, order: WorkOrder) -> SafeString:
        return link("runs_definition_change", order.definition_id[:12], order.definition_id)

    @display(description="thread")
    def thread_link(self, order: WorkOrder) -> SafeString | str:
        return row("checkpoints_thread", "thr", order.thread_id)

    @display(description="latest run")
    def latest_run_link(self, order: WorkOrder) -> SafeString | str:
        return row("runs_run", "run", order.latest_run_id)

    @display(description="its rows")
    def runs_link(self, order: WorkOrder) -> SafeString:
        query = f"?q={order.shown_id}"
        return format_html(
            "{} · {}",
            link("runs_run_changelist", "Runs", query=query),
            link("runs_pause_changelist", "Pauses", query=query),
        )

    @display(description="page")
    def page_link(self, order: WorkOrder) -> SafeString:
        return format_html(
            '<a href="{}" class="text-primary-600 dark:text-primary-500 underline">Open</a>',
            f"/work-orders/{order.shown_id}/",
        )

    @display(description="pull request")
    def pull_request_link(self, order: WorkOrder) -> SafeString | str:
        url = order.pull_request_url
        shown = (
            '<a href="{}" rel="noreferrer" class="text-primary-600 dark:text-primary-500 '
            'underline">{}</a>'
        )
        return format_html(shown, url, url) if url else "-"

    @display(description="what may leave with its work")
    def delivery_json(self, order: WorkOrder) -> SafeString:
        return as_json(lambda: order.delivery)

    @display(description="input")
    def input_json(self, order: WorkOrder) -> SafeString:
        return as_json(lambda: order.input)

    @display(description="check command")
    def check_command_json(self, order: WorkOrder) -> SafeString:
        return as_json(lambda: order.check_command)


class RunRows(ConfirmedAdmin):
    """Registered, with its actions, in `hitl.admin.decisions`."""

    shown_ids: ClassVar[dict[str, str]] = {
        "run": "pk",
        "thr": "thread",
        "wo": "work_order",
        "pse": "pauses",
    }
    search_help_text = "A run_, thr_, wo_ or pse_ id"
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
        "shown", "order_link", "thread_link", "status", "failure_code", "error_text",
        "definition_link", "retry_of_link", "epoch",
        "lease_owner", "lease_until", "lost_attempts", "due_at", "lists", "created_at",
        "started_at", "ended_at",
        "imported_at",
    )  # fmt: skip

    @display(description="status", label=RUN_COLOURS)
    def status_label(self, run: Run) -> str:
        return run.status

    @display(description="work order")
    def order_link(self, run: Run) -> SafeString | str:
        return row("runs_workorder", "wo", run.work_order_id)

    @display(description="thread")
    def thread_link(self, run: Run) -> SafeString | str:
        return row("checkpoints_thread", "thr", run.thread_id)

    @display(description="definition")
    def definition_link(self, run: Run) -> SafeString:
        return link("runs_definition_change", run.definition_id[:12], run.definition_id)

    @display(description="retry of")
    def retry_of_link(self, run: Run) -> SafeString | str:
        return row("runs_run", "run", run.retry_of_id)

    @display(description="error")
    def error_text(self, run: Run) -> SafeString | str:
        return text(run.error) if run.error else "-"

    @display(description="its rows")
    def lists(self, run: Run) -> SafeString:
        query = f"?q={run.shown_id}"
        return format_html(
            "{} · {} · {}",
            link("checkpoints_checkpoint_changelist", "Checkpoints", query=query),
            link("checkpoints_event_changelist", "Events", query=query),
            link("runs_pause_changelist", "Pauses", query=query),
        )


class PauseRows(ConfirmedAdmin):
    """Registered, with its actions, in `hitl.admin.decisions`."""

    shown_ids: ClassVar[dict[str, str]] = {
        "pse": "pk",
        "run": "run",
        "thr": "run__thread",
        "wo": "run__work_order",
        "ckpt": "checkpoint",
    }
    search_help_text = "A pse_, run_, thr_, wo_ or ckpt_ id"
    heavy = ("content", "facts", "effects", "ways", "labels", "calls")
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
        "phase", "content_text", "facts_json", "effects_json", "calls_json", "ways_json",
        "labels_json", "patch_text", "content_digest",
        "decision_link", "opened_at", "deadline_at", "extendable_until", "next_at", "reminded",
        "stage", "closed_at",
    )  # fmt: skip

    @display(description="status", label=PAUSE_COLOURS)
    def status_label(self, pause: Pause) -> str:
        return pause.status

    @display(description="work order")
    def order_link(self, pause: Pause) -> SafeString | str:
        return row("runs_workorder", "wo", pause.run.work_order_id)

    @display(description="run")
    def run_link(self, pause: Pause) -> SafeString | str:
        return row("runs_run", "run", pause.run_id)

    @display(description="checkpoint")
    def checkpoint_link(self, pause: Pause) -> SafeString | str:
        return row("checkpoints_checkpoint", "ckpt", pause.checkpoint_id)

    @display(description="decision")
    def decision_link(self, pause: Pause) -> SafeString:
        return link("hitl_decision_changelist", "Decision", query=f"?q={pause.shown_id}")

    @display(description="content")
    def content_text(self, pause: Pause) -> SafeString:
        return text(pause.content)

    @display(description="facts")
    def facts_json(self, pause: Pause) -> SafeString:
        return as_json(lambda: pause.facts)

    @display(description="tool calls")
    def calls_json(self, pause: Pause) -> SafeString:
        return as_json(lambda: pause.calls)

    @display(description="effects")
    def effects_json(self, pause: Pause) -> SafeString:
        return as_json(lambda: pause.effects)

    @display(description="answers and where they lead")
    def ways_json(self, pause: Pause) -> SafeString:
        return as_json(lambda: pause.ways)

    @display(description="labels")
    def labels_json(self, pause: Pause) -> SafeString:
        return as_json(lambda: pause.labels)

    @display(description="patch")
    def patch_text(self, pause: Pause) -> SafeString | str:
        if not pause.patch_digest:
            return "-"
        try:
            return text(store.get_blob(pause.patch_digest).decode("utf-8", "surrogateescape"))
        except (store.CheckpointDamaged, Blob.DoesNotExist, zlib.error) as error:
            return f"Damaged: {error}"
