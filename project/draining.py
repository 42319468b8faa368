"""A web server that is told to stop answers what it has begun, and then really ends.

Daphne alone cancels all requests at once and stops its loop. A view that then still waits in its
thread for that loop waits for ever: its client hears nothing, and the process stays until it is
killed. So ports are closed first, and the loop goes on until the requests at work are answered.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any, cast

SECONDS = 7.0
"""That requests at work may take; containers are killed after ten."""
AT_LAST = SECONDS + 2
"""Seconds after which a process ends whose threads do not."""


class Drain:
    """The requests at work of one server."""

    def __init__(self) -> None:
        self.stops = False
        self._tasks: set[asyncio.Task[None]] = set()

    def around(self, application: Any) -> Any:
        """An ASGI application whose requests go on while the server stops."""

        async def serve(scope: dict[str, Any], receive: Any, send: Any) -> None:
            task = asyncio.ensure_future(application(scope, receive, send))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                if not self.stops:  # the client has left
                    task.cancel()
                raise

        return serve

    async def ends(self, *, seconds: float = SECONDS) -> None:
        """Wait until nothing is at work, also not what comes over connections that stay open."""
        self.stops = True
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while self._tasks and (left := end - loop.time()) > 0:
            await asyncio.wait(self._tasks, timeout=left)


def with_daphne(application: Any) -> Any:
    """Around what a process of Daphne's own serves; in other programs nothing changes."""
    if "daphne" not in Path(sys.argv[0]).parts:
        return application
    from twisted.internet import reactor  # the one that Daphne has installed
    from twisted.internet.defer import Deferred
    from twisted.internet.tcp import Port

    drain, server, later = Drain(), cast("Any", reactor), cast("Any", Deferred)

    def stop() -> Any:
        last = threading.Timer(AT_LAST, os._exit, [0])
        last.daemon = True
        last.start()
        for port in server.getReaders():
            if isinstance(port, Port):
                cast("Any", port).stopListening()
        return later.fromFuture(asyncio.ensure_future(drain.ends()))

    # before Daphne's own, which cancels: those are called in the order in which they came
    server.addSystemEventTrigger("before", "shutdown", stop)
    return drain.around(application)
