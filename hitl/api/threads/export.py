"""Threads as documents, for machines: take one out, bring one in."""

from __future__ import annotations

from typing import IO, Any, cast
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints.export import thread_document
from checkpoints.state import codec
from hitl.api.threads.fields import ThreadIn, ThreadOut
from hitl.api.threads.threads import thread_of
from hitl.http import incoming
from hitl.threads import export as whole
from runs import limits
from runs.api.requests import user_of, values_of


class ThreadExport(APIView):
    @extend_schema(
        operation_id="export_thread",
        responses={200: OpenApiTypes.OBJECT},
        summary="A thread as one document",
        description=(
            "Checkpoints, events, runs, questions, decisions and blobs, digest-checked and in "
            "plain; what redaction took is not in it. "
            "The shape is in docs/reference/thread-export.md."
        ),
    )
    def get(self, request: Request, thread_id: UUID) -> HttpResponse:
        text = codec.encode_in_order(whole.export_for(user_of(request), thread_id))
        response = HttpResponse(text, content_type="application/json")
        response["Content-Disposition"] = (
            f'attachment; filename="{thread_of(thread_id, request).shown_id}.json"'
        )
        return response


class DocumentParser(BaseParser):
    """Reads no more than a document may have, bytes and values: 20 MB of brackets would become 450
    MB.
    """

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Any = None
    ) -> Any:
        limit: int = settings.WAYSTATION_IMPORT_BYTES
        raw: bytes = stream.read(limit + 1)
        try:
            incoming.count_parts(raw, parts=limits.IMPORT_PARTS)
        except incoming.UnreadableBody as error:
            raise thread_document.DocumentTooLarge(limit, str(error)) from error
        return thread_document.read(raw, limit=limit)


class MayImport(BasePermission):
    """Asked before the document is read."""

    message = (
        "Importing needs a right of its own (“Can import a thread from a document”), so nothing "
        "was imported."
    )
    code = "import_not_allowed"

    def has_permission(self, request: Request, view: Any) -> bool:
        return request.user.has_perm(whole.RIGHT)


class ThreadImport(APIView):
    body_limit = "IMPORT_BYTES"
    parser_classes = (DocumentParser,)
    permission_classes = (*cast(Any, APIView.permission_classes), MayImport)

    @extend_schema(
        operation_id="import_thread",
        request={"application/json": OpenApiTypes.OBJECT},
        responses={201: ThreadOut},
        parameters=[
            OpenApiParameter(
                "team",
                str,
                description="Name of one of your groups; its members see the thread too.",
            )
        ],
        summary="A thread from a document",
        description=(
            "Yours under new ids; the old ones are kept in its checkpoints' metadata. Needs the "
            "right `checkpoints.import_thread` (403 "
            "`import_not_allowed`). Its history is marked as imported. No approval, answer or "
            "recorded result in it counts here: where its "
            "template's current version is the one it was made with, a run goes on from it at or "
            "before the first step that asks. "
            "422 with a code: `document_invalid`, `unknown_version`, `digest_mismatch`, "
            "`duplicate_id`, `parent_missing`, `parent_cycle`, "
            "`head_invalid`, `blob_mismatch`, `blob_missing`, `secret_in_document`, "
            "`document_too_deep`, `state_not_json`; 413 "
            "`document_too_large`. Then nothing was written."
        ),
    )
    def post(self, request: Request) -> Response:
        team = request.query_params.get("team") or None
        about = values_of({"team": team}, ThreadIn, {"request": request})
        if not request.data:  # DRF asks no parser about an empty body
            raise thread_document.ImportRefused("document_invalid", "There is no document.")
        loaded = whole.load(
            cast(thread_document.Document, request.data),
            owner=user_of(request),
            team=about["team"],
        )
        return Response(ThreadOut(thread_of(loaded.thread.pk, request)).data, status=201)
