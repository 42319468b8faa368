"""What is done with templates as wholes: versions, differences, copies, switches, dry runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from runs.api.fields import OptionalText
from runs.api.paging import NewestVersionFirst, Paged
from runs.api.requests import body_of, user_of
from runs.api.templates import (
    MayEditStepTemplates,
    MayEditTemplates,
    StepTemplateOut,
    TemplateIn,
    TemplateOut,
    context_of,
)
from runs.definitions import rights, shipped
from runs.definitions.editing import comparing, versions
from runs.definitions.templates import Kind
from runs.models import StepTemplate, Template
from runs.services import dry_runs

CODE = "code"
"""What `new` names to compare with the declaration that waits."""
MOST = 2**31 - 1
"""What the column holds."""
NUMBER = "^[1-9][0-9]{0,8}$"
OLD = OpenApiParameter(
    "old",
    {"type": "string", "pattern": NUMBER},
    description="The version to compare from; the one before `new` where it is left out.",
)
NEW = OpenApiParameter(
    "new",
    {"type": "string", "pattern": f"{NUMBER}|^{CODE}$"},
    description="The version to compare with, the current one where it is left out; `code` is the "
    "newer declaration that `newer_in_code` tells of.",
)
VERSION = OpenApiParameter(
    "version", {"type": "string", "pattern": NUMBER}, location=OpenApiParameter.PATH
)


class ShownValueOut(serializers.Serializer[Any]):
    text = serializers.CharField(help_text="JSON, or its beginning.")
    size = serializers.IntegerField(help_text="Characters of the whole.")
    digest = serializers.CharField(help_text="Of the whole; empty where `text` is all of it.")


class FieldChangeOut(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="`added`, `removed` or `changed`.")
    path = serializers.CharField(help_text="JSON Pointer.")
    old = ShownValueOut(allow_null=True)
    new = ShownValueOut(allow_null=True)
    was_at = serializers.CharField()
    lines = serializers.ListField(
        child=serializers.CharField(), help_text="A unified diff, of texts of several lines."
    )
    note = serializers.CharField()


class StepDifferenceOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    kind = serializers.CharField(help_text="`added`, `removed` or `changed`.")
    was_at = serializers.IntegerField(allow_null=True, help_text="Its place before, from 1.")
    is_at = serializers.IntegerField(allow_null=True, help_text="Its place now.")
    moved = serializers.BooleanField()
    changes = FieldChangeOut(many=True)


class VersionDifferencesOut(serializers.Serializer[Any]):
    old = serializers.IntegerField(help_text="Version.")
    new = serializers.IntegerField(allow_null=True, help_text="Version; null for the code's.")
    total = serializers.IntegerField()
    fields_changed = FieldChangeOut(many=True, help_text="Of everything but the steps.")
    steps = StepDifferenceOut(many=True, help_text="Those that differ.")


class VersionRow(serializers.Serializer[Any]):
    version = serializers.IntegerField()
    title = serializers.CharField()
    from_code = serializers.SerializerMethodField(
        help_text="Whether it is a declaration of the code; else a person saved it."
    )
    created_at = serializers.DateTimeField()

    def get_from_code(self, version: Template | StepTemplate) -> bool:
        return bool(version.declared)


class TakeOverIn(serializers.Serializer[Any]):
    version = serializers.IntegerField(
        min_value=1,
        max_value=MOST,
        help_text="The version that you saw; another one is current: 409.",
    )


class CopyIn(serializers.Serializer[Any]):
    slug = serializers.SlugField(max_length=80, help_text="Of the copy.")
    title = OptionalText(max_length=120, help_text="That of the original where it is left out.")
    version = serializers.IntegerField(
        min_value=1,
        max_value=MOST,
        required=False,
        help_text="Of the original; the current one is usual.",
    )


class EnabledIn(serializers.Serializer[Any]):
    enabled = serializers.BooleanField(help_text="Off: nobody begins new work by it.")


class DryRunIn(TemplateIn):
    """The fields of a template that are not saved yet may come along; others are as saved."""

    default = None
    input = serializers.DictField(required=False, help_text="What an order would bring.")
    request = OptionalText(max_length=20_000, help_text="What an order would ask for, in words.")


class FindingOut(serializers.Serializer[Any]):
    level = serializers.ChoiceField(["error", "note"])
    code = serializers.CharField(help_text="Stable.")
    field = serializers.CharField()
    text = serializers.CharField()


class PlannedStageOut(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    who = serializers.CharField()


class PlannedPauseOut(serializers.Serializer[Any]):
    phase = serializers.CharField(help_text="What the work waits for, in words.")
    who = serializers.CharField()
    people = serializers.IntegerField(
        allow_null=True, help_text="How many may answer; null where the rules name nobody."
    )
    quorum = serializers.IntegerField()
    answers = serializers.DictField(
        child=serializers.CharField(allow_blank=True),
        help_text="Answer → the step that it leads to; empty where the run ends.",
    )
    reminders = serializers.ListField(child=serializers.DateTimeField())
    stages = PlannedStageOut(many=True)
    deadline = serializers.DateTimeField(
        allow_null=True, help_text="As if it were asked now; null for none."
    )
    outcome = serializers.CharField(help_text="What then happens; empty for no deadline.")
    asks_for_data = serializers.BooleanField()


class PlannedStepOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()
    function = serializers.CharField()
    skipped_when = serializers.DictField(help_text="JSON Schema of the state; {} where it runs.")
    may_ask = serializers.BooleanField(help_text="Whether its function may ask by itself.")
    delivers = serializers.BooleanField()
    pause = PlannedPauseOut(allow_null=True)
    sub_steps = serializers.ListField(
        child=serializers.DictField(), help_text="As steps; they run as child runs."
    )


class DryRunOut(serializers.Serializer[Any]):
    ok = serializers.BooleanField(help_text="Whether no finding is an error.")
    findings = FindingOut(many=True)
    steps = PlannedStepOut(many=True)


def _compared(request: Request, model: type[Kind], slug: str) -> Response:
    query = request.query_params
    wanted, before = query.get("new", ""), query.get("old", "")
    newest = versions.one(model, slug)
    if wanted == CODE:
        declared = shipped.waiting(newest)
        if declared is None:
            raise shipped.NothingNewer(f"The code declares no newer version of {slug}.")
        fields, number = shipped.fields_declared(newest, declared), None
        old = versions.one(model, slug, int(before)) if before else newest
    else:
        new = versions.one(model, slug, int(wanted)) if wanted else newest
        fields, number = comparing.fields_of(new), new.version
        old = versions.one(model, slug, int(before) if before else max(1, new.version - 1))
    found = comparing.compare(comparing.fields_of(old), fields)
    answer = {
        "old": old.version,
        "new": number,
        "total": found.total,
        "fields_changed": found.fields.changes,
        "steps": found.steps,
    }
    return Response(VersionDifferencesOut(answer).data)


class TemplateVersions(Paged):
    pagination_class = NewestVersionFirst

    @extend_schema(
        operation_id="list_template_versions",
        responses=VersionRow(many=True),
        summary="List a template's versions, newest first",
    )
    def get(self, request: Request, slug: str) -> Response:
        return self.page(request, versions.of(Template, slug), VersionRow)


class TemplateVersion(APIView):
    @extend_schema(
        operation_id="get_template_version",
        parameters=[VERSION],
        responses=TemplateOut,
        summary="Read one version of a template",
    )
    def get(self, request: Request, slug: str, version: int) -> Response:
        row = versions.one(Template, slug, version)
        return Response(TemplateOut(row, context=context_of(request)).data)


class TemplateDifferences(APIView):
    @extend_schema(
        operation_id="compare_template_versions",
        parameters=[OLD, NEW],
        responses=VersionDifferencesOut,
        summary="Compare two versions of a template",
    )
    def get(self, request: Request, slug: str) -> Response:
        return _compared(request, Template, slug)


class TemplateCopies(APIView):
    permission_classes = [*APIView.permission_classes, MayEditTemplates]

    @extend_schema(
        operation_id="copy_template",
        request=CopyIn,
        responses={201: TemplateOut},
        summary="Copy a template under another name",
        description="The copy names the same step templates, and is for the same groups. 409 "
        "`template_exists`: the name is taken.",
        examples=[
            OpenApiExample(
                "Under another name",
                {"slug": "my-tidy", "title": "Tidy, my way"},
                request_only=True,
            )
        ],
    )
    def post(self, request: Request, slug: str) -> Response:
        values = body_of(request, CopyIn)
        made = versions.copy(slug, values.pop("slug"), by=user_of(request), **values)
        return Response(TemplateOut(made, context=context_of(request)).data, status=201)


class MaySwitchTemplates(BasePermission):
    message = "You may not say who orders by templates."

    def has_permission(self, request: Request, view: APIView) -> bool:
        return request.method in SAFE_METHODS or request.user.has_perm(rights.SWITCH)


class TemplateEnabled(APIView):
    permission_classes = [*APIView.permission_classes, MaySwitchTemplates]

    @extend_schema(
        operation_id="switch_template",
        request=EnabledIn,
        responses=TemplateOut,
        summary="Switch a template off, or on again",
        description="Off: orders by it, of people, schedules and inbound starts, are refused with "
        "409 `template_off`. Work that was ordered before goes on. It takes the right "
        f"`{rights.SWITCH}`.",
    )
    def put(self, request: Request, slug: str) -> Response:
        template = versions.switch(slug, on=body_of(request, EnabledIn)["enabled"])
        return Response(TemplateOut(template, context=context_of(request)).data)


class TemplateDryRun(APIView):
    """Anybody may try what they may read. Nothing is written, and no step is called."""

    @extend_schema(
        operation_id="dry_run_template",
        request=DryRunIn,
        responses=DryRunOut,
        summary="Say what an order by a template would meet",
        description="Each step with whom it would ask, and by when, as if it were asked now. The "
        "template need not be saved yet. No step is called, and nothing is kept.",
        examples=[
            OpenApiExample("As it is saved", {"input": {}, "request": "Try it"}, request_only=True)
        ],
    )
    def post(self, request: Request, slug: str) -> Response:
        values = body_of(request, DryRunIn)
        values.pop("version", None)
        asked = {name: values.pop(name) for name in ("input", "request") if name in values}
        if not values:
            versions.one(Template, slug)
        tried = dry_runs.dry_run(slug, by=user_of(request), fields=values, **asked)
        return Response(DryRunOut({**asdict(tried), "ok": tried.ok}).data)


class TemplateTakeOver(APIView):
    permission_classes = [*APIView.permission_classes, MayEditTemplates]

    @extend_schema(
        operation_id="take_over_template",
        request=TakeOverIn,
        responses=TemplateOut,
        summary="Make the code's newer declaration the current version",
        description="409 `nothing_newer`: the code declares none.",
    )
    def put(self, request: Request, slug: str) -> Response:
        after = body_of(request, TakeOverIn)["version"]
        saved = shipped.take_over(versions.one(Template, slug), after=after)
        return Response(TemplateOut(saved, context=context_of(request)).data)


class StepTemplateVersions(Paged):
    pagination_class = NewestVersionFirst

    @extend_schema(
        operation_id="list_step_template_versions",
        responses=VersionRow(many=True),
        summary="List a step template's versions, newest first",
    )
    def get(self, request: Request, slug: str) -> Response:
        return self.page(request, versions.of(StepTemplate, slug), VersionRow)


class StepTemplateVersion(APIView):
    @extend_schema(
        operation_id="get_step_template_version",
        parameters=[VERSION],
        responses=StepTemplateOut,
        summary="Read one version of a step template",
    )
    def get(self, request: Request, slug: str, version: int) -> Response:
        return Response(StepTemplateOut(versions.one(StepTemplate, slug, version)).data)


class StepTemplateDifferences(APIView):
    @extend_schema(
        operation_id="compare_step_template_versions",
        parameters=[OLD, NEW],
        responses=VersionDifferencesOut,
        summary="Compare two versions of a step template",
    )
    def get(self, request: Request, slug: str) -> Response:
        return _compared(request, StepTemplate, slug)


class StepTemplateTakeOver(APIView):
    permission_classes = [*APIView.permission_classes, MayEditStepTemplates]

    @extend_schema(
        operation_id="take_over_step_template",
        request=TakeOverIn,
        responses=StepTemplateOut,
        summary="Make the code's newer declaration the current version",
        description="409 `nothing_newer`: the code declares none.",
    )
    def put(self, request: Request, slug: str) -> Response:
        after = body_of(request, TakeOverIn)["version"]
        saved = shipped.take_over(versions.one(StepTemplate, slug), after=after)
        return Response(StepTemplateOut(saved).data)
