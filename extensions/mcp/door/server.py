"""`/mcp` as a plain ASGI application beside Django: who calls, how often, how much; and the tools.

Each request is served by itself, by revision 2026-07-28 or by the handshake before it: there are no
sessions, so any process may answer, and one that dies takes nothing along.
"""

from __future__ import annotations

import json
import logging
from typing import Any
from urllib.parse import parse_qsl

from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    PARSE_ERROR,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ToolOut
from pydantic import ValidationError

from checkpoints.database import outages
from extensions.mcp.door import answering, asking, ordering, tasks
from extensions.mcp.door.tools import Tool, ToolCall
from hitl.http import errors, incoming
from hitl.live import admission
from hitl.live.admission import Receive, Send
from hitl.live.pump import StreamRefused, send_problem
from hitl.live.topics import in_database_thread
from hitl.models import ApiToken
from hitl.wait_gate import requests
from hitl.wait_gate.requests import RequestStatus
from runs.models import installation
from runs.security import scopes

logger = logging.getLogger(__name__)

CALLER = "waystation.caller"
"""Where an ASGI scope has who calls."""
TOOLS = {tool.name: tool for tool in (*asking.TOOLS, *ordering.TOOLS, *answering.TOOLS)}
FAILED = "Something failed on the server, which has noted it. Nothing was approved; try again."
INSTRUCTIONS = (
    "Waystation asks people. Use request_approval before an action that needs a person's consent, "
    "and ask_human for what you do not know. pending is no approval: wait, or come back later."
)


async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    try:
        caller = await in_database_thread(admission.admit)(scope, methods=["POST"])
        body = await admission.body_of(receive, limit="EVENT_BYTES")
    except StreamRefused as refusal:
        await send_problem(send, refusal)
        return
    except outages.ERRORS as error:
        if (outage := outages.said(error, changing=True)) is None:
            raise
        await send_problem(send, StreamRefused(outage.status, outage.code, outage.words))
        return
    try:
        incoming.read(body)
    except incoming.UnreadableBody as error:
        await _unreadable(send, str(error))
        return
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> dict[str, Any]:
        return messages.pop() if messages else await receive()

    await serve(server, {**scope, CALLER: caller}, again, send)


async def serve(server: Server[Any], scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Serve one request by either era. Its manager may be entered once, so each request has one of
    its own, which keeps nothing.
    """
    manager = StreamableHTTPSessionManager(server, stateless=True)
    async with manager.run():
        await manager.handle_request(scope, receive, send)  # type: ignore[arg-type]


async def _unreadable(send: Send, words: str) -> None:
    error = {"code": PARSE_ERROR, "message": words}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _token(context: Any) -> ApiToken:
    token = context.request.scope[CALLER].token
    assert isinstance(token, ApiToken)
    return token


async def list_tools(context: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
    """Those that the token may use."""
    scope = _token(context).scope
    mine = [tool for tool in TOOLS.values() if scopes.refusal(scope, tool.scopes) is None]
    return ListToolsResult(tools=[_described(tool) for tool in mine])


def _described(tool: Tool) -> ToolOut:
    return ToolOut(
        name=tool.name,
        description=tool.description,
        input_schema=tool.takes.model_json_schema(),
        output_schema=tool.gives.model_json_schema() if tool.gives else None,
        annotations=ToolAnnotations(
            read_only_hint=tool.reads,
            destructive_hint=False,
            idempotent_hint=tool.repeatable,
            open_world_hint=False,
        ),
    )


async def call_tool(context: Any, params: CallToolRequestParams) -> Any:
    """What a tool gives; what goes wrong is told in words, to the model that called it."""
    tool = TOOLS.get(params.name)
    if tool is None:
        raise MCPError(INVALID_PARAMS, f"There is no tool {params.name[:60]!r} here.")
    try:
        return await _called(tool, context, params.arguments or {})
    except errors.KNOWN as error:
        return _error(tool, str(error))
    except ValidationError as error:
        return _error(tool, _words(error))
    except Exception as error:
        if (outage := outages.said(error, changing=not tool.reads)) is not None:
            return _error(tool, outage.words)
        logger.exception("the tool %s failed", tool.name)
        return _error(tool, FAILED)


async def _called(
    tool: Tool, context: Any, given: dict[str, Any]
) -> CallToolResult | dict[str, Any]:
    token = _token(context)
    refused = scopes.refusal(token.scope, tool.scopes)
    if refused is not None:
        raise refused
    as_task = tool.name in tasks.TOOLS and tasks.declared(context)
    call = _call_of(context, as_task=as_task)
    result = await tool.run(call, tool.takes.model_validate(given))
    if as_task and result.status == RequestStatus.PENDING:
        return await call.do(lambda: tasks.created(requests.look(token, result.request_id)))
    if isinstance(result, str):
        return CallToolResult(content=[TextContent(type="text", text=result)])
    structured = result.model_dump(mode="json")
    text = json.dumps(structured, ensure_ascii=False)
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structured
    )


def _call_of(context: Any, *, as_task: bool = False) -> ToolCall:
    address = dict(parse_qsl(context.request.scope["query_string"].decode("latin-1")))
    return ToolCall(_token(context), address, context.session.report_progress, as_task)


def _error(tool: Tool, words: str) -> CallToolResult:
    if tool.fails is not None:
        return CallToolResult(content=[TextContent(type="text", text=tool.fails(words))])
    return CallToolResult(content=[TextContent(type="text", text=words)], is_error=True)


def _words(error: ValidationError) -> str:
    """What is wrong with the arguments, without their values."""
    faults = [
        f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}"
        for fault in error.errors(include_input=False, include_url=False)
    ]
    return f"Nothing was done. {'. '.join(faults[:10])}."


server: Server[Any] = Server(
    "waystation",
    title="Waystation",
    version=installation.version(),
    instructions=INSTRUCTIONS,
    on_list_tools=list_tools,
    on_call_tool=call_tool,
)


def _serve_tasks(method: str) -> None:
    async def handle(context: Any, params: tasks.TaskParams) -> dict[str, Any]:
        call = _call_of(context)
        tasks.check(context, call, params)
        return await tasks.METHODS[method](call, params)

    server.add_request_handler(method, tasks.TaskParams, handle)


server.extensions[tasks.EXTENSION] = {}
for method in tasks.METHODS:
    _serve_tasks(method)
