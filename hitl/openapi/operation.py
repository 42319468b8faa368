"""One operation of the document: what stands around each view, so that no view says it by itself.

Who refuses a request and with which problem document, the headers that it may bring, and what scope
a token needs. This module imports no view: views import it, by `extend_schema`.
"""

from __future__ import annotations

import json
import typing
from http import HTTPStatus
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from rest_framework import serializers
from rest_framework.permissions import SAFE_METHODS

from checkpoints import ids
from hitl.channels.protocol import Channel
from hitl.http import idempotency
from hitl.http.authentication import BearerAuthentication, needed
from hitl.wait_gate import signatures
from runs.security.scopes import Scope

PROBLEM = "application/problem+json"
REFUSALS = {
    400: "The request is not as this document says: `errors` names each field or parameter.",
    401: "Nobody is known by the request's token, session or signature.",
    403: "Who asks may not do this: `code` says which right, scope or rule is missing.",
    404: "There is nothing of this id, or none that who asks may see.",
    405: "The address takes other methods: `Allow` names them.",
    409: "It cannot be done as things stand: `code` says why.",
    410: "It was here, and is not kept any more.",
    413: "The body is larger than this address takes: `limit` says how many bytes it may have.",
    415: "The body is no JSON.",
    422: (
        "The request is as this document says, and what it asks for cannot be: `errors` names "
        "what, where there is a place for it. Or its query names a parameter that nobody reads, "
        "`unknown_parameter`: `known` names those that there are."
    ),
    429: (
        "Too many requests, or too much of something that is counted: `Retry-After` says when "
        "to ask again."
    ),
    503: (
        "The database or the store of states does not answer at the moment: `Retry-After` says "
        "when to ask again."
    ),
    507: "The database's disk is full. What is there can be read.",
}
HEADERS = {
    401: {"WWW-Authenticate": ("How to say who asks.", {"type": "string"})},
    405: {"Allow": ("The methods that it takes.", {"type": "string"})},
    429: {"Retry-After": ("Seconds.", {"type": "integer"})},
    503: {"Retry-After": ("Seconds.", {"type": "integer"})},
    507: {"Retry-After": ("Seconds.", {"type": "integer"})},
}
KEY = {
    "name": idempotency.HEADER,
    "in": "header",
    "required": False,
    "description": (
        "A name for this request: sent again with it, the request is done once, and gets the "
        "first one's answer."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": idempotency.LONGEST},
}


SOMETHING = ("array", "boolean", "number", "object", "string")
"""Every type of JSON but null."""
PASSED_OVER = {"description": "Taken as it was read, and not looked at."}
FORM = "multipart/form-data"
FILES = {"^input[.].": {"type": "string", "format": "binary"}}
"""Parts of a form that are files (`runs.api.requests`)."""


class Problem(serializers.Serializer[Any]):
    """An RFC 9457 problem document. What it holds besides depends on `code`."""

    type = serializers.CharField(help_text="about:blank")
    title = serializers.CharField(help_text="The status in words.")
    status = serializers.IntegerField()
    code = serializers.CharField(help_text="Stable: for programs.")
    detail = serializers.CharField(help_text="What happened and what was kept: for people.")
    # DRF takes declared fields off the class
    errors = serializers.DictField(
        required=False, help_text="Field or parameter → what is wrong with it."
    )  # type: ignore[assignment]


# without annotations there, as the calls below
class SignatureScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the document describes events that a source signs."""

    target_class = "hitl.api.inbound.BySource"
    name = "signature"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        description = (
            "Standard Webhooks: `v1,<base64>` over the id, the time and the body, with the "
            "source's secret."
        )
        return {
            "type": "apiKey",
            "in": "header",
            "name": signatures.SIGNATURE,
            "description": description,
        }


class ChannelScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the document describes what a channel's service signs, by the channel's own words."""

    target_class = "hitl.api.channels.ByChannel"

    def __init__(self, target: Any) -> None:
        super().__init__(target)  # type: ignore[no-untyped-call]
        channel: Channel = target.channel
        self.name = channel.name

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "apiKey", "in": "header", **self.target.channel.signature}


