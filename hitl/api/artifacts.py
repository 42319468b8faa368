"""Artifacts over REST: the texts that steps kept."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import ids, store
from checkpoints.models import Blob, Thread
from hitl.api.threads.threads import thread_of
from hitl.rendering import files
from runs.api.fields import TellsQuickly
from runs.api.paging import Paged
from runs.api.requests import user_of
from runs.models import Artifact, Run, WorkOrder
from runs.models.artifacts import ArtifactDropped
from runs.security import scopes


class ArtifactOut(TellsQuickly, serializers.ModelSerializer[Artifact]):
    """A text that a step kept, such as an agent's prompt and output; or a file that somebody handed
    in.
    """

    id = serializers.CharField(source="shown_id", help_text="art_…")
    run_id = serializers.SerializerMethodField(
        help_text="run_…, also of a run that came with an import as history."
    )
    thread_id = serializers.CharField(source="thread.shown_id")
    digest = serializers.CharField(help_text="Of the text; empty where it was dropped.")
    dropped_at = serializers.DateTimeField(
        help_text="When retention dropped the text; else null.", allow_null=True
    )

    class Meta:
        model = Artifact
        fields: ClassVar = [
            "id",
            "run_id",
            "thread_id",
            "step",
            "loop_num",
            "name",
            "media",
            "filename",
            "size",
            "cut",
            "digest",
            "created_at",
            "dropped_at",
        ]

    @extend_schema_field(serializers.CharField())
    def get_run_id(self, artifact: Artifact) -> str:
        return ids.show(Run.PREFIX, artifact.run_key)


class ArtifactWhole(ArtifactOut):
    content = serializers.SerializerMethodField(
        help_text="The text; of a longer one beginning and end. Empty of a file: see its content."
    )

    class Meta(ArtifactOut.Meta):
        fields: ClassVar = [*ArtifactOut.Meta.fields, "content"]

    @extend_schema_field(serializers.CharField())
    def get_content(self, artifact: Artifact) -> str:
        return "" if artifact.media else _bytes_of(artifact).decode("utf-8", "replace")


def _bytes_of(artifact: Artifact) -> bytes:
    try:
        return store.get_blob(artifact.digest)
    except Blob.DoesNotExist as error:
        raise NotFound("The text of this artifact is not there any more.") from error


def _find(artifact_id: UUID, request: Request) -> Artifact:
    """Raises NotFound, and ArtifactDropped where it lost its text."""
    rows = Artifact.objects.filter(
        thread__in=Thread.objects.visible_to(user_of(request))
    ).select_related("thread")
    artifact = rows.filter(pk=artifact_id).first()
    if artifact is None:
        raise NotFound("There is no such artifact.")
    if artifact.dropped_at:
        raise ArtifactDropped(
            f"The text was dropped at {artifact.dropped_at.isoformat(timespec='seconds')}: "
            "it was older than what is kept."
        )
    return artifact


class WorkOrderArtifacts(Paged):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="list_artifacts",
        responses=ArtifactOut(many=True),
        summary="What the steps of an order kept, newest first",
    )
    def get(self, request: Request, order_id: UUID) -> Response:
        order = WorkOrder.objects.visible_to(user_of(request)).filter(pk=order_id).first()
        if order is None:
            raise NotFound("There is no such work order.")
        rows = Artifact.objects.filter(run__work_order=order).select_related("thread")
        return self.page(request, rows, ArtifactOut)


class ThreadArtifacts(Paged):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="list_thread_artifacts",
        responses=ArtifactOut(many=True),
        summary="What the steps of a thread kept, newest first",
        description="Those of child runs are with their own threads.",
    )
    def get(self, request: Request, thread_id: UUID) -> Response:
        thread = thread_of(thread_id, request)
        rows = Artifact.objects.filter(thread=thread).select_related("thread")
        return self.page(request, rows, ArtifactOut)


class ArtifactDetail(APIView):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="get_artifact",
        responses=ArtifactWhole,
        summary="Read what a step kept",
        description=(
            "410 `artifact_dropped` where it was dropped, being older than its template keeps; "
            "`dropped_at` in the list says when."
        ),
    )
    def get(self, request: Request, artifact_id: UUID) -> Response:
        return Response(ArtifactWhole(_find(artifact_id, request)).data)


class ArtifactContent(APIView):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="get_artifact_content",
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
        summary="Read the bytes of a text or a file that a run has",
        description="As an attachment, under the name that it came with. 410 as there.",
    )
    def get(self, request: Request, artifact_id: UUID) -> HttpResponse:
        artifact = _find(artifact_id, request)
        name = artifact.filename or f"{artifact.shown_id}.txt"
        return files.as_download(_bytes_of(artifact), name, artifact.media)
