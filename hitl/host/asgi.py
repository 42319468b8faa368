"""The ASGI application: Django, streams beside it, sockets.

Who asks is looked up by streams and sockets themselves, in the hub's database threads and again
later: a session's middleware would hold its objects for as long as they are open.
"""

import sys
from pathlib import Path
from typing import Any

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.urls import path, re_path

# Threads of requests hand over sooner than after Python's 5 ms: an answer waits for the database
# twenty times, and behind each time for its turn among all that write pages meanwhile.
sys.setswitchinterval(0.0005)
django_application: Any = get_asgi_application()

from checkpoints import checks, extension  # noqa: E402  # their models need the line above
from hitl.host import draining  # noqa: E402  # as above
from hitl.host.doors import guarded, near  # noqa: E402  # as above
from hitl.http.incoming import bounded  # noqa: E402  # as above
from hitl.http.refusals import exception_handler  # noqa: E402  # as above
from hitl.http.tracing import traced  # noqa: E402  # as above
from hitl.live import routing  # noqa: E402  # as above
from hitl.live.backpressure import patient  # noqa: E402  # as above
from hitl.views import orders  # noqa: E402  # as above
from hitl.views.cards import live_rows  # noqa: E402  # as above
from runs.definitions import shipped  # noqa: E402  # as above
from runs.engine.workers import heartbeat  # noqa: E402  # as above

checks.at_start(reach=False)
shipped.load_at_start()


# `patient` stands outside whatever else changes `send`: it finds the client's connection by the
# server's own
streams = [path(route, patient(traced(guarded(stream)))) for route, stream in routing.streams()]
pages = draining.with_daphne(traced(bounded(django_application)))
others = guarded(
    patient(URLRouter(routing.websockets(exception_handler, live_rows.tell, orders.WRITER)))
)


def served(door: extension.Door) -> Any:
    """The route of an extension's door; whom it is not there for finds what is there without it."""
    if door.socket:
        application, otherwise = guarded(patient(door.application), door.origins), others
    else:
        application = patient(traced(guarded(door.application, door.origins)))
        otherwise = pages
    return re_path(door.path, near(application, otherwise) if door.loopback else application)


doors = [door for each in extension.installed() for door in each.doors()]
doors.sort(key=lambda door: len(door.path), reverse=True)
http: Any = [
    *streams,
    *(served(door) for door in doors if not door.socket),
    re_path("", pages),
]
sockets = URLRouter([*(served(door) for door in doors if door.socket), re_path("", others)])


class Served(ProtocolTypeRouter):
    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        heartbeat.show_web()  # each process that a server forks begins by itself
        return await super().__call__(scope, receive, send)


application = Served({"http": URLRouter(http), "websocket": sockets})
# Daphne calls nothing before its first request. gunicorn may fork after this, and a thread of
# before would stay behind with what it holds.
if "gunicorn" not in Path(sys.argv[0]).parts:
    heartbeat.show_web()
