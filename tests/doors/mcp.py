"""The door `/mcp` as agents use it: the client of the protocol's own package."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from pydantic import ValidationError

from extensions.mcp.door.server import TOOLS
from extensions.mcp.door.tasks import EXTENSION
from extensions.mcp.door.tools import ToolCall
from hitl.http import authentication, errors
from runs.security import scopes
from tests.servers.stack import Stack

ERAS = {"2026-07-28": "auto", "handshake": "legacy"}
"""Revision of the protocol → how the client comes to speak it."""


@asynccontextmanager
async def agent(
    url: str, token: str, *, mode: Any = "auto", query: str = ""
) -> AsyncIterator[Client]:
    """A client of the server at this URL, with a token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp{query}", http_client=http), mode=mode) as client,
    ):
        yield client


async def given(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool gives; its text says the same."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    found: dict[str, Any] = result.structured_content
    return found


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """The words in which a tool refuses."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error and result.structured_content is None, result
    return str(getattr(result.content[0], "text", ""))


def posted(stack: Stack, token: str, tool: str, arguments: dict[str, Any]) -> tuple[int, Any]:
    """A call of a tool as a program without that package sends it: the status, and the answer."""
    params = {"name": tool, "arguments": arguments}
    return stack.call(
        "POST",
        "/mcp",
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
        token=token,
        headers={"Accept": "application/json, text/event-stream"},
    )


def spoken(
    stack: Stack, token: str, method: str, params: dict[str, Any], *, name: str, tasks: bool = True
) -> tuple[int, Any]:
    """A request of revision 2026-07-28 from a client that declares tasks, or does not."""
    known: dict[str, Any] = {"extensions": {EXTENSION: {}}} if tasks else {}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": known,
    }
    return stack.call(
        "POST",
        "/mcp",
        {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}},
        token=token,
        headers={
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
            "Mcp-Name": name,
        },
    )


class CallHere(ToolCall):
    """A call that is served at once, in the thread and the transaction of a test."""

    async def do(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        with scopes.acting(self.token.scope, self.token.pk):
            return function(*args, **kwargs)


def called_here(authorization: str, tool: str, arguments: dict[str, Any]) -> tuple[int, str]:
    """What a tool gives to the token of this header: 200, or the status that REST has for the same
    refusal; and the words.
    """
    caller = authentication.caller_by(authorization.removeprefix("Bearer "), method="POST")
    if caller is None or caller.token is None:
        return 401, ""
    found = TOOLS[tool]
    if (refusal := scopes.refusal(caller.scope, found.scopes)) is not None:
        return 403, str(refusal)
    call: Any = CallHere(caller.token, {}, report_progress=no_progress)
    try:
        found.run(call, found.takes.model_validate(arguments)).__await__().send(None)
    except StopIteration as done:  # nothing of it waits
        return 200, str(done.value)
    except errors.KNOWN as error:
        return errors.status_of(error), str(error)
    except ValidationError as error:
        return 422, str(error)
    raise AssertionError("the tool waits")


async def no_progress(seconds: float) -> None:
    """Nobody looks."""
