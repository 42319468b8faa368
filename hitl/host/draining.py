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
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast
from weakref import WeakSet

SECONDS = 7.0
"""Seconds that requests at work may still take; containers are killed after ten."""
TURN = 0.05
"""Seconds between two looks. Patience is counted in looks: between two of them the loop has read
what is there, also where a busy machine gives it no time for seconds.
"""
STILL = 6
"""Looks without a request at work after which no further one is waited for, over connections that
were answered before.
"""
UNHEARD = 40
"""Looks while a connection may say what it asks, if it was taken just before the port closed: its
client is owed an answer. Browsers hold some open that never ask.
"""
AT_LAST = SECONDS + 2
"""Seconds after which the process ends even if some of its threads have not."""


class Drain:
    """The requests at work of one server. `unheard` says whether a connection is open over which no
    request has come whole yet.
    """

    def __init__(self, unheard: Callable[[], bool] = lambda: False) -> None:
        self.stops, self._unheard = False, unheard
        self._tasks: set[asyncio.Task[None]] = set()

    def around(self, application: Any) -> Any:
        """Wrap an ASGI application, so that its requests go on while the server stops."""

        def serve(scope: dict[str, Any], receive: Any, send: Any) -> Coroutine[Any, Any, None]:
            # at once: what is cancelled before its first step would never begin, and its client
            # would wait for an answer that nobody gives
            task = asyncio.ensure_future(application(scope, receive, send))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return self._while_its_client_waits(task)

        return serve

    async def _while_its_client_waits(self, task: asyncio.Task[None]) -> None:
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not self.stops:  # the client has left
                task.cancel()
            raise

    async def ends(self, *, seconds: float = SECONDS) -> None:
        """Wait until no request is at work, nor one that came meanwhile over an open connection."""
        self.stops = True
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        looks = idle = 0
        while (now := loop.time()) < end:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=end - now)
                idle = 0
            elif idle < STILL or (looks < UNHEARD and self._unheard()):
                await asyncio.sleep(TURN)
                looks += 1
                idle += 1
            else:
                break


def with_daphne(application: Any) -> Any:
    """Wrap the application in a process of Daphne's; in other programs nothing changes."""
    alone = sys.argv[1:2] == ["standalone"]
    if not alone and "daphne" not in Path(sys.argv[0]).parts:
        return application
    from daphne import http_protocol
    from twisted.internet import reactor  # the one that Daphne has installed
    from twisted.internet.defer import Deferred
    from twisted.internet.tcp import Port
    from twisted.internet.tcp import Server as Connection

    protocol, server, later = (
        cast("Any", http_protocol),
        cast("Any", reactor),
        cast("Any", Deferred),
    )
    heard: WeakSet[Any] = WeakSet()
    """Connections whose requests so far have come whole."""

    class Request(protocol.WebRequest):  # type: ignore[name-defined,misc]  # Daphne has no types
        def __init__(self, channel: Any, *queued: Any) -> None:
            heard.discard(channel.transport)
            # it would read each form beside Django, and refuse unsaid what it cannot read
            super().__init__(channel, *queued, parsePOSTFormSubmission=False)

        def process(self) -> Any:
            heard.add(self.channel.transport)
            return super().process()

    protocol.WebRequest = Request
    drain = Drain(
        lambda: any(
            isinstance(each, Connection) and each not in heard for each in server.getReaders()
        )
    )

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
