"""Forensics for machines: what changed between two checkpoints, the events of a step, and a
thread's branches.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import (
    OpenApiExample,
    PolymorphicProxySerializer,
    extend_schema,
    extend_schema_field,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param
from rest_framework.views import APIView

from checkpoints import ids, lineage
from checkpoints.events.log import envelope
from checkpoints.forensics import steps
from checkpoints.forensics.diff import (
    Change,
    ChangeKind,
    Comparison,
    NothingBefore,
    ShownValue,
    diff,
)
from checkpoints.lineage import Branch, Tree
from checkpoints.models import Checkpoint, Thread
from hitl.api.query import id_parameter
from hitl.api.threads.fields import CheckpointOut, CheckpointWhole, EventOut, RunOut
from hitl.api.threads.threads import thread_of
from hitl.decisions import review_bypass, services
from hitl.models import Via
from runs.api.paging import Listed, NewestFirst, Paged, listed
from runs.api.requests import body_of, user_of
from runs.api.work_orders import WorkOrderOut
from runs.models import WorkOrder
from runs.security import scopes


class ValueOut(serializers.Serializer[ShownValue]):
    text = serializers.CharField(help_text="The value as JSON; of a large one the beginning.")
    size = serializers.IntegerField(help_text="Characters of its JSON.")
    digest = serializers.CharField(
        help_text="sha256 of its JSON, where `text` is not the whole of it; else empty."
    )


class ChangeOut(serializers.Serializer[Change]):
    kind = serializers.ChoiceField([str(kind) for kind in ChangeKind])
    path = serializers.SerializerMethodField(
        help_text="JSON Pointer into the newer state; of what was removed, into the older one."
    )
    was_at = serializers.SerializerMethodField(
        help_text="Where it was in the older state, if elsewhere."
    )
    old = ValueOut(allow_null=True)
    new = ValueOut(allow_null=True)
    diff = serializers.SerializerMethodField(
        help_text="A unified diff by line, of texts that have lines."
    )
    note = serializers.CharField()

    def get_path(self, change: Change) -> str:
        return _visible(change.path)

    def get_was_at(self, change: Change) -> str:
        return _visible(change.was_at)

    def get_diff(self, change: Change) -> list[str]:
        return [_visible(line) for line in change.lines]


def _visible(text: str) -> str:
    """What UTF-8 cannot hold, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


class FieldOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    old = serializers.CharField()
    new = serializers.CharField()


class DiffOut(serializers.Serializer[Comparison]):
    old = serializers.CharField(source="old.shown_id")
    new = serializers.CharField(source="new.shown_id")
    fields_changed = serializers.SerializerMethodField(
        help_text="What differs beside the state; `commit` is the code's."
    )
    added = serializers.IntegerField(source="state.added")
    removed = serializers.IntegerField(source="state.removed")
    changed = serializers.IntegerField(source="state.changed")
    more = serializers.IntegerField(
        source="state.more", help_text="Changes that are counted but not listed."
    )
    changes = ChangeOut(source="state.changes", many=True)

    @extend_schema_field(FieldOut(many=True))
    def get_fields_changed(self, comparison: Comparison) -> list[dict[str, str]]:
        return [
            {"name": name, "old": then, "new": now} for name, then, now in steps.beside(comparison)
        ]


class BranchOut(serializers.Serializer[Branch]):
    number = serializers.IntegerField(
        help_text="From 1, oldest first, among those that are listed."
    )
    start = serializers.SerializerMethodField(
        help_text="The checkpoint it went on from; null for a thread's first."
    )
    first = serializers.SerializerMethodField()
    tip = serializers.SerializerMethodField(help_text="Its newest checkpoint.")
    status = serializers.CharField(source="tip.status", help_text="The tip's.")
    run_id = serializers.SerializerMethodField(help_text="The run that wrote the tip.")
    checkpoints = serializers.SerializerMethodField(help_text="How many of them are listed here.")
    is_current = serializers.BooleanField(help_text="Whether a run would go on from its tip.")

    def get_start(self, branch: Branch) -> str | None:
        return ids.show(Checkpoint.PREFIX, branch.start) if branch.start else None

    def get_first(self, branch: Branch) -> str:
        return ids.show(Checkpoint.PREFIX, branch.first.id)

    def get_tip(self, branch: Branch) -> str:
        return ids.show(Checkpoint.PREFIX, branch.tip.id)

    def get_run_id(self, branch: Branch) -> str:
        return ids.show("run", branch.tip.run_id)

    def get_checkpoints(self, branch: Branch) -> int:
        return len(branch.nodes)


