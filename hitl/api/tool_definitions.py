"""Pause and resume as tools of an orchestrating agent: defined by the OpenAPI document, so that
they are what is served.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from hitl.api import orders
from hitl.api.threads import runs as api_runs
from hitl.http.authentication import needed
from hitl.models import ApiToken
from runs.api import templates
from runs.security import scopes

TOOLS: dict[str, tuple[str, type[APIView]]] = {
    "list_templates": ("get", templates.WorkflowTemplates),
    "create_work_order": ("post", orders.WorkOrders),
    "get_work_order": ("get", orders.WorkOrderDetail),
    "get_pause_state": ("get", orders.PauseState),
    "resume_work_order": ("post", orders.Resume),
    "suspend_work_order": ("post", orders.Suspend),
    "cancel_work_order": ("post", orders.Cancel),
    "list_runs": ("get", api_runs.Runs),
}
"""Operation of the OpenAPI document → its method, and the view that serves it."""


class DefinitionOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    description = serializers.CharField()
    input_schema = serializers.DictField(help_text="JSON Schema of the tool's arguments.")
    method = serializers.CharField()
    path = serializers.CharField(help_text="With {names} of arguments that belong into it.")
    query = serializers.ListField(
        child=serializers.CharField(),
        help_text="Arguments that belong into the query; all others are the body.",
    )


class DefinitionsOut(serializers.Serializer[Any]):
    tools = DefinitionOut(many=True)


class ToolDefinitions(APIView):
    """Definitions that an orchestrator hands to its model; each call is one request with the same
    token.
    """

    may_read = scopes.EITHER

    @extend_schema(
        operation_id="list_tool_definitions",
        responses=DefinitionsOut,
        summary="Tools by which an agent starts, pauses, answers and ends work orders",
        description=(
            "Those that your token may use. They do what their routes do: no tool has a right "
            "that its token lacks."
        ),
    )
    def get(self, request: Request) -> Response:
        scope = request.auth.scope if isinstance(request.auth, ApiToken) else None
        mine = [
            definition
            for definition in _definitions()
            for method, view in [TOOLS[definition["name"]]]
            if scope is None or scopes.refusal(scope, needed(view, method.upper())) is None
        ]
        return Response(DefinitionsOut({"tools": mine}).data)


@lru_cache(maxsize=1)
def _definitions() -> list[dict[str, Any]]:
    """Of all TOOLS, in their order; made once per process, which takes a second."""
    # without annotations there
    document = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    operations_by_id = {
        operation.get("operationId"): (method, path, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    return [
        _definition(name, *operations_by_id[name], document["components"]["schemas"])
        for name in TOOLS
    ]


def _definition(
    name: str, method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]
) -> dict[str, Any]:
    parameters = [one for one in operation.get("parameters", []) if one["in"] in {"path", "query"}]
    properties = {
        parameter["name"]: {**parameter["schema"], "description": parameter.get("description", "")}
        for parameter in parameters
    }
    required = [parameter["name"] for parameter in parameters if parameter.get("required")]
    content = operation.get("requestBody", {}).get("content", {})
    if content:
        body = _whole(next(iter(content.values()))["schema"], schemas)
        properties |= body.get("properties", {})
        required += body.get("required", [])
    return {
        "name": name,
        "description": ". ".join(
            filter(None, [operation.get("summary", ""), operation.get("description", "")])
        ),
        "input_schema": {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        },
        "method": method.upper(),
        "path": path,
        "query": [parameter["name"] for parameter in parameters if parameter["in"] == "query"],
    }


def _whole(schema: Any, schemas: dict[str, Any]) -> Any:
    """A schema with what it refers to put in: a model is given one document, not a registry."""
    if isinstance(schema, list):
        return [_whole(member, schemas) for member in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _whole(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    return {key: _whole(value, schemas) for key, value in schema.items()}
