"""Work orders and templates for machines: each view reads, calls one service, answers."""

from __future__ import annotations

from typing import Any, ClassVar, cast
from uuid import UUID

from django.contrib.auth.models import Group
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import ids
from checkpoints.database.people import User
from runs import definitions, services
from runs.api.fields import OptionalText, TextOrNull
from runs.api.paging import NewestVersionFirst, Paged
from runs.definitions import readiness, rights
from runs.git import repositories
from runs.models import (
    ForgeKind,
    PullRequestPolicy,
    PushPolicy,
    Repository,
    StepTemplate,
    Template,
    WorkOrder,
)
from runs.models.frequency import HOW_LONG, WHEN, Frequency
from runs.security import scopes
from runs.services import outputs
from runs.workflows.code import extras


def body_of(request: Request, serializer: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    """Give the values of a request's body; raises ValidationError where they are not right."""
    data = serializer(data=request.data, context={"request": request})
    data.is_valid(raise_exception=True)
    return dict(data.validated_data)


def user_of(request: Request) -> User:
    """Who asks; behind IsAuthenticated."""
    return cast(User, request.user)


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
                "You are in no team of this name.", code="not_a_member"
            )
        return team


class WorkOrderOut(serializers.ModelSerializer[WorkOrder]):
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
            "sleeping_until", "git_commit_count",
            "github_pull_request_url", "usage", "checkpoint_data", "last_checkpoint", "thread_id",
            "run_id", "created_by", "created_at",
            "again_of", "asked_again_as",
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