class TreeOut(serializers.Serializer[Tree]):
    branches = BranchOut(many=True)
    older = serializers.SerializerMethodField(
        help_text="Give it as `before` for what is older; null where that is all."
    )

    def get_older(self, tree: Tree) -> str | None:
        return ids.show(Checkpoint.PREFIX, tree.older) if tree.older else None


EXAMPLE = {
    "old": "ckpt_01kaxg0p2vf6ar1n5y6d1q4t8c",
    "new": "ckpt_01kaxg0q8ye0t9r4p1s3m7w2zh",
    "fields_changed": [{"name": "node id", "old": "planning", "new": "execute"}],
    "added": 1,
    "removed": 0,
    "changed": 1,
    "more": 0,
    "changes": [
        {
            "kind": "changed",
            "path": "/draft",
            "was_at": "",
            "old": {
                "text": "",
                "size": 10,
                "digest": "11949871fc1f636d631f7ff79ec65250f55f93261a217cceb41a18edca7dcfef",
            },
            "new": {
                "text": "",
                "size": 8,
                "digest": "eef55335e91961eead96e23b32e385d0bfea156bdfe0e3be58d4571fe2157d8a",
            },
            "diff": ["@@ -1,2 +1,2 @@", " one", "-two", "+2"],
            "note": "",
        },
        {
            "kind": "added",
            "path": "/rules/1",
            "was_at": "",
            "old": None,
            "new": {"text": '"UP"', "size": 4, "digest": ""},
            "diff": [],
            "note": "",
        },
    ],
}
"""What comparing `{"draft": "one\\ntwo", "rules": ["F"]}` with `{"draft": "one\\n2", "rules": ["F",
"UP"]}` gives; a test does.
"""


def key_of(request: Request, name: str) -> UUID | None:
    """A checkpoint's key of the query."""
    text = request.query_params.get(name)
    return ids.parse("ckpt", text) if text else None


class CheckpointDiff(APIView):
    @extend_schema(
        operation_id="diff_checkpoints",
        responses=DiffOut,
        parameters=[
            id_parameter(
                "against", "ckpt", "The older checkpoint, ckpt_…; its parent where it is left out."
            )
        ],
        summary="What changed between two checkpoints of a thread",
        description=(
            "On one branch or on two. Large values are told by digest, and what is listed is "
            "bounded. 409 `different_threads`, "
            "`no_parent` for a thread's first checkpoint, `checkpoint_damaged`."
        ),
        examples=[OpenApiExample("A text changed, an item came", EXAMPLE, response_only=True)],
    )
    def get(self, request: Request, checkpoint_id: UUID) -> Response:
        new = services.find_checkpoint(checkpoint_id, by=user_of(request))
        older = key_of(request, "against") or new.parent_id
        if older is None:
            raise NothingBefore(
                "This is the first checkpoint of its thread: name another one with `against`."
            )
        return Response(
            DiffOut(diff(services.find_checkpoint(older, by=user_of(request)), new)).data
        )


class CheckpointEvents(Listed):
    @extend_schema(
        operation_id="list_checkpoint_events",
        responses=EventOut(many=True),
        summary="The events of the step behind a checkpoint",
    )
    def get(self, request: Request, checkpoint_id: UUID) -> Response:
        checkpoint = services.find_checkpoint(checkpoint_id, by=user_of(request))
        return listed([envelope(event) for event in steps.events_of(checkpoint)])


