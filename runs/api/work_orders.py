"""What machines write and read of a work order; its addresses are in `hitl.api.orders`."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.contrib.auth.models import Group
from django.db.models import UUIDField, Value
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from checkpoints import ids
from checkpoints.database.people import User
from checkpoints.store.prepared_queries import Prepared
from runs.api.fields import ChildCountsOut, OptionalText, ProgressOut, TellsQuickly, TextOrNull
from runs.api.requests import CannotBe
from runs.models import WorkOrder
from runs.models.priority import HIGHEST, LOWEST, NORMAL, WORDS
from runs.services import outputs


class Priority(serializers.IntegerField):
    """A priority in its range; who may raise it says the service."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"min_value": LOWEST, "max_value": HIGHEST, **kwargs})


class WorkOrderIn(serializers.Serializer[Any]):
    template = serializers.SlugField(
        default="",
        allow_blank=True,
        help_text="Slug of the template; its current version is frozen with the order. Left out, "
        "the "
        "repository's own; "
        "422 template_required where it has none.",
    )
    title = OptionalText(max_length=200)
    user_request = OptionalText(max_length=20_000, help_text="What is asked for, in words.")
    input = serializers.DictField(
        default=dict, help_text="Checked against the template's input schema."
    )
    repository_url = OptionalText(
        max_length=500, help_text="A local path in an allowed folder, or a URL of an allowed host."
    )
    team = TextOrNull(
        max_length=150, help_text="Name of one of your groups; its members see and answer too."
    )
    priority = Priority(default=NORMAL, help_text=WORDS)

    interrupt_before = serializers.ListField(
        child=serializers.CharField(max_length=500),
        default=list,
        max_length=50,
        help_text="Steps before which this order asks; `step/sub-step` inside child runs.",
    )
    interrupt_after = serializers.ListField(
        child=serializers.CharField(max_length=500),
        default=list,
        max_length=50,
        help_text="Steps after which this order asks; `step/sub-step` inside child runs.",
    )

    def validate_team(self, name: str | None) -> Group | None:
        user: User = self.context["request"].user
        team = user.groups.filter(name=name).first() if name is not None else None
        # one answer for a team of others and for none, so that nobody learns which there are
        if name is not None and team is None:
            raise serializers.ValidationError(
                "You are in no team of this name.", code=CannotBe.code
            )
        return team


