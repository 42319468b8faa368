"""Decisions over REST: a list, receipts, taking a decision back, and whole ledgers as files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_field,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import ids
from hitl.api.pauses.fields import DecisionOut
from hitl.api.query import asked_by, pages_of, parameters_of
from hitl.decisions import receipts, services, undo
from hitl.decisions.receipts import Receipt
from hitl.find.answers import ANSWERS, answered
from hitl.ledger import export
from hitl.models import Decision, Via
from runs.api.fields import TextOrNull
from runs.api.paging import Paged
from runs.api.requests import user_of
from runs.models import Pause
from runs.security import scopes


class LedgerPosition(serializers.Serializer[Any]):
    holds = serializers.BooleanField(help_text="All of the following.")
    intact = serializers.BooleanField(
        help_text="The row is as it was written, or its erasure vouches for it."
    )
    linked = serializers.BooleanField(
        help_text="Its neighbours in the chain name the same digests."
    )
    shown = serializers.BooleanField(help_text="What the reviewer was shown is as it was kept.")
    anchor = serializers.CharField(
        allow_null=True, help_text="The first daily anchor that covers it."
    )


class ReceiptOut(serializers.Serializer[Receipt]):
    """A decision, what was shown to who took it, and how it stands in its ledger."""

    id = serializers.CharField(source="decision.shown_id", help_text="dec_…")
    action = serializers.CharField(
        source="decision.action", help_text="undo where it takes another decision back."
    )
    feedback = serializers.CharField(source="decision.feedback")
    input = serializers.DictField(source="decision.payload", allow_null=True)
    decided_by = TextOrNull(
        source="decision.decided_by.get_username",
        help_text="Null where the template's rules or somebody outside answered.",
    )
    external = serializers.SerializerMethodField(
        help_text=(
            "The mail address of who answered by the link sent there, without an account; null "
            "else."
        )
    )
    by_name = serializers.CharField(
        source="decision.by_name",
        help_text=(
            "The name of who decided, at that time; empty where nobody did, or on older rows."
        ),
    )
    for_name = serializers.CharField(
        source="decision.for_name", help_text="The name of for whom, at that time."
    )
    early_at = serializers.DateTimeField(
        source="decision.early_at",
        allow_null=True,
        help_text=(
            "When it came, where that was before its question: nobody had been shown anything."
        ),
    )
    data_only = serializers.BooleanField(
        source="decision.data_only",
        help_text=(
            "It came from an address that the rules do not name: it brought data, and approves "
            "nothing."
        ),
    )
    factor = serializers.CharField(
        source="decision.factor",
        help_text="The second factor that was proven; empty where the question wanted none.",
    )
    factor_at = serializers.DateTimeField(source="decision.factor_at", allow_null=True)
    on_behalf_of = TextOrNull(source="decision.on_behalf_of.get_username")
    decided_at = serializers.DateTimeField(source="decision.decided_at")
    via = serializers.CharField(source="decision.via")
    revision = serializers.IntegerField(source="decision.revision")
    content_digest = serializers.CharField(source="decision.content_digest")
    goes_on_at = serializers.DateTimeField(
        source="decision.goes_on_at", allow_null=True, help_text="Until then it may be taken back."
    )
    undoes = serializers.SerializerMethodField(help_text="The decision that it takes back.")
    undone_by = serializers.SerializerMethodField(help_text="The decision that took it back.")
    pause_id = serializers.SerializerMethodField(help_text="null where its thread was erased.")
    erased = serializers.SerializerMethodField(
        help_text="The erasure that took its words; null where there was none."
    )
    ledger = serializers.CharField(source="decision.ledger_id")
    position = serializers.IntegerField(source="decision.position")
    previous = serializers.CharField(source="decision.previous")
    digest = serializers.CharField(source="decision.digest")
    evidence = serializers.CharField(
        source="decision.evidence", help_text="sha256 of the canonical JSON of `shown`."
    )
    shown = serializers.SerializerMethodField(
        help_text="The question as it was shown; null where that was not kept, or erased."
    )
    verification = serializers.SerializerMethodField()

    def get_external(self, receipt: Receipt) -> str | None:
        return receipt.decision.external or None

    def get_undoes(self, receipt: Receipt) -> str | None:
        return receipt.decision.undoes.shown_id if receipt.decision.undoes else None

    def get_undone_by(self, receipt: Receipt) -> str | None:
        undone = getattr(receipt.decision, "undone_by", None)
        return undone.shown_id if undone else None

    def get_pause_id(self, receipt: Receipt) -> str | None:
        return (
            ids.show(Pause.PREFIX, receipt.decision.pause_id) if receipt.decision.pause_id else None
        )

    def get_erased(self, receipt: Receipt) -> str | None:
        return str(receipt.decision.erasure) if receipt.decision.erasure else None

    def get_shown(self, receipt: Receipt) -> dict[str, Any] | None:
        return receipt.document

    @extend_schema_field(LedgerPosition)
    def get_verification(self, receipt: Receipt) -> dict[str, Any]:
        standing = receipt.standing
        checks = {name: getattr(standing, name) for name in ("holds", "intact", "linked", "shown")}
        return {**checks, "anchor": str(standing.anchor) if standing.anchor else None}


class Decisions(Paged):
    """Answers on your threads, and your own where you were only asked."""

    may_read = scopes.EITHER

    @extend_schema(
        operation_id="list_decisions",
        responses=DecisionOut(many=True),
        parameters=parameters_of(ANSWERS),
        summary="List and search answers, newest first",
        description="`pauses` lists the questions that nobody answered in time: they have none.",
    )
    def get(self, request: Request) -> Response:
        asked, asker = asked_by(request, ANSWERS)
        mine = scopes.own(answered(user_of(request)), pause__run__thread__owner=request.user)
        pages = pages_of(ANSWERS, asked)
        page: Any = pages.paginate_queryset(
            ANSWERS.among(mine, asked, asker).only("pk"), request, view=self
        )
        by_id = Decision.objects.select_related(
            "pause", "decided_by", "on_behalf_of", "undoes"
        ).in_bulk([decision.pk for decision in page])
        decisions = [by_id[decision.pk] for decision in page if decision.pk in by_id]
        return pages.get_paginated_response(DecisionOut(decisions, many=True).data)


class DecisionDetail(APIView):
    may_read = scopes.EITHER

    @extend_schema(
        operation_id="get_decision", responses=ReceiptOut, summary="Read a decision's receipt"
    )
    def get(self, request: Request, decision_id: UUID) -> Response:
        return Response(ReceiptOut(receipts.receipt(decision_id, by=user_of(request))).data)


class DecisionUndo(APIView):
    may_act = scopes.ANSWERS

    @extend_schema(
        operation_id="undo_decision",
        request=None,
        responses={201: ReceiptOut},
        summary="Take an answer back before the run goes on with it",
        description=(
            "The question is open again as it was. 409 `undo_too_late`: the run has gone on; "
            "403 `undo_not_yours`."
        ),
    )
    def post(self, request: Request, decision_id: UUID) -> Response:
        undone = undo.undo(decision_id, by=user_of(request), via=Via.REST)
        return Response(
            ReceiptOut(receipts.receipt(undone.pk, by=user_of(request))).data, status=201
        )


class LedgerExport(APIView):
    """Every decision of the ledgers that a person may see, streamed."""

    @extend_schema(
        operation_id="export_ledger",
        parameters=[
            OpenApiParameter(
                "format", str, enum=list(export.FORMATS), description="json where none is named."
            ),
            OpenApiParameter("ledger", str, description="Only this one, e.g. `team:1`."),
        ],
        responses={
            (200, "application/json"): OpenApiTypes.OBJECT,
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR),
            404: OpenApiResponse(),  # described as every refusal is
        },
        summary="Export the ledgers that you may see",
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        wanted = request.query_params.get("format", "json")
        mine = receipts.ledgers_of(user_of(request)).order_by("pk").values_list("pk", flat=True)
        if name := request.query_params.get("ledger"):
            mine = mine.filter(pk=name[:80])
            if not mine:
                raise services.NotFound("There is no such ledger.")
        write, kind = export.FORMATS[wanted]
        parts = write(list(mine))
        streamed = _one_by_one(parts) if isinstance(request._request, ASGIRequest) else parts
        response = StreamingHttpResponse(streamed, content_type=kind)
        response["Content-Disposition"] = f'attachment; filename="ledger.{wanted}"'
        response["Cache-Control"] = "private, no-store"
        return response


async def _one_by_one(parts: Iterator[str]) -> AsyncIterator[str]:
    """Yield each part when it is sent: under ASGI, Django reads a plain iterator to its end before
    it sends anything.
    """
    next_part = sync_to_async(lambda: next(parts, None))
    while (part := await next_part()) is not None:
        yield part
