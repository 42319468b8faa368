"""The extension `io.modelcontextprotocol/tasks` (SEP-2663), for clients that declare it: a request
that waits for a person is a task, and its id is the request's.

Never `input_required`: that would ask the agent's side.
"""

from __future__ import annotations

from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ClientCapabilities,
    MissingRequiredClientCapabilityErrorData,
    RequestParams,
)
from pydantic import Field

from extensions.mcp.door.asking import RequestOut
from extensions.mcp.door.tools import ToolCall
from hitl.decisions import services
from hitl.decisions.reviewers import policy
from hitl.models import Via
from hitl.wait_gate import requests
from hitl.wait_gate.requests import AgentRequest, RequestStatus
from runs.security import scopes

EXTENSION = "io.modelcontextprotocol/tasks"
POLL_MS = 5_000
TOOLS = frozenset({"request_approval", "ask_human"})
"""Whose calls become tasks."""
STATUS = {RequestStatus.PENDING: "working", RequestStatus.WITHDRAWN: "cancelled"}
"""The others are `completed`: also a rejection is what the tool was called for."""


class TaskParams(RequestParams):
    task_id: str = Field(alias="taskId", max_length=40)


def declared(context: Any) -> bool:
    """Whether the client said with this request that it knows tasks."""
    capabilities = context.session.client_capabilities
    return EXTENSION in ((capabilities.extensions if capabilities else None) or {})


def created(request: AgentRequest) -> dict[str, Any]:
    """What a call gives that became a task."""
    return {"resultType": "task", **_task(request)}


def _task(request: AgentRequest) -> dict[str, Any]:
    """As SEP-2663 writes a task; it is kept as long as its question is, so it has no time to
    live.
    """
    pause, task = request.pause, RequestOut.of(request)
    return {
        "taskId": pause.shown_id,
        "status": STATUS.get(request.status, "completed"),
        "statusMessage": f"{task.message} {task.url}",
        "createdAt": pause.opened_at.isoformat(),
        "lastUpdatedAt": pause.changed_at.isoformat(),
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
    }


async def get(call: ToolCall, params: TaskParams) -> dict[str, Any]:
    """A task as it stands; with what the tool gives, once that is there."""

    def read() -> tuple[dict[str, Any], RequestOut]:
        request = requests.look(call.token, params.task_id)
        return _task(request), RequestOut.of(request)

    task: dict[str, Any]
    task, given = await _known(call.do(read))
    if task["status"] != "completed":
        return task
    text = given.model_dump_json()
    result = {
        "content": [{"type": "text", "text": text}],
        "structuredContent": given.model_dump(mode="json"),
        "isError": given.status == RequestStatus.EXPIRED,
    }
    return {**task, "result": result}


async def update(call: ToolCall, params: TaskParams) -> dict[str, Any]:
    """Acknowledge: no task of ours asks its client for anything."""
    await _known(call.do(requests.look, call.token, params.task_id))
    return {}


async def cancel(call: ToolCall, params: TaskParams) -> dict[str, Any]:
    """Withdraw the request; one that is over stays as it is."""
    try:
        await _known(call.do(requests.withdraw, call.token, params.task_id, via=Via.MCP))
    except policy.NotNow as claimed:
        raise MCPError(INVALID_PARAMS, str(claimed)) from claimed
    return {}


async def _known(work: Any) -> Any:
    try:
        return await work
    except services.NotFound as error:
        raise MCPError(INVALID_PARAMS, str(error)) from error


def check(context: Any, call: ToolCall, params: TaskParams) -> None:
    """Raise MCPError where the client knows no tasks, its header names another one, or its token
    asks nothing.
    """
    if not declared(context):
        needed = MissingRequiredClientCapabilityErrorData(
            required_capabilities=ClientCapabilities(extensions={EXTENSION: {}})
        )
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"Tasks are for clients that declare {EXTENSION}.",
            needed.model_dump(by_alias=True, mode="json", exclude_none=True),
        )
    if context.request.headers.get("mcp-name") != params.task_id:
        raise MCPError(HEADER_MISMATCH, "The header Mcp-Name must be the task's id.")
    refused = scopes.refusal(call.token.scope, scopes.ASKS)
    if refused is not None:
        raise MCPError(INVALID_PARAMS, str(refused))


METHODS = {"tasks/get": get, "tasks/update": update, "tasks/cancel": cancel}