class Operation(AutoSchema):
    """One operation: what its view says of it, and what stands around every view."""

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any
    ) -> dict[str, Any] | None:
        made = super().get_operation(path, path_regex, path_prefix, method, registry)
        if made is None:
            return None
        operation: dict[str, Any] = made
        changes = self.method not in SAFE_METHODS
        if changes:
            operation["parameters"] = [*operation.get("parameters", []), KEY]
        operation["description"] = "\n\n".join(
            text for text in (operation.get("description"), self._scopes()) if text
        )
        refusals = {
            int(status) for status in operation["responses"] if int(status) >= 400
        } | self._refusals(operation, changes=changes)
        problem = self.resolve_serializer(Problem, "response").ref
        for status in sorted(refusals):
            operation["responses"][str(status)] = self._shared(status, problem)
        return operation

    def get_tags(self) -> list[str]:
        return [tag_of(self.path)]

    def map_parsers(self) -> list[Any]:
        """What a request should say that its body is.

        A parser of anything is for programs that do not say it.
        """
        return [kind for kind in super().map_parsers() if kind != "*/*"]

    def _get_request_body(self, direction: Any = "request") -> Any:
        # as above
        body = super()._get_request_body(direction)  # type: ignore[no-untyped-call]
        form = (body or {}).get("content", {}).get(FORM)
        if form is not None:
            form["schema"] = self._with_files(form["schema"]["$ref"].rpartition("/")[2])
        return body

    def _with_files(self, name: str) -> dict[str, Any]:
        """A reference to the body of this name as a form: its `input` may have files, and no part
        is null.
        """
        body = self.registry[name, ResolvedComponent.SCHEMA].schema
        parts = {part: _never_null(schema) for part, schema in body["properties"].items()}
        component = ResolvedComponent(  # type: ignore[no-untyped-call]  # as above
            f"{name}Form",
            ResolvedComponent.SCHEMA,
            {**body, "properties": parts, "patternProperties": FILES},
            object=f"form {name}",
        )
        self.registry.register_on_missing(component)
        return dict(component.ref)

    def _scopes(self) -> str:
        """What tokens may do it, in words; "" where no token does."""
        if BearerAuthentication not in self.view.authentication_classes:
            return ""
        scopes = dict.fromkeys([*needed(self.view, self.method), Scope.WRITE.value])
        return f"Scopes of tokens: {', '.join(f'`{scope}`' for scope in scopes)}."

    def _refusals(self, operation: dict[str, Any], *, changes: bool) -> set[int]:
        """What stands around this operation can answer these, whatever its view does."""
        # its query, its caller, their rights, how often they ask, the database
        statuses = {400, 401, 403, 422, 429, 503}
        if changes:
            # what the body names; the state of things; a used key; the disk
            statuses |= {404, 409, 507}
        if "requestBody" in operation:
            statuses |= {413, 415}
        # as above
        if "{" in self.path or self._get_pagination_parameters():  # type: ignore[no-untyped-call]
            statuses |= {404}
        if "{" in self.path:
            statuses |= {409}  # a damaged checkpoint is not read
        return statuses

    def _shared(self, status: int, problem: dict[str, Any]) -> dict[str, Any]:
        """A reference to the answer with this status, which all operations share."""
        headers = {
            header: {"description": description, "schema": schema}
            for header, (description, schema) in HEADERS.get(status, {}).items()
        }
        answer = {"description": REFUSALS[status], "content": {PROBLEM: {"schema": problem}}}
        component = ResolvedComponent(  # type: ignore[no-untyped-call]  # as above
            name_of(status),
            ResolvedComponent.RESPONSE,
            {**({"headers": headers} if headers else {}), **answer},
            object=f"refusal {status}",
        )
        self.registry.register_on_missing(component)
        return dict(component.ref)

    def _get_response_for_code(
        self,
        serializer: Any,
        status_code: str,
        media_types: Any = None,
        direction: Any = "response",
    ) -> Any:
        # As above.
        response = super()._get_response_for_code(serializer, status_code, media_types, direction)  # type: ignore[no-untyped-call]
        if getattr(serializer, "allow_null", False):
            for content in response["content"].values():
                content["schema"] = _nullable(content["schema"])
        return response

    def _map_serializer_field(
        self, field: Any, direction: Any, bypass_extensions: bool = False
    ) -> Any:
        # as above
        schema = super()._map_serializer_field(field, direction, bypass_extensions)  # type: ignore[no-untyped-call]
        if isinstance(field, serializers.SerializerMethodField) and _may_be_none(
            getattr(field.parent, field.method_name)
        ):
            schema = _nullable(schema)
        if (
            direction == "request"
            and isinstance(field, serializers.JSONField)
            and not field.allow_null
            and "type" not in schema
        ):
            schema = {**schema, "type": [*SOMETHING], "items": {}}
        if prefix := getattr(field, "prefix", ""):
            schema = {
                **{name: value for name, value in schema.items() if name != "minLength"},
                "pattern": ids.pattern(prefix),
            }
        return _plain(schema) if isinstance(schema, dict) else schema

    def _map_basic_serializer(self, serializer: Any, direction: Any) -> Any:
        # as above
        schema = super()._map_basic_serializer(serializer, direction)  # type: ignore[no-untyped-call]
        if direction == "response":  # only what comes in may not be blank
            for field in schema.get("properties", {}).values():
                field.pop("minLength", None)
            # no default spares a field here
            if isinstance(serializer, serializers.ModelSerializer) and schema.get("properties"):
                schema["required"] = sorted(schema["properties"])
        elif (properties := schema.get("properties")) is not None:
            # generators of clients take a field with a default for one that is always there
            for name, field in properties.items():
                properties[name] = _left_out(field, tell=self.method != "PATCH")
            for name in getattr(serializer, "passed_over", ()):
                properties.setdefault(name, PASSED_OVER)
            schema["additionalProperties"] = False  # `runs.api.requests` refuses them
        return schema

    def _insert_field_validators(self, field: Any, schema: dict[str, Any]) -> None:
        super()._insert_field_validators(field, schema)  # type: ignore[no-untyped-call]  # as above
        tidied = dict(_plain(schema))
        schema.clear()  # which the caller goes on with
        schema.update(tidied)


