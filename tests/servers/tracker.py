"""An MCP server of somebody else's, such as agents use: a tracker of issues that wants a token."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from tests.servers.private import free_port

TOKEN = "tracker-token-0123456789"


@dataclass
class Tracker:
    url: str
    server: MCPServer
    made: list[str] = field(default_factory=list)
    """Titles of issues, in the order they were made."""

    def says(self, description: str) -> None:
        """Describe the tool that makes issues in other words."""
        self.server.remove_tool("create-issue")
        self.server.add_tool(self.create, name="create-issue", description=description)

    def create(self, title: str) -> dict[str, Any]:
        self.made.append(title)
        return {"issue": len(self.made), "title": title}


@contextmanager
def tracker() -> Iterator[Tracker]:
    server, port = MCPServer("tracker"), free_port()
    found = Tracker(f"http://127.0.0.1:{port}/mcp", server)
    server.add_tool(found.create, name="create-issue", description="Make an issue.")

    def count() -> str:
        """Count the issues."""
        return f"There are {len(found.made)}; the token is {TOKEN}."

    def fail() -> str:
        """Never work."""
        raise ToolError("The tracker is closed.")

    server.add_tool(count)
    server.add_tool(fail)
    inner: Any = server.streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and headers.get(b"authorization") != f"Bearer {TOKEN}".encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await inner(scope, receive, send)

    running = uvicorn.Server(
        uvicorn.Config(guarded, host="127.0.0.1", port=port, log_level="error")
    )
    thread = threading.Thread(target=running.run)
    thread.start()
    while not running.started and thread.is_alive():
        thread.join(0.01)
    try:
        yield found
    finally:
        running.should_exit = True
        thread.join()
