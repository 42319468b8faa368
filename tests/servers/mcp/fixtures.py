"""What the protocol's conformance kit wants to find on a server, behind the mount of our door
(`extensions.mcp.door.server.serve`), its guards and its writers. For the kit alone: it knows no
tokens. `make mcp-conformance` runs it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

import django

django.setup()

from mcp.server.lowlevel.server import Server  # noqa: E402
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity  # noqa: E402
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler  # noqa: E402
from mcp.shared.exceptions import MCPError  # noqa: E402

from extensions.mcp.door.server import serve  # noqa: E402
from hitl.host.doors import guarded  # noqa: E402
from hitl.live.backpressure import patient  # noqa: E402

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAE"
    "hQGAhKmMIQAAAABJRU5ErkJggg=="
)
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
Result = dict[str, Any]


def text(words: str) -> Result:
    return {"type": "text", "text": words}


def image() -> Result:
    return {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def resource(uri: str, kind: str, words: str) -> Result:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": words}}


def asks(state: str | None = None, **requests: Result) -> Result:
    more = {} if state is None else {"requestState": state}
    return {"resultType": "input_required", "inputRequests": requests, **more}


def elicit(message: str, name: str, kind: str = "string") -> Result:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema},
    }


def sample(words: str, tokens: int) -> Result:
    messages = [{"role": "user", "content": text(words)}]
    params = {"messages": messages, "maxTokens": tokens}
    return {"method": "sampling/createMessage", "params": params}


ROOTS = {"method": "roots/list", "params": {}}


def content(*blocks: Result) -> Result:
    return {"content": list(blocks)}


def brought(params: Any, key: str, inner: str) -> Any:
    """What the client answered to a request of ours; None where it did not, or not so."""
    given = (params.input_responses or {}).get(key)
    given = given.model_dump(by_alias=True) if hasattr(given, "model_dump") else given
    return (given.get("content") or {}).get(inner) if isinstance(given, dict) else None


def has(params: Any, *keys: str) -> bool:
    return all(key in (params.input_responses or {}) for key in keys)


def capabilities(context: Any) -> Any:
    return context.session.client_capabilities


async def progress(context: Any, params: Any) -> Result:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100)
        await asyncio.sleep(0.05)
    return content(text("done"))


async def elicitation(context: Any, params: Any) -> Result:
    name = brought(params, "user_name", "name")
    if not isinstance(name, str):
        return asks(user_name=elicit("What is your name?", "name"))
    return content(text(f"Hello, {name}!"))


async def sampling(context: Any, params: Any) -> Result:
    if not has(params, "capital_question"):
        return asks(capital_question=sample("What is the capital of France?", 100))
    return content(text(str(params.input_responses["capital_question"])))


async def list_roots(context: Any, params: Any) -> Result:
    if not has(params, "client_roots"):
        return asks(client_roots=ROOTS)
    return content(text(str(params.input_responses["client_roots"])))


async def request_state(context: Any, params: Any) -> Result:
    if not has(params, "confirm") or params.request_state is None:
        return asks("asked", confirm=elicit("Please confirm", "ok", "boolean"))
    return content(text("state-ok"))


async def multiple(context: Any, params: Any) -> Result:
    if not has(params, "user_name", "greeting", "client_roots"):
        return asks(
            "asked",
            user_name=elicit("What is your name?", "name"),
            greeting=sample("Generate a greeting", 50),
            client_roots=ROOTS,
        )
    return content(text("all there"))


async def rounds(context: Any, params: Any) -> Result:
    if params.request_state == "two" and has(params, "step2"):
        return content(text("done"))
    if params.request_state == "one" and has(params, "step1"):
        return asks("two", step2=elicit("Step 2: What is your favorite color?", "color"))
    return asks("one", step1=elicit("Step 1: What is your name?", "name"))


async def by_capability(context: Any, params: Any) -> Result:
    known = capabilities(context)
    wanted: dict[str, Any] = {}
    if known and known.sampling is not None:
        wanted["question"] = sample("?", 10)
    if known and known.elicitation is not None:
        wanted["name"] = elicit("?", "name")
    if not wanted or has(params, *wanted):
        return content(text("done"))
    return asks(None, **wanted)


async def missing(context: Any, params: Any) -> Result:
    known = capabilities(context)
    if known is None or known.sampling is None:
        raise MCPError(-32021, "sampling is needed", {"requiredCapabilities": {"sampling": {}}})
    return content(text("done"))


def gives(*blocks: Result, **more: Any) -> Callable[[Any, Any], Awaitable[Result]]:
    async def run(context: Any, params: Any) -> Result:
        return {**content(*blocks), **more}

    return run


MIXED = resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
TOOLS: dict[str, Callable[[Any, Any], Awaitable[Result]]] = {
    "test_simple_text": gives(text("This is a simple text response for testing.")),
    "test_image_content": gives(image()),
    "test_audio_content": gives({"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}),
    "test_embedded_resource": gives(
        resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ),
    "test_multiple_content_types": gives(text("Multiple content types test:"), image(), MIXED),
    "test_error_handling": gives(
        text("This tool intentionally returns an error for testing"), isError=True
    ),
    "test_tool_with_progress": progress,
    "test_missing_capability": missing,
    "test_streaming_elicitation": elicitation,
    "test_logging_tool": gives(text("done")),
    "test_custom_header": gives(text("done")),
    "test_input_required_result_elicitation": elicitation,
    "test_input_required_result_sampling": sampling,
    "test_input_required_result_list_roots": list_roots,
    "test_input_required_result_request_state": request_state,
    "test_input_required_result_multiple_inputs": multiple,
    "test_input_required_result_multi_round": rounds,
    "test_input_required_result_tampered_state": request_state,
    "test_input_required_result_capabilities": by_capability,
    "json_schema_2020_12_tool": gives(text("done")),
}
WORDS = {"type": "string"}
SCHEMAS: dict[str, Result] = {
    "test_custom_header": {
        "type": "object",
        "properties": {"region": {**WORDS, "x-mcp-header": "Region"}},
        "required": ["region"],
    },
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {"$anchor": "addressDef", "type": "object", "properties": {"street": WORDS}}
        },
        "properties": {
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": WORDS,
            "email": WORDS,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
}


async def list_tools(context: Any, params: Any) -> Result:
    plain = {"type": "object", "properties": {}}
    return {
        "tools": [
            {"name": name, "description": name, "inputSchema": SCHEMAS.get(name, plain)}
            for name in TOOLS
        ]
    }


async def call_tool(context: Any, params: Any) -> Any:
    if params.name not in TOOLS:
        raise MCPError(-32602, "no such tool")
    return await TOOLS[params.name](context, params)


RESOURCES = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PIXEL},
}


async def list_resources(context: Any, params: Any) -> Result:
    return {"resources": [{"uri": u, "name": u, "description": u} for u in RESOURCES]}


async def list_templates(context: Any, params: Any) -> Result:
    template = {"uriTemplate": "test://template/{id}/data", "name": "template"}
    return {"resourceTemplates": [{**template, "description": "by id"}]}


async def read_resource(context: Any, params: Any) -> Any:
    uri = str(params.uri)
    found: Result | None = RESOURCES.get(uri)
    if uri.startswith("test://template/"):
        name = uri.split("/")[3]
        body = {"id": name, "templateTest": True, "data": f"Data for ID: {name}"}
        found = {"mimeType": "application/json", "text": json.dumps(body)}
    if found is None:
        raise MCPError(-32602, "Resource not found", {"uri": uri})
    return {"contents": [{"uri": uri, **found}]}


def said(*blocks: Result) -> Result:
    return {"messages": [{"role": "user", "content": block} for block in blocks]}


PROMPTS: dict[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


async def list_prompts(context: Any, params: Any) -> Result:
    prompts = [
        {
            "name": name,
            "description": name,
            "arguments": [{"name": one, "description": one, "required": True} for one in wanted],
        }
        for name, wanted in PROMPTS.items()
    ]
    return {"prompts": prompts}


async def get_prompt(context: Any, params: Any) -> Any:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            return said(text("This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            words = f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
            return said(text(words))
        case "test_prompt_with_embedded_resource":
            words = "Embedded resource content for testing."
            return said(
                resource(given["resourceUri"], "text/plain", words),
                text("Please process the embedded resource above."),
            )
        case "test_prompt_with_image":
            return said(image(), text("Please analyze the image above."))
        case "test_input_required_result_prompt":
            if (context_given := brought(params, "user_context", "context")) is None:
                return asks(user_context=elicit("What context should the prompt use?", "context"))
            return said(text(str(context_given)))
    raise MCPError(-32602, "no such prompt")


async def complete(context: Any, params: Any) -> Result:
    return {"completion": {"values": [], "total": 0, "hasMore": False}}


def whole(handle: Callable[[Any, Any], Awaitable[Any]]) -> Any:
    """The handler, with what every result of this revision holds."""

    async def run(context: Any, params: Any) -> Any:
        hints = {"ttlMs": 0, "cacheScope": "public"} if context.method in CACHEABLE else {}
        return {"resultType": "complete", **hints, **await handle(context, params)}

    return run


CACHEABLE = {
    "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read",
}  # fmt: skip
fixtures: Server[Any] = Server(
    "fixtures",
    version="1",
    on_list_tools=whole(list_tools),
    on_call_tool=whole(call_tool),
    on_list_resources=whole(list_resources),
    on_list_resource_templates=whole(list_templates),
    on_read_resource=whole(read_resource),
    on_list_prompts=whole(list_prompts),
    on_get_prompt=whole(get_prompt),
    on_completion=whole(complete),
    on_subscriptions_listen=ListenHandler(InMemorySubscriptionBus()),
)
fixtures.middleware.append(
    RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="fixtures")
)


async def door(scope: Any, receive: Any, send: Any) -> None:
    await serve(fixtures, scope, receive, send)


application = patient(guarded(door))
