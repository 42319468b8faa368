"""Every door of the product, read from the tables that serve it: pages, REST, the admin, streams
and sockets.

Whoever walks or attacks all doors begins with `doors()`. A door that no table of the matrix names
fails the test beside that table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hitl.host import asgi
from hitl.http.refusals import exception_handler
from hitl.live import routing
from tests.matrix.addresses import REST, served

Kind = Literal["page", "rest", "admin", "stream", "socket", "protocol"]

SERVED: list[Any] = routing.websockets(exception_handler)
"""The sockets as they are routed, each with its consumer."""
SOCKETS: dict[str, bool | None] = {
    "ws/threads/<thr:thread_id>/stream": True,
    "ws/runs/<run:run_id>/stream": True,
    "runs/<run:run_id>/stream/ws": True,
    "api/v1/runs/<run:run_id>/stream/ws": True,
    "ws/workflows/<str:run_id>/stream": True,
    "ws/inbox": False,
    "": None,
}
"""Address → whether it speaks of one thread; None is every other address."""
STREAMS = {
    "api/v1/work-orders/<wo:order_id>/logs/stream", "api/v1/threads/<thr:thread_id>/stream",
    "api/v1/runs/<run:run_id>/stream",
    "api/agent-work-orders/<wo:order_id>/logs/stream", "api/v1/workflows/<str:run_id>/stream",
}  # fmt: skip
"""Addresses of server-sent events: GET alone, for those who see the thread."""
PROTOCOLS = {r"^mcp\Z", "^langgraph/(?P<path>.*)$", "^langgraph/(?P<path>agui/.*)$"}
"""Addresses at which protocols of others are spoken: tests/stories/live/test_mcp.py and
test_langgraph.py say who may do what there.
"""
UNKNOWN_METHODS = ("TRACE", "BREW")
"""Methods that no door takes."""


@dataclass(frozen=True)
class Door:
    """One address. `path` is as the resolver writes it, `name` is the view's."""

    kind: Kind
    path: str
    name: str = ""


def doors() -> list[Door]:
    """All of them, in the order of their tables."""
    return [
        *(
            Door("admin" if admin else "rest" if path.startswith(REST) else "page", path, name)
            for path, name, admin in served()
        ),
        *(
            Door("protocol" if str(entry.pattern) in PROTOCOLS else "stream", str(entry.pattern))
            for entry in asgi.http
            if str(entry.pattern)
        ),
        *(Door("socket", str(entry.pattern)) for entry in SERVED),
    ]