class ThreadBranches(APIView):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="list_thread_branches",
        responses=TreeOut,
        parameters=[
            id_parameter("before", "ckpt", "Only what is older than this checkpoint, ckpt_…")
        ],
        summary="A thread's branches",
        description=(
            f"Made out among its newest {lineage.WINDOW} checkpoints. Each follows the one that "
            "it left. "
            "`history?branch=<tip>` lists a branch with all that it came from."
        ),
    )
    def get(self, request: Request, thread_id: UUID) -> Response:
        before = key_of(request, "before")
        return Response(
            TreeOut(lineage.branches(thread_of(thread_id, request), before=before)).data
        )


class ThreadHistory(Paged):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="get_thread_history",
        responses=CheckpointOut(many=True),
        parameters=[
            id_parameter(
                "branch",
                "ckpt",
                "Only this checkpoint, ckpt_…, and those it came from: `limit` of them, no cursor.",
            )
        ],
        summary="A thread's checkpoints, newest first",
    )
    def get(self, request: Request, thread_id: UUID) -> Response:
        thread = thread_of(thread_id, request)
        if tip := request.query_params.get("branch"):
            return Response(
                _branch(
                    thread,
                    ids.parse("ckpt", tip),
                    request,
                    limit=NewestFirst().get_page_size(request) or NewestFirst.page_size,
                )
            )
        return self.page(
            request, Checkpoint.objects.filter(thread=thread).defer("body"), CheckpointOut
        )


def _branch(thread: Thread, tip: UUID, request: Request, *, limit: int) -> dict[str, Any]:
    """A page of one branch; the next one goes on with the parent of its last."""
    checkpoints = lineage.chain(tip, limit=limit)
    if not checkpoints or checkpoints[0].thread_id != thread.pk:
        raise services.NotFound("This thread has no such checkpoint.")
    rest = checkpoints[-1].parent_id
    url = (
        replace_query_param(
            request.build_absolute_uri(), "branch", ids.show(Checkpoint.PREFIX, rest)
        )
        if rest
        else None
    )
    return {"next": url, "previous": None, "results": CheckpointOut(checkpoints, many=True).data}


class CheckpointDetail(APIView):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="get_checkpoint",
        responses=CheckpointWhole,
        summary="Read a checkpoint with its state",
    )
    def get(self, request: Request, checkpoint_id: UUID) -> Response:
        return Response(
            CheckpointWhole(services.find_checkpoint(checkpoint_id, by=user_of(request))).data
        )


class ForkIn(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=2_000, help_text="Why; kept with the new run.")
    state = serializers.DictField(
        default=None,
        allow_null=True,
        help_text="The edited state, whole; null keeps the checkpoint's.",
    )
    step_around = serializers.BooleanField(
        default=False,
        help_text=(
            "Also behind a step that has review rules: needs the right "
            "`runs.step_around_review`, and is recorded."
        ),
    )


class Fork(APIView):
    @extend_schema(
        operation_id="fork_checkpoint",
        request=ForkIn,
        responses={
            201: PolymorphicProxySerializer(
                component_name="Forked",
                serializers=[WorkOrderOut, RunOut],
                resource_type_field_name=None,
            )
        },
        summary="Go on from a checkpoint as a new run",
        description=(
            "Answers with the work order, or with the run on a thread that has none. 409 "
            "`review_stands` for an edited state behind a step "
            "that has review rules; with `step_around` 403 `step_around_not_allowed`."
        ),
    )
    def post(self, request: Request, checkpoint_id: UUID) -> Response:
        given = body_of(request, ForkIn)
        if given.pop("step_around"):
            run = review_bypass.fork(checkpoint_id, by=user_of(request), via=Via.REST, **given)
        else:
            run = services.fork(checkpoint_id, by=user_of(request), **given)
        if run.work_order_id is None:
            return Response(RunOut(run).data, status=201)
        return Response(
            WorkOrderOut(WorkOrder.objects.shown_to(request.user).get(pk=run.work_order_id)).data,
            status=201,
        )