class WorkOrderOut(TellsQuickly, serializers.ModelSerializer[WorkOrder]):
    """Of an order from `WorkOrder.objects.shown_to`."""

    id = serializers.CharField(source="shown_id", help_text="wo_…")
    agent_work_order_id = serializers.CharField(source="shown_id", help_text="The same as id.")
    template = serializers.CharField(source="definition.template_slug")
    template_version = serializers.IntegerField(source="definition.template_version")
    definition_digest = serializers.CharField(
        source="definition_id", help_text="sha256 of the frozen template."
    )
    status = serializers.ChoiceField(["pending", "running", "paused", "completed", "failed"])
    current_phase = serializers.CharField(
        source="phase", help_text="planning, awaiting_plan_approval, executing, …, completed"
    )
    user_request = serializers.CharField(source="request")
    input = serializers.DictField()
    error_message = serializers.SerializerMethodField()
    failure_code = serializers.SerializerMethodField()
    sleeping_until = serializers.DateTimeField(
        allow_null=True, help_text="When the timer ends that its run waits for; else null."
    )
    children = ChildCountsOut(
        source="latest_run.gather_counts",
        allow_null=True,
        default=None,
        help_text="How the child runs of its run's last gather stand; null where it had none.",
    )
    progress = ProgressOut(
        source="latest_run.progress_now",
        allow_null=True,
        default=None,
        help_text="How far its step says it is; null where it says nothing.",
    )
    git_commit_count = serializers.SerializerMethodField()
    github_pull_request_url = serializers.SerializerMethodField()
    usage = serializers.SerializerMethodField(
        help_text="Tokens and dollars that agents told of so far; steps that failed are not in it."
    )
    checkpoint_data = serializers.SerializerMethodField(
        help_text=(
            "Where a resume goes on, and the work's `outputs`; of one order also "
            "`step_outputs`: what each step showed last."
        )
    )
    last_checkpoint = serializers.SerializerMethodField()
    thread_id = serializers.CharField(source="thread.shown_id")
    run_id = serializers.SerializerMethodField()
    created_by = serializers.CharField(source="created_by.get_username")
    again_of = serializers.SerializerMethodField(
        help_text="The earlier work order that this one asks for again; null where none."
    )
    waits_for = serializers.CharField(
        allow_null=True,
        default=None,
        help_text="What it is told while it waits for a place under a limit; else null.",
    )
    asked_again_as = serializers.SerializerMethodField(
        help_text=(
            "The later work order that asks for this one again; null where none, or none that "
            "you may see."
        )
    )

    class Meta:
        model = WorkOrder
        fields: ClassVar = [
            "id", "agent_work_order_id", "title", "template", "template_version",
            "definition_digest", "status", "current_phase",
            "user_request", "input", "repository_url", "branch", "error_message", "failure_code",
            "sleeping_until", "children", "progress", "git_commit_count",
            "github_pull_request_url", "usage", "checkpoint_data", "last_checkpoint", "thread_id",
            "run_id", "created_by", "created_at",
            "again_of", "asked_again_as", "waits_for", "priority",
        ]  # fmt: skip

    def get_again_of(self, order: WorkOrder) -> str | None:
        return ids.show(WorkOrder.PREFIX, order.again_of_id) if order.again_of_id else None

    def get_asked_again_as(self, order: Any) -> str | None:
        return ids.show(WorkOrder.PREFIX, order.asked_again_as) if order.asked_again_as else None

    def get_error_message(self, order: WorkOrder) -> str | None:
        return (order.latest_run.error or None) if order.latest_run else None

    def get_failure_code(self, order: WorkOrder) -> str | None:
        return (order.latest_run.failure_code or None) if order.latest_run else None

    def get_git_commit_count(self, order: WorkOrder) -> int:
        return int(order.outputs.get("git_commit_count", 0))

    def get_github_pull_request_url(self, order: WorkOrder) -> str | None:
        return order.pull_request_url or None

    @extend_schema_field(
        {
            "type": "object",
            "properties": {
                "input_tokens": {"type": "integer"},
                "output_tokens": {"type": "integer"},
                "cost": {"type": "number"},
            },
        }
    )
    def get_usage(self, order: WorkOrder) -> dict[str, float]:
        return {
            name: order.outputs.get(name, 0) for name in ("input_tokens", "output_tokens", "cost")
        }

    def get_checkpoint_data(self, order: WorkOrder) -> dict[str, Any]:
        head = order.thread.head
        if head is None:
            return {}
        git, is_one_of_a_list = head.metadata.get("git", {}), self.parent is not None
        return {
            "checkpoint_id": head.shown_id, "status": head.status, "node_id": head.node_id,
            "next_step": head.next_step,
            "completed_nodes": head.completed_nodes, "total_nodes": head.total_nodes,
            "commit": git.get("commit"),
            "outputs": order.outputs,
            **({} if is_one_of_a_list else {"step_outputs": outputs.shown_by_steps(order)}),
        }  # fmt: skip

    def get_last_checkpoint(self, order: WorkOrder) -> str | None:
        head = order.thread.head
        return head.metadata.get("last_pause") if head else None

    def get_run_id(self, order: WorkOrder) -> str | None:
        return order.latest_run.shown_id if order.latest_run else None


_just_made = Prepared(
    lambda key: (
        WorkOrder.objects.shown()
        .annotate(asked_again_as=Value(None, output_field=UUIDField()))
        .filter(pk=key)
    ),
    uuid.UUID,
)


def just_made(order: WorkOrder) -> WorkOrder:
    """As `shown_to` whoever has made it: nobody has asked for it again yet."""
    [shown] = _just_made.get(order.pk)
    return shown
