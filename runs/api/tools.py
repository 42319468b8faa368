"""Tools and what would ask, for machines."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from runs.agents import approval, tools
from runs.agents.tools import Tool
from runs.api.fields import OptionalText
from runs.api.requests import CannotBe, body_of
from runs.definitions import tool_approvals
from runs.workflows.tool_calls import RISKS


class RuleOut(serializers.Serializer[Any]):
    """One rule, as it stands in configuration."""

    tool = serializers.CharField(required=False, help_text="Left out in rules for every tool.")
    when = serializers.JSONField(
        help_text='"always", {"risk": …} or {"argument": "/path", "op": …, "value": …}.'
    )
    ask = serializers.BooleanField(help_text="true asks a person, false lets the call pass.")
    why = serializers.CharField(allow_blank=True)


class ToolOut(serializers.Serializer[Tool]):
    name = serializers.CharField()
    description = serializers.CharField()
    risk = serializers.ChoiceField(RISKS)
    parameters = serializers.DictField(help_text="JSON Schema of the arguments.")
    editable = serializers.ListField(
        child=serializers.CharField(),
        help_text="JSON pointers of what a person may change before the call.",
    )
    rules = serializers.SerializerMethodField(
        help_text="The tool's own rules on which calls ask; a step's rules come first."
    )

    def get_rules(self, tool: Tool) -> list[dict[str, Any]]:
        return [rule.as_json() for rule in tool.approval]


class ToolsOut(serializers.Serializer[Any]):
    tools = ToolOut(many=True)


class ExplainIn(serializers.Serializer[Any]):
    tool = serializers.CharField(max_length=64)
    arguments = serializers.DictField(default=dict)
    rules = serializers.ListField(
        default=None, allow_null=True, help_text="Rules to try, instead of a template's step."
    )
    template = serializers.SlugField(
        default="", allow_blank=True, help_text="Slug of a template whose step's rules hold."
    )
    step = OptionalText(max_length=100, help_text="Name of its step; agent's steps only.")

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        if bool(values["template"]) != bool(values["step"]) or (
            values["template"] and values["rules"] is not None
        ):
            words = "Name a template and its step, or give rules, or neither."
            raise serializers.ValidationError({"template": [words]}, code=CannotBe.code)
        return values


class VerdictOut(serializers.Serializer[Any]):
    tool = serializers.CharField(source="tool.name")
    risk = serializers.ChoiceField(RISKS, source="tool.risk")
    ask = serializers.BooleanField(
        source="verdict.ask", help_text="Whether a person is asked before the call is made."
    )
    why = serializers.CharField(source="verdict.why")
    rule = serializers.SerializerMethodField(
        help_text="The rule that decides; null where none matches."
    )
    place = serializers.CharField(
        source="verdict.place",
        help_text="approvals.2 of the step, tool.0 of the tool; empty without a rule.",
    )
    offered = serializers.BooleanField(help_text="Whether the step's agent has this tool.")

    def get_rule(self, explained: tool_approvals.Explained) -> dict[str, Any] | None:
        return explained.verdict.rule.as_json() if explained.verdict.rule else None


class Tools(APIView):
    """What agents may call."""

    @extend_schema(
        operation_id="list_tools", responses=ToolsOut, summary="List the tools that agents may call"
    )
    def get(self, request: Request) -> Response:
        return Response(ToolsOut({"tools": [tools.find(name) for name in tools.names()]}).data)


class Explain(APIView):
    """Whether a person is asked about a call. Nothing is called, and nothing is changed."""

    @extend_schema(
        operation_id="explain_tool_call",
        request=ExplainIn,
        responses=VerdictOut,
        summary="Explain whether a tool's call would ask a person",
        examples=[
            OpenApiExample(
                "Rules to try",
                {
                    "tool": "fetch",
                    "arguments": {"url": "https://docs.example.org/"},
                    "rules": [
                        {
                            "tool": "fetch",
                            "when": {"argument": "/url", "op": "contains", "value": "docs."},
                            "ask": False,
                            "why": "Ours.",
                        }
                    ],
                },
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        values = body_of(request, ExplainIn)
        at = (
            tool_approvals.place(values["template"], values["step"]) if values["template"] else None
        )
        rules = approval.parse(values["rules"] or [], tools=tools.names())
        return Response(
            VerdictOut(
                tool_approvals.explain(values["tool"], values["arguments"], at=at, rules=rules)
            ).data
        )