def _may_be_none(method: Any) -> bool:
    return type(None) in typing.get_args(typing.get_type_hints(method).get("return"))


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema, for what may be null too."""
    kind = schema.get("type")
    if "oneOf" in schema or not schema:
        return (
            schema
            if not schema or {"type": "null"} in schema["oneOf"]
            else {**schema, "oneOf": [*schema["oneOf"], {"type": "null"}]}
        )
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    if isinstance(kind, list):
        return schema if "null" in kind else {**schema, "type": [*kind, "null"]}
    about: dict[str, Any] = {
        name: schema[name] for name in ("description", "readOnly") if name in schema
    }
    bare = {name: value for name, value in schema.items() if name not in about}
    kinds = bare["allOf"] if set(bare) == {"allOf"} else [bare]
    return {"oneOf": [*(kinds if len(kinds) == 1 else [bare]), {"type": "null"}], **about}


def _never_null(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = schema.get("type")
    if not isinstance(kinds, list):
        return schema
    left = [kind for kind in kinds if kind != "null"]
    return {**schema, "type": left[0] if len(left) == 1 else left}


def _left_out(schema: dict[str, Any], *, tell: bool) -> dict[str, Any]:
    """The same schema, with its default in words."""
    bare = {name: value for name, value in schema.items() if name != "default"}
    if tell and schema.get("default") not in (None, "", [], {}):
        words = f"Left out, it is `{json.dumps(schema['default'])}`."
        about = schema.get("description", "")
        # behind a list of words it would stand in the last of them
        bare["description"] = f"{about}{chr(10) * 2 if chr(10) in about else ' '}{words}".lstrip()
    return bare


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """A union without the kind that takes everything, and with its default at the union: the first
    kind alone may not take it.
    """
    kinds = schema.get("oneOf")
    if not isinstance(kinds, list):
        return schema
    if {} in kinds:
        return {name: value for name, value in schema.items() if name != "oneOf"}
    defaults = [kind["default"] for kind in kinds if "default" in kind]
    if not defaults:
        return schema
    return {
        **schema,
        "oneOf": [
            {name: value for name, value in kind.items() if name != "default"} for kind in kinds
        ],
        "default": defaults[0],
    }


def tag_of(path: str) -> str:
    """The part of the document that an address is in: what follows /api/v1/, or /api/."""
    return path.strip("/").removeprefix("api/").removeprefix("v1/").split("/")[0]


def name_of(status: int) -> str:
    """What the document calls the refusal with this status."""
    return HTTPStatus(status).phrase.title().replace(" ", "")
