"""Step functions and step templates for whoever puts workflows together."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from runs.api.paging import NewestVersionFirst, Paged
from runs.api.templates import StepTemplateOut
from runs.definitions.editing import catalog
from runs.models import StepTemplate


class StepFunctionOut(serializers.Serializer[catalog.StepFunction]):
    name = serializers.CharField(help_text="What a step template's `function` names.")
    version = serializers.IntegerField(help_text="The highest: work ordered now takes it.")
    summary = serializers.CharField()
    asks = serializers.BooleanField(
        help_text="Whether it may ask somebody whatever its template says."
    )
    delivers = serializers.BooleanField(help_text="Whether it pushes.")
    loops = serializers.BooleanField()
    needs_request = serializers.BooleanField(
        help_text="Whether an order must say in words what is wanted."
    )
    uses_models = serializers.BooleanField()
    config_schema = serializers.DictField(
        allow_null=True, help_text="JSON Schema of its configuration; null where it does not say."
    )
    reads_schema = serializers.DictField(
        allow_null=True,
        help_text="JSON Schema of the keys of the state that it reads; null where it does not say.",
    )
    writes_schema = serializers.DictField(
        allow_null=True, help_text="The same of those that it writes."
    )


class StepFunctionsOut(serializers.Serializer[Any]):
    functions = StepFunctionOut(many=True)


class StepFunctions(APIView):
    """The step functions that this server's modules register."""

    @extend_schema(
        operation_id="list_step_functions",
        responses=StepFunctionsOut,
        summary="List the step functions, with the schemas of what they take",
    )
    def get(self, request: Request) -> Response:
        return Response(StepFunctionsOut({"functions": catalog.functions()}).data)


class StepFunctionDetail(APIView):
    @extend_schema(
        operation_id="get_step_function",
        responses=StepFunctionOut,
        summary="Read a step function",
        description="404 `step_function_not_found`.",
    )
    def get(self, request: Request, name: str) -> Response:
        return Response(StepFunctionOut(catalog.function(name)).data)


class StepTemplates(Paged):
    """The current versions of all step templates."""

    pagination_class = NewestVersionFirst

    @extend_schema(
        operation_id="list_step_templates",
        parameters=[
            OpenApiParameter("q", {"type": "string"}, description="Part of the slug or title."),
            OpenApiParameter("function", {"type": "string"}, description="Of this function."),
        ],
        responses=StepTemplateOut(many=True),
        summary="List step templates, newest first",
    )
    def get(self, request: Request) -> Response:
        rows = StepTemplate.objects.current().matching(request.query_params.get("q", ""))
        if function := request.query_params.get("function"):
            rows = rows.filter(function=function)
        return self.page(request, rows, StepTemplateOut)
