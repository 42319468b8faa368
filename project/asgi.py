"""The ASGI application: Django, streams beside it, sockets.

Who asks is looked up by streams and sockets themselves, in the hub's database threads and again
later: a session's middleware would hold its objects for as long as they are open.
"""

import os
import sys
from pathlib import Path
from typing import Any

from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.urls import path, re_path

# Threads of requests hand over sooner than after Python's 5 ms: an answer waits for the database
# twenty times, and behind each time for its turn among all that write pages meanwhile.
sys.setswitchinterval(0.0005)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django_application: Any = get_asgi_application()

from checkpoints import checks  # noqa: E402  # their models need the line above
from hitl.doors.langgraph import server as langgraph  # noqa: E402  # as above
from hitl.doors.langgraph.protocol import sockets as langgraph_sockets  # noqa: E402  # as above
from hitl.http.incoming import bounded  # noqa: E402  # as above
from hitl.http.tracing import traced  # noqa: E402  # as above
from hitl.live import routing  # noqa: E402  # as above
from hitl.live.backpressure import patient  # noqa: E402  # as above
from hitl.views import orders  # noqa: E402  # as above
from hitl.views.cards import live_rows  # noqa: E402  # as above
from project import draining  # noqa: E402  # as above
from project.doors import guarded, when_asked  # noqa: E402  # as above
from project.errors import exception_handler  # noqa: E402  # as above
from runs.definitions import shipped  # noqa: E402  # as above
from runs.engine.workers import heartbeat  # noqa: E402  # as above

checks.at_start(reach=False)
shipped.load_at_start()


# `patient` stands outside whatever else changes `send`: it finds the client's connection by the
# server's own
streams = [path(route, patient(traced(guarded(stream)))) for route, stream in routing.streams()]
doors: list[Any] = []
door_sockets: list[Any] = []
if settings.WAYSTATION_MCP:
    mcp = when_asked("hitl.doors.mcp.server", "mcp", "requirements-mcp.txt")
    doors = [path("mcp", patient(traced(guarded(mcp))))]
if settings.WAYSTATION_LANGGRAPH:
    graph_door = langgraph.application(exception_handler)
    named = settings.WAYSTATION_LANGGRAPH_ORIGINS
    doors.append(re_path(r"^langgraph/(?P<path>.*)$", patient(traced(guarded(graph_door, named)))))
    graph_socket = langgraph_sockets.application(exception_handler)
    door_sockets = [re_path(langgraph_sockets.PATH, guarded(patient(graph_socket), named))]
pages = draining.with_daphne(traced(bounded(django_application)))
http: Any = [*streams, *doors, re_path("", pages)]
sockets = guarded(
    patient(URLRouter(routing.websockets(exception_handler, live_rows.tell, orders.WRITER)))
)
sockets = URLRouter([*door_sockets, re_path("", sockets)])


class Served(ProtocolTypeRouter):
    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        heartbeat.show_web()  # each process that a server forks begins by itself
        return await super().__call__(scope, receive, send)


application = Served({"http": URLRouter(http), "websocket": sockets})
# Daphne calls nothing before its first request. gunicorn may fork after this, and a thread of
# before would stay behind with what it holds.
if "gunicorn" not in Path(sys.argv[0]).parts:
    heartbeat.show_web()
