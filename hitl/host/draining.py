"""Let a web server that is told to stop answer the requests that it has begun, and then really end.

Daphne alone cancels all requests at once and stops its event loop. A view that still waits in its
thread for that loop then waits for ever: its client hears nothing, and the process stays until it
is killed. So this module closes the ports first, and the loop runs on until the requests at work
are answered.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any, cast

SECONDS = 7.0
"""Seconds that requests at work may still take; containers are killed after ten."""
STILL = 0.3
"""Seconds without a request at work after which none is waited for: a connection that was taken
just before the port closed still says what it asks.
"""
AT_LAST = SECONDS + 2
"""Seconds after which the process ends even if some of its threads have not."""


class Drain:
    """The requests at work of one server."""

    def __init__(self) -> None:
        self.stops = False
        self._tasks: set[asyncio.Task[None]] = set()

    def around(self, application: Any) -> Any:
        """Wrap an ASGI application, so that its requests go on while the server stops."""

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
        """Wait until no request is at work, nor one that came meanwhile over an open connection."""
        self.stops = True
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        still = loop.time() + STILL
        while (now := loop.time()) < end and (self._tasks or now < still):
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=end - now)
                still = loop.time() + STILL
            else:
                await asyncio.sleep(min(still, end) - now)


def with_daphne(application: Any) -> Any:
    """Wrap the application in a process of Daphne's; in other programs nothing changes."""
    alone = sys.argv[1:2] == ["standalone"]
    if not alone and "daphne" not in Path(sys.argv[0]).parts:
        return application
    from daphne import http_protocol
    from twisted.internet import reactor  # the one that Daphne has installed
    from twisted.internet.defer import Deferred
    from twisted.internet.tcp import Port

    # it would read each form beside Django, and refuse without a word what it cannot read
    protocol: Any = http_protocol
    protocol.WebRequest = partial(protocol.WebRequest, parsePOSTFormSubmission=False)
    drain, server, later = Drain(), cast("Any", reactor), cast("Any", Deferred)

    def stop() -> Any:
        if not alone:  # there its steps may take longer, and it sees to its own end
            last = threading.Timer(AT_LAST, os._exit, [0])
            last.daemon = True
            last.start()
        for port in server.getReaders():
            if isinstance(port, Port):
                cast("Any", port).stopListening()
        return later.fromFuture(asyncio.ensure_future(drain.ends()))

    # before Daphne's own trigger, which cancels: triggers run in the order in which they were added
    server.addSystemEventTrigger("before", "shutdown", stop)
    return drain.around(application)
