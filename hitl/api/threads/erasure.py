"""Erasing over REST: a thread, or the thread of a work order, for who has the right to it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import ids
from checkpoints.models import Thread
from checkpoints.retention.rules import Tally
from hitl.decisions.services import NotFound
from hitl.models import Erasure
from hitl.threads import erasure
from hitl.threads.erasure import RIGHT, NotConfirmed
from runs.api.requests import body_of, user_of
from runs.models import WorkOrder


class MayErase(BasePermission):
    message = "Erasing needs a right of its own (“Can erase a thread with all that belongs to it”)."

    def has_permission(self, request: Request, view: APIView) -> bool:
        return request.user.has_perm(RIGHT)


class ErasureIn(serializers.Serializer[Any]):
    confirm = serializers.CharField(
        max_length=40, help_text="The id in the address once more, so that nothing goes by mistake."
    )
    reason = serializers.CharField(
        max_length=erasure.LONGEST,
        help_text="Why. It is kept with the record, so name nobody whose data is to go.",
    )


class ErasureOut(serializers.ModelSerializer[Erasure]):
    id = serializers.CharField(source="shown_id", help_text="era_…")
    thread_id = serializers.SerializerMethodField(
        help_text="Of a thread that is not there any more."
    )
    counts = serializers.DictField(
        child=serializers.IntegerField(), help_text="Kind → rows that went."
    )

    class Meta:
        model = Erasure
        fields = ("id", "thread_id", "erased_by", "reason", "erased_at", "counts")

    def get_thread_id(self, done: Erasure) -> str:
        return ids.show(Thread.PREFIX, done.thread_id)


class KindOut(serializers.Serializer[Any]):
    rows = serializers.IntegerField()
    bytes = serializers.IntegerField()


class ProspectOut(serializers.Serializer[Any]):
    thread_id = serializers.CharField(help_text="thr_…")
    kinds = serializers.DictField(child=KindOut(), help_text="Kind → what of it would go.")


WORDS = (
    "With its child runs, checkpoints, log, questions, work order and workspace. The ledger "
    "keeps that somebody decided, not what they "
    "said, and that it was erased: by whom, when and why. 403 without the right "
    "`checkpoints.erase_thread`; 422 `not_confirmed` where "
    "`confirm` is not the id in the address; 409 `cannot_erase` while a run is alive, or where "
    "it belongs to a child run."
)
ASKED = {"confirm": "thr_01kaxg0p2vf6ar1n5y6d1q4t8c", "reason": "Asked for by letter of 3 May"}
EXAMPLE = OpenApiExample("On request", ASKED, request_only=True)


class ThreadErasure(APIView):
    """As in the admin, who has the right erases any thread; all others learn nothing of whether
    there is one.
    """

    permission_classes = [*APIView.permission_classes, MayErase]

    @extend_schema(
        operation_id="look_at_thread_erasure",
        responses=ProspectOut,
        summary="What erasing a thread would take away",
    )
    def get(self, request: Request, thread_id: UUID) -> Response:
        return Response(_prospect(thread_id))

    @extend_schema(
        operation_id="erase_thread",
        request=ErasureIn,
        responses={201: ErasureOut},
        summary="Erase a thread for good",
        description=WORDS,
        examples=[EXAMPLE],
    )
    def post(self, request: Request, thread_id: UUID) -> Response:
        return _erased(request, thread_id, confirm=ids.show(Thread.PREFIX, thread_id))


class WorkOrderErasure(APIView):
    permission_classes = [*APIView.permission_classes, MayErase]

    @extend_schema(
        operation_id="look_at_work_order_erasure",
        responses=ProspectOut,
        summary="What erasing a work order would take away",
    )
    def get(self, request: Request, order_id: UUID) -> Response:
        return Response(_prospect(_thread_of(order_id)))

    @extend_schema(
        operation_id="erase_work_order",
        request=ErasureIn,
        responses={201: ErasureOut},
        summary="Erase a work order for good",
        description=WORDS,
    )
    def post(self, request: Request, order_id: UUID) -> Response:
        return _erased(request, _thread_of(order_id), confirm=ids.show(WorkOrder.PREFIX, order_id))


def _thread_of(order_id: UUID) -> UUID:
    thread_id: UUID | None = (
        WorkOrder.objects.filter(pk=order_id).values_list("thread_id", flat=True).first()
    )
    if thread_id is None:
        raise NotFound("There is no such work order.")
    return thread_id


def _prospect(thread_id: UUID) -> dict[str, Any]:
    tally: Tally = erasure.look(thread_id)
    kinds = {kind: {"rows": rows, "bytes": tally.bytes[kind]} for kind, rows in tally.rows.items()}
    return {"thread_id": ids.show(Thread.PREFIX, thread_id), "kinds": kinds}


def _erased(request: Request, thread_id: UUID, *, confirm: str) -> Response:
    values = body_of(request, ErasureIn)
    if values["confirm"] != confirm:
        raise NotConfirmed(f"Nothing was erased: to confirm, send {confirm} as confirm.")
    done = erasure.erase(thread_id, by=user_of(request).get_username(), reason=values["reason"])
    return Response(ErasureOut(done).data, status=201)