class WorkOrders(Paged):
    """Work orders that you may see."""

    may_read = scopes.ASKS
    may_act = scopes.ASKS
    body_limit = "ORDER_BYTES"

    @extend_schema(
        operation_id="list_work_orders",
        responses=WorkOrderOut(many=True),
        summary="List work orders, newest first",
    )
    def get(self, request: Request) -> Response:
        mine = scopes.own(WorkOrder.objects.visible_to(request.user), thread__owner=request.user)
        return self.page(request, mine.shown_to(request.user), WorkOrderOut)

    @extend_schema(
        operation_id="create_work_order",
        request=WorkOrderIn,
        responses={201: WorkOrderOut},
        summary="Make a work order and start it",
        examples=[
            OpenApiExample(
                "Tidy",
                {
                    "template": "repo-tidy",
                    "repository_url": "https://github.com/example/project",
                    "input": {"rules": "F401"},
                },
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        values = body_of(request, WorkOrderIn)
        order = services.submit(
            values.pop("template"),
            by=user_of(request),
            request=values.pop("user_request"),
            **values,
        )
        order = WorkOrder.objects.shown_to(request.user).get(pk=order.pk)
        return Response(WorkOrderOut(order).data, status=201)


class TemplateIn(serializers.Serializer[Any]):
    title = serializers.CharField(max_length=120, required=False)
    description = serializers.CharField(required=False, allow_blank=True)
    steps = serializers.ListField(child=serializers.DictField(), required=False)
    input_schema = serializers.DictField(required=False)
    reducers = serializers.DictField(
        child=serializers.CharField(), required=False, help_text="State key → how updates join it."
    )
    needs_repository = serializers.BooleanField(
        required=False, help_text="false: orders of this template work on no code."
    )
    frequency = serializers.ChoiceField(Frequency.choices, required=False, help_text=WHEN)
    retention = serializers.DictField(required=False, help_text=HOW_LONG)
    size_budget = serializers.IntegerField(
        required=False, allow_null=True, help_text="Bytes of checkpoints that one run may write."
    )


class Runnable(serializers.ModelSerializer[Template]):
    """A template, and whether it can run here; `context` holds the server as `readiness.as_seen_by`
    gives it.
    """

    can_run = serializers.SerializerMethodField(
        help_text="Whether this server has what its steps need."
    )
    lacks = serializers.SerializerMethodField(
        help_text="What is missing, in words; empty where it can run."
    )

    def get_can_run(self, template: Template) -> bool:
        return not self.get_lacks(template)

    def get_lacks(self, template: Template) -> str:
        refusal = self.context["server"].why_not(template)
        return refusal.lacks if refusal is not None else ""


class TemplateOut(Runnable):
    """`context` holds the person who reads as `by` too."""

    may_order = serializers.SerializerMethodField(
        help_text="Whether you may make work orders by it."
    )
    who_may_order = serializers.SerializerMethodField(help_text="In words.")
    warnings = serializers.SerializerMethodField(
        help_text="What its steps need and this server lacks, with the line that installs it."
    )
    frequency_promise = serializers.CharField(
        help_text="What holds of a run's steps with this frequency."
    )

    class Meta:
        model = Template
        fields: ClassVar = [
            "slug",
            "version",
            "title",
            "description",
            "steps",
            "input_schema",
            "reducers",
            "needs_repository",
            "frequency",
            "frequency_promise",
            "retention",
            "size_budget",
            "may_order",
            "who_may_order",
            "can_run",
            "lacks",
            "warnings",
            "created_at",
        ]

    def get_warnings(self, template: Template) -> list[str]:
        return definitions.warnings_of(template.steps)

    def get_may_order(self, template: Template) -> bool:
        return rights.why_not(template.slug, self.context["by"]) is None

    def get_who_may_order(self, template: Template) -> str:
        return rights.who_may(rights.access_to(template.slug))


class StepTemplateIn(serializers.Serializer[Any]):
    title = serializers.CharField(max_length=120)
    function = OptionalText(
        max_length=120,
        help_text="A registered step function; may be left out where there are sub-steps.",
    )
    config = serializers.DictField(
        default=dict, help_text="With sub-steps: parallel, on_failure (fail_fast or collect), into."
    )
    sub_steps = serializers.ListField(
        child=serializers.DictField(),
        default=list,
        help_text="As a template's steps; they run as child runs.",
    )


class StepTemplateOut(serializers.ModelSerializer[StepTemplate]):
    warnings = serializers.SerializerMethodField(
        help_text="What it needs and this server lacks, with the line that installs it."
    )

    class Meta:
        model = StepTemplate
        fields: ClassVar = [
            "slug",
            "version",
            "title",
            "function",
            "config",
            "sub_steps",
            "warnings",
            "created_at",
        ]

    def get_warnings(self, kind: StepTemplate) -> list[str]:
        return definitions.warnings_of_kind(kind)


class RepositoryOut(serializers.ModelSerializer[Repository]):
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
        return [words for words in [extras.missing(repository.forge)] if words]


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


class TemplateExecutionIn(serializers.Serializer[Any]):
    use_template_execution = serializers.BooleanField(
        help_text="false: no work order may be made on this repository."
    )


class MayChangeRepositories(BasePermission):
    """Repositories belong to operators."""

    message = "You may not change repositories."

    def has_permission(self, request: Request, view: APIView) -> bool:
        return request.user.has_perm("runs.change_repository")


class Repositories(Paged):
    permission_classes = [*APIView.permission_classes, MayChangeRepositories]

    @extend_schema(
        operation_id="list_repositories",
        responses=RepositoryOut(many=True),
        summary="List repositories, newest first",
    )
    def get(self, request: Request) -> Response:
        return self.page(request, Repository.objects.all(), RepositoryOut)


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


class MayEditTemplates(BasePermission):
    """Anybody reads templates; who may add them may edit them."""

    message = "You may not edit templates."

    def has_permission(self, request: Request, view: APIView) -> bool:
        return request.method in SAFE_METHODS or request.user.has_perm("runs.add_template")


def context_of(request: Request) -> dict[str, Any]:
    """What a Runnable is shown with."""
    by = user_of(request)
    return {"by": by, "server": readiness.as_seen_by(by)}


class TemplateRow(Runnable):
    """Of the list: what may be ordered, and why what may not."""

    may_order = serializers.SerializerMethodField(
        help_text="Whether you may make work orders by it."
    )
    refusal = serializers.SerializerMethodField(help_text="Why you may not; empty where you may.")

    class Meta:
        model = Template
        fields: ClassVar = [
            "slug",
            "version",
            "title",
            "description",
            "needs_repository",
            "may_order",
            "refusal",
            "can_run",
            "lacks",
            "created_at",
        ]

    def get_may_order(self, template: Template) -> bool:
        return template.slug not in self.context["refusals"]

    def get_refusal(self, template: Template) -> str:
        refusal = self.context["refusals"].get(template.slug)
        return str(refusal) if refusal else ""


class WorkflowTemplates(Paged):
    """The current versions of all templates."""

    pagination_class = NewestVersionFirst
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="list_templates",
        responses=TemplateRow(many=True),
        summary="List templates, newest first",
    )
    def get(self, request: Request) -> Response:
        refusals = rights.refusals(user_of(request))
        return self.page(
            request,
            Template.objects.current(),
            TemplateRow,
            **context_of(request),
            refusals=refusals,
        )


class WorkflowTemplate(APIView):
    """A template's current version. PUT saves the next one; orders made before keep theirs."""

    permission_classes = [*APIView.permission_classes, MayEditTemplates]

    @extend_schema(operation_id="get_template", responses=TemplateOut, summary="Read a template")
    def get(self, request: Request, slug: str) -> Response:
        return Response(TemplateOut(definitions.current(slug), context=context_of(request)).data)

    @extend_schema(
        operation_id="edit_template",
        request=TemplateIn,
        responses=TemplateOut,
        summary="Save a template as its next version",
    )
    def put(self, request: Request, slug: str) -> Response:
        data = TemplateIn(data=request.data)
        data.is_valid(raise_exception=True)
        # what was read may be sent back
        definitions.check_keys(request.data, {*data.fields, *TemplateOut.Meta.fields})
        template = definitions.edit_template(slug, by=user_of(request), **data.validated_data)
        return Response(TemplateOut(template, context=context_of(request)).data)


class MayEditStepTemplates(BasePermission):
    message = "You may not edit step templates."

    def has_permission(self, request: Request, view: APIView) -> bool:
        return request.method in SAFE_METHODS or request.user.has_perm("runs.add_steptemplate")


class WorkflowStepTemplate(APIView):
    """A step template's current version. PUT saves the next one; orders made before keep theirs."""

    permission_classes = [*APIView.permission_classes, MayEditStepTemplates]

    @extend_schema(
        operation_id="get_step_template", responses=StepTemplateOut, summary="Read a step template"
    )
    def get(self, request: Request, slug: str) -> Response:
        return Response(StepTemplateOut(definitions.current_step_template(slug)).data)

    @extend_schema(
        operation_id="edit_step_template",
        request=StepTemplateIn,
        responses=StepTemplateOut,
        summary="Save a step template as its next version",
    )
    def put(self, request: Request, slug: str) -> Response:
        data = StepTemplateIn(data=request.data)
        data.is_valid(raise_exception=True)
        definitions.check_keys(request.data, {*data.fields, *StepTemplateOut.Meta.fields})
        return Response(
            StepTemplateOut(definitions.edit_step_template(slug, **data.validated_data)).data
        )
