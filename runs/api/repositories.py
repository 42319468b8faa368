"""Repositories' settings for machines."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from runs import services
from runs.api.fields import TellsQuickly
from runs.api.paging import Paged
from runs.api.requests import body_of
from runs.git import repositories
from runs.models import (
    ForgeKind,
    PullRequestPolicy,
    PushPolicy,
    Repository,
)
from runs.workflows.code import extras


class RepositoryOut(TellsQuickly, serializers.ModelSerializer[Repository]):
    id = serializers.CharField(source="shown_id", help_text="repo_…")
    allowed_templates = serializers.ListField(
        child=serializers.CharField(), help_text="Slugs; empty: all templates."
    )
    use_groups: Any = serializers.SlugRelatedField(
        slug_field="name",
        many=True,
        read_only=True,
        help_text="Whose members may order on it; empty: everybody.",
    )
    delivery_groups: Any = serializers.SlugRelatedField(
        slug_field="name",
        many=True,
        read_only=True,
        help_text="Whose members' work may be pushed; empty: whoever may use it.",
    )

    warnings = serializers.SerializerMethodField(
        help_text="What its forge needs and this server lacks, with the line that installs it."
    )

    class Meta:
        model = Repository
        fields: ClassVar = [
            "id",
            "url",
            *repositories.SETTLED,
            *repositories.GROUPS,
            "warnings",
            "created_at",
        ]

    def get_warnings(self, repository: Repository) -> list[str]:
        return [warning for warning in [extras.missing(repository.forge)] if warning]


class RepositoryIn(serializers.Serializer[Any]):
    """What is left out stays as it is."""

    name = serializers.CharField(max_length=120, required=False)
    default_template = serializers.CharField(
        max_length=80, required=False, allow_blank=True, help_text="Of orders that name none."
    )
    check_command = serializers.ListField(
        child=serializers.CharField(max_length=1000),
        required=False,
        max_length=100,
        help_text="An argument list; never a shell string.",
    )
    author = serializers.CharField(
        max_length=200, required=False, allow_blank=True, help_text="Name <mail> of commits."
    )
    use_template_execution = serializers.BooleanField(
        required=False, help_text="Whether new work orders may be made on it."
    )
    base_branch = serializers.CharField(
        max_length=200, required=False, allow_blank=True, help_text="Empty: the default branch."
    )
    push_policy = serializers.ChoiceField(PushPolicy.choices, required=False)
    pull_request_policy = serializers.ChoiceField(PullRequestPolicy.choices, required=False)
    forge = serializers.ChoiceField(ForgeKind.choices, required=False, allow_blank=True)
    forge_url = serializers.CharField(
        max_length=500,
        required=False,
        allow_blank=True,
        help_text="Empty: the forge's own service.",
    )
    forge_project = serializers.CharField(
        max_length=300,
        required=False,
        allow_blank=True,
        help_text="owner/name; empty: as in the URL.",
    )
    credential = serializers.CharField(
        max_length=80,
        required=False,
        allow_blank=True,
        help_text="A credential's name, never its value.",
    )
    allowed_templates = serializers.ListField(
        child=serializers.CharField(max_length=80),
        required=False,
        max_length=100,
        help_text="Slugs; empty: all templates.",
    )
    use_groups = serializers.ListField(
        child=serializers.CharField(max_length=150),
        required=False,
        max_length=100,
        help_text="Names of the groups whose members may order on it; empty: everybody.",
    )
    delivery_groups = serializers.ListField(
        child=serializers.CharField(max_length=150),
        required=False,
        max_length=100,
        help_text=(
            "Names of the groups whose members' work may be pushed to it; empty: whoever may "
            "use it."
        ),
    )


class NewRepositoryIn(RepositoryIn):
    """What is left out is as usual."""

    url = serializers.CharField(
        max_length=500, help_text="A local path inside the allowed folders, or a remote URL."
    )


class TemplateExecutionIn(serializers.Serializer[Any]):
    use_template_execution = serializers.BooleanField(
        help_text="false: no work order may be made on this repository."
    )


class MayChangeRepositories(BasePermission):
    """Repositories belong to operators."""

    message = "You may not change repositories."

    def has_permission(self, request: Request, view: APIView) -> bool:
        return request.user.has_perm("runs.change_repository")


class MayAddRepositories(MayChangeRepositories):
    message = "You may not change repositories, or not add one."

    def has_permission(self, request: Request, view: APIView) -> bool:
        if request.method == "POST":
            return request.user.has_perm("runs.add_repository")
        return super().has_permission(request, view)


class Repositories(Paged):
    """The repositories that something is settled about; orders name others, too."""

    permission_classes = [*APIView.permission_classes, MayAddRepositories]

    @extend_schema(
        operation_id="list_repositories",
        responses=RepositoryOut(many=True),
        summary="List repositories, newest first",
    )
    def get(self, request: Request) -> Response:
        return self.page(request, Repository.objects.all(), RepositoryOut)

    @extend_schema(
        operation_id="create_repository",
        request=NewRepositoryIn,
        responses={201: RepositoryOut},
        summary="Settle something about a repository for the first time",
    )
    def post(self, request: Request) -> Response:
        made = repositories.register(**body_of(request, NewRepositoryIn))
        return Response(RepositoryOut(made).data, status=201)


class RepositoryDetail(APIView):
    """What is settled of a repository.

    PUT changes what it names. Orders keep theirs, but nothing leaves that is forbidden now.
    """

    permission_classes = [*APIView.permission_classes, MayChangeRepositories]

    @extend_schema(
        operation_id="get_repository",
        responses=RepositoryOut,
        summary="Read a repository's settings",
    )
    def get(self, request: Request, repository_id: UUID) -> Response:
        return Response(RepositoryOut(repositories.find(repository_id)).data)

    @extend_schema(
        operation_id="configure_repository",
        request=RepositoryIn,
        responses=RepositoryOut,
        summary="Change a repository's settings",
    )
    def put(self, request: Request, repository_id: UUID) -> Response:
        return Response(
            RepositoryOut(
                repositories.configure(repository_id, **body_of(request, RepositoryIn))
            ).data
        )


class TemplateExecution(APIView):
    """Whether work orders may run on a repository."""

    permission_classes = [*APIView.permission_classes, MayChangeRepositories]

    @extend_schema(
        operation_id="set_template_execution",
        request=TemplateExecutionIn,
        responses=RepositoryOut,
        summary="Allow or stop work orders on a repository",
    )
    def put(self, request: Request, repository_id: UUID) -> Response:
        values = body_of(request, TemplateExecutionIn)
        repository = services.allow_orders(repository_id, allowed=values["use_template_execution"])
        return Response(RepositoryOut(repository).data)
