"""Batches over REST: preview an action on many orders, begin it, and read what became of each."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import ids
from hitl.decisions.services import NotFound
from hitl.models import Batch, BatchAction, Via
from hitl.operations import batches
from hitl.operations.batches import BatchChoice, BatchInvalid, BatchLine
from runs.api.fields import OptionalText
from runs.api.paging import Paged
from runs.api.requests import body_of, user_of
from runs.models import WorkOrder

CHOSEN = (
    f"`orders` names them, or `query` chooses the newest {batches.MOST} that fit, as the list of "
    "work orders is asked: `status=failed&since=7d`."
)


class MayActOnMany(BasePermission):
    message = "Batches are for operators: they need the right “Can change run”, and “Can view run”."

    def has_permission(self, request: Request, view: APIView) -> bool:
        reads = request.method in SAFE_METHODS and not isinstance(view, BatchPreview)
        return request.user.has_perm("runs.view_run" if reads else "runs.change_run")


class BatchChoiceIn(serializers.Serializer[Any]):
    action = serializers.ChoiceField(BatchAction.choices)
    orders = serializers.ListField(
        child=serializers.RegexField(ids.pattern(WorkOrder.PREFIX)),
        default=list,
        max_length=batches.MOST,
        help_text="wo_…, in the order in which they are done.",
    )
    query = OptionalText(max_length=2_000, help_text="How they are chosen, instead of `orders`.")


class BatchIn(BatchChoiceIn):
    reason = OptionalText(max_length=2_000, help_text="Why; it is kept. A retry alone needs none.")
    step = OptionalText(
        max_length=100,
        help_text="Of a fork: each goes on with this step, from its newest checkpoint before it.",
    )


class ChosenOrderOut(serializers.Serializer[Any]):
    id = serializers.CharField(source="shown_id", help_text="wo_…")
    title = serializers.CharField()


class LeftOutOrderOut(ChosenOrderOut):
    why = serializers.CharField(help_text="Why this cannot be done with it.")


class BatchPreviewOut(serializers.Serializer[Any]):
    orders = ChosenOrderOut(many=True)
    left_out = LeftOutOrderOut(many=True)
    more = serializers.BooleanField(help_text=f"Whether more than {batches.MOST} fit.")
    steps = serializers.ListField(
        child=serializers.CharField(), help_text="Those that all of them have, for a fork."
    )


class BatchLineOut(serializers.Serializer[BatchLine]):
    order_id = serializers.CharField(source="shown", help_text="wo_…")
    run_id = serializers.CharField(source="run", help_text='The run that goes on; "" where none.')
    code = serializers.CharField(help_text='Of the refusal; "" where it was done.')
    words = serializers.CharField(help_text='Of the refusal; "" where it was done.')
    reached = serializers.BooleanField(help_text="Whether the batch came to it.")


class BatchOut(serializers.ModelSerializer[Batch]):
    id = serializers.CharField(source="shown_id", help_text="bat_…")
    by = serializers.CharField(source="by_name", help_text="Who did it, by their name then.")
    ended_at = serializers.DateTimeField(
        allow_null=True, help_text="null: it is at work, or was cut short."
    )
    lines = serializers.SerializerMethodField(help_text="What became of each order.")

    class Meta:
        model = Batch
        fields = ("id", "action", "by", "reason", "query", "step", "made_at", "ended_at", "lines")

    @extend_schema_field(BatchLineOut(many=True))
    def get_lines(self, batch: Batch) -> list[dict[str, Any]]:
        lines: Any = batches.lines_of(batch, by=None)
        return list(BatchLineOut(lines, many=True).data)


class Batches(Paged):
    permission_classes = [*APIView.permission_classes, MayActOnMany]

    @extend_schema(
        operation_id="list_batches",
        responses=BatchOut(many=True),
        summary="List what was done to many orders at once, newest first",
    )
    def get(self, request: Request) -> Response:
        return self.page(request, Batch.objects.all(), BatchOut)

    @extend_schema(
        operation_id="start_batch",
        request=BatchIn,
        responses={201: BatchOut},
        summary="Retry, cancel or fork many orders, each in a transaction of its own",
        description=f"{CHOSEN} One that is refused stops no other: its line says why. Under an "
        "Idempotency-Key it is begun once; where its server died meanwhile, the same key gives it "
        "as it stands: orders that it has not reached are as they were. 422 `batch_invalid`: "
        "nothing was done. 403 without the right.",
        examples=[
            OpenApiExample(
                "After an outage",
                {"action": "retry", "query": "status=failed&since=1d"},
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        given = body_of(request, BatchIn)
        orders, query = _choose(request, given)
        choice = BatchChoice(
            action=given["action"],
            orders=orders[: batches.MOST],
            query=query,
            reason=given["reason"],
            step=given["step"],
            via=Via.REST,
        )
        batch = batches.begin(ids.new(), choice, by=user_of(request))
        return Response(BatchOut(batch).data, status=201)


class BatchPreview(APIView):
    permission_classes = [*APIView.permission_classes, MayActOnMany]

    @extend_schema(
        operation_id="preview_batch",
        request=BatchChoiceIn,
        responses=BatchPreviewOut,
        summary="Say what a batch would do, and do nothing",
        description=CHOSEN,
    )
    def post(self, request: Request) -> Response:
        given = body_of(request, BatchChoiceIn)
        orders, _ = _choose(request, given)
        preview = batches.preview(given["action"], orders, by=user_of(request))
        left_out = [
            {"shown_id": order.shown_id, "title": order.title, "why": why}
            for order, why in preview.left_out
        ]
        shown = {
            "orders": preview.orders,
            "left_out": left_out,
            "more": preview.more,
            "steps": [name for name, _ in preview.steps],
        }
        return Response(BatchPreviewOut(shown).data)


class BatchDetail(APIView):
    permission_classes = [*APIView.permission_classes, MayActOnMany]

    @extend_schema(operation_id="get_batch", responses=BatchOut, summary="Read a batch")
    def get(self, request: Request, batch_id: UUID) -> Response:
        batch = Batch.objects.filter(pk=batch_id).first()
        if batch is None:
            raise NotFound("There is no such batch.")
        return Response(BatchOut(batch).data)


def _choose(request: Request, given: dict[str, Any]) -> tuple[list[UUID], str]:
    """Return the chosen orders, and the query in its usual form.

    Raises BatchInvalid, NotUnderstood.
    """
    if bool(given["orders"]) == bool(given["query"]):
        raise BatchInvalid("Choose by `orders` or by `query`: one of the two. Nothing was done.")
    if given["orders"]:
        return [ids.parse(WorkOrder.PREFIX, shown) for shown in given["orders"]], ""
    try:
        asked = parse_qs(given["query"].removeprefix("?"), max_num_fields=50)
    except ValueError as error:
        raise BatchInvalid(f"The query cannot be read: {error}. Nothing was done.") from error
    return batches.chosen_by(asked, by=user_of(request))
