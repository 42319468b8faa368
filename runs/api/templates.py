"""Templates and step templates for machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from runs import definitions
from runs.api.fields import OptionalText, TellsQuickly
from runs.api.paging import NewestVersionFirst, Paged
from runs.api.requests import body_of, user_of
from runs.definitions import readiness, rights, shipped
from runs.definitions.editing import catalog
from runs.models import (
    StepTemplate,
    Template,
    TemplateAccess,
)
from runs.models.frequency import HOW_LONG, WHEN, Frequency
from runs.security import scopes


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
    newer_in_code = serializers.SerializerMethodField(
        help_text=(
            "File and line of a declaration that has changed since a person saved this version; "
            "else empty. `take-over` makes it current."
        )
    )
    enabled = serializers.SerializerMethodField(
        help_text="Whether work may be ordered by it at all; off, it is 409 `template_off`."
    )
    default: Any = serializers.SerializerMethodField(
        method_name="get_is_default", help_text="Whether orders that name no template go by it."
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
            "state_schema",
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
            "newer_in_code",
            "enabled",
            "default",
            "created_at",
        ]

    def get_enabled(self, template: Template) -> bool:
        access = rights.access_to(template.slug)
        return access is None or access.enabled

    def get_is_default(self, template: Template) -> bool:
        return template.slug == rights.default_template()

    def get_newer_in_code(self, template: Template) -> str:
        return shipped.outdated([template]).get(template.slug, "")

    def get_warnings(self, template: Template) -> list[str]:
        return definitions.warnings_of(template.steps)

    def get_may_order(self, template: Template) -> bool:
        return rights.why_not(template.slug, self.context["by"]) is None

    def get_who_may_order(self, template: Template) -> str:
        return rights.who_may(rights.access_to(template.slug))


class TemplateIn(serializers.Serializer[Any]):
    passed_over = TemplateOut.Meta.fields
    """What was read may be sent back."""

    version = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=2**31 - 1,
        help_text="The version that you read, 0 for none; another one is current: 409. Left out, "
        "what is saved is the next version whatever was there.",
    )
    title = serializers.CharField(max_length=120, required=False)
    description = serializers.CharField(required=False, allow_blank=True)
    steps = serializers.ListField(child=serializers.DictField(), required=False)
    input_schema = serializers.DictField(required=False)
    state_schema = serializers.DictField(
        required=False,
        help_text="JSON Schema of the state: what steps write is checked against it.",
    )
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
    default: Any = serializers.BooleanField(
        required=False,
        help_text="true: orders that name no template go by it, where their repository has no "
        "default of its own. The template that was the default before is it no longer.",
    )


class StepTemplateOut(TellsQuickly, serializers.ModelSerializer[StepTemplate]):
    newer_in_code = serializers.SerializerMethodField(help_text="As of a template.")
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
            "newer_in_code",
            "created_at",
        ]

    def get_newer_in_code(self, kind: StepTemplate) -> str:
        return shipped.outdated([kind]).get(kind.slug, "")

    def get_warnings(self, kind: StepTemplate) -> list[str]:
        return definitions.warnings_of_kind(kind)


class StepTemplateIn(serializers.Serializer[Any]):
    passed_over = StepTemplateOut.Meta.fields

    version = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=2**31 - 1,
        help_text="As of a template: the version that you read.",
    )
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


def _filtered(query: Mapping[str, str]) -> QuerySet[Template]:
    rows = Template.objects.current().matching(query.get("q", ""))
    if enabled := query.get("enabled"):
        off = TemplateAccess.objects.filter(enabled=False).values("slug")
        rows = rows.filter(slug__in=off) if enabled == "false" else rows.exclude(slug__in=off)
    if slug := query.get("step"):
        users = [template.slug for template in catalog.users_of(slug)]
        rows = rows.filter(slug__in=users)
    return rows


class WorkflowTemplates(Paged):
    """The current versions of all templates."""

    pagination_class = NewestVersionFirst
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="list_templates",
        parameters=[
            OpenApiParameter("q", {"type": "string"}, description="Part of the slug or title."),
            OpenApiParameter(
                "enabled", {"type": "boolean"}, description="Only those switched on, or off."
            ),
            OpenApiParameter(
                "step", {"type": "string"}, description="Slug of a step template that they name."
            ),
        ],
        responses=TemplateRow(many=True),
        summary="List templates, newest first",
    )
    def get(self, request: Request) -> Response:
        refusals = rights.refusals(user_of(request))
        return self.page(
            request,
            _filtered(request.query_params),
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
        values = body_of(request, TemplateIn)
        after = values.pop("version", None)
        template = definitions.edit_template(slug, by=user_of(request), after=after, **values)
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
        values = body_of(request, StepTemplateIn)
        after = values.pop("version", None)
        saved = definitions.edit_step_template(slug, after=after, **values)
        return Response(StepTemplateOut(saved).data)
