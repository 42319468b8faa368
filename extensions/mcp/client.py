"""Tools of MCP servers that an operator named and accepted (`manage.py mcp_tools`).

What an agent is told of such a tool is what was accepted, never what the server says today. Where
the server's own words or arguments are others by now, a person is asked about each call, whatever
the rules say, until an operator accepts the tool anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured

from checkpoints.text import extras
from runs.agents.tools.registry import ToolFailed, ToolUse, tool
from runs.workflows import schemas

T = TypeVar("T")

SECONDS = 60.0
"""That a server may take, where the file says nothing else."""
FRESH = 30.0
"""Seconds for which what a server said of its tools counts."""
LONGEST = 1_000
"""Characters of a description."""


class ServersRefused(ImproperlyConfigured):
    """The accepted tools cannot be taken; the message says why."""

    code = "mcp_servers_refused"


@dataclass(frozen=True, kw_only=True)
class McpTool:
    """A tool as an operator accepted it."""

    name: str
    description: str
    schema: Mapping[str, Any]
    digest: str
    """Of the server's own description and schema, as they were then."""
    risk: str = "high"


@dataclass(frozen=True, kw_only=True)
class McpServer:
    name: str
    url: str
    credential: str = ""
    """Sent as a bearer token; it must be bound to the server's host."""
    seconds: float = SECONDS
    tools: Mapping[str, McpTool] = field(default_factory=dict)

    def known_as(self, name: str) -> str:
        """What agents call one of its tools."""
        return re.sub(r"[^a-z0-9_]", "_", f"{self.name}_{name}".lower())


def digest_of(description: str, schema: Any) -> str:
    text = json.dumps([description, schema], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read(path: Path) -> dict[str, McpServer]:
    """The accepted servers; raises ServersRefused."""
    try:
        document = json.loads(path.read_text()) if path.exists() else {}
        return {
            name: McpServer(
                name=name,
                **{key: server[key] for key in ("url", "credential", "seconds") if key in server},
                tools={one["name"]: McpTool(**one) for one in server["tools"]},
            )
            for name, server in document.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ServersRefused(
            f"WAYSTATION_MCP_TOOLS: {path} cannot be read ({type(error).__name__}). "
            "`manage.py mcp_tools accept` writes it."
        ) from error


def write(path: Path, servers: Mapping[str, McpServer]) -> None:
    document = {
        server.name: {
            "url": server.url,
            "credential": server.credential,
            "seconds": server.seconds,
            "tools": [dict(vars(one)) for one in server.tools.values()],
        }
        for server in servers.values()
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def register(path: Path) -> None:
    """Have agents find the accepted tools; raises ServersRefused."""
    for server in read(path).values():
        for one in server.tools.values():
            try:
                tool(
                    server.known_as(one.name),
                    description=one.description,
                    parameters=one.schema,
                    risk=one.risk,  # type: ignore[arg-type]  # what is none is refused there
                    doubt=partial(_doubt, server, one),
                )(partial(_call, server, one))
            except (ValueError, schemas.SchemaRefused) as error:
                raise ServersRefused(
                    f"WAYSTATION_MCP_TOOLS: {server.name}'s {one.name} cannot be used: {error}"
                ) from error


def offered(server: McpServer, secret: str) -> dict[str, McpTool]:
    """What a server says of its tools now; raises ToolFailed where it cannot be asked."""

    async def ask(client: Any) -> list[Any]:
        found, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if not cursor or len(found) > 1_000:
                return found

    return {
        one.name: McpTool(
            name=one.name,
            description=(one.description or "")[:LONGEST],
            schema=one.input_schema,
            digest=digest_of(one.description or "", one.input_schema),
        )
        for one in _spoken_with(server, secret, ask)
    }


_heard: dict[tuple[str, str], tuple[float, dict[str, McpTool]]] = {}
"""(server, digest of the secret) → when it was asked, on the monotonic clock, and what it said."""


def _doubt(server: McpServer, accepted: McpTool, use: ToolUse) -> str:
    """Why a person must look at a call whatever the rules say; "" for no reason."""
    secret = _secret(server, use)
    key = (server.name, hashlib.sha256(secret.encode()).hexdigest())
    at, said = _heard.get(key, (0.0, {}))
    if not said or time.monotonic() - at > FRESH:
        said = offered(server, secret)
        _heard[key] = time.monotonic(), said
    now = said.get(accepted.name)
    if now is None:
        raise ToolFailed(f"{server.name} has no tool {accepted.name} any more.")
    if now.digest != accepted.digest:
        return (
            f"{server.name} describes {accepted.name} in another way than when an operator "
            "accepted it: it may do something else now."
        )
    return ""


def _call(server: McpServer, accepted: McpTool, arguments: Mapping[str, Any], use: ToolUse) -> Any:
    async def call(client: Any) -> Any:
        return await client.call_tool(
            accepted.name, dict(arguments), meta={"waystation/idempotency-key": use.key}
        )

    result = _spoken_with(server, _secret(server, use), call)
    texts = [part.text for part in result.content if getattr(part, "type", "") == "text"]
    if result.is_error:
        raise ToolFailed("\n".join(texts)[:4_000] or f"{accepted.name} failed.")
    if result.structured_content is not None:
        return result.structured_content
    others = len(result.content) - len(texts)
    left_out = [f"[{others} parts that are no text were left out]"] if others else []
    return "\n".join([*texts, *left_out])


def _secret(server: McpServer, use: ToolUse) -> str:
    return use.credential(server.credential, to=server.url) if server.credential else ""


def _spoken_with(server: McpServer, secret: str, say: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
    """Connect to a server, say something, and leave; raises ToolFailed."""
    try:
        import httpx2
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client
    except ImportError as error:
        raise ToolFailed(
            f"MCP servers need `{extras.install('mcp', 'extensions/mcp/requirements.txt')}`."
        ) from error

    async def connected() -> T:
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        async with (
            asyncio.timeout(server.seconds),
            httpx2.AsyncClient(headers=headers, timeout=server.seconds) as http,
            Client(
                streamable_http_client(server.url, http_client=http),
                read_timeout_seconds=server.seconds,
            ) as client,
        ):
            return await say(client)

    try:
        return asyncio.run(connected())
    # its libraries raise their own, in groups; none of them is our fault, and their words may quote
    # what was sent
    except Exception as error:  # noqa: BLE001
        raise ToolFailed(
            f"The server {server.name} cannot be used now ({_innermost(error)})."
        ) from None


def _innermost(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return type(error).__name__
