"""The process above the embedded server: begins it again where it ended unasked, and holds its port
meanwhile, so that a page takes a second longer and nobody is refused. Where an author's files have
changed, the next server loads them beside the one that serves, and takes its place.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from django.db import connections

ASKED_TO_STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LIVED = 10.0
"""Seconds after which a server that ended is begun again at once."""
LONGEST = 30.0
"""Seconds between two that end as soon as they have begun."""
READY, CHANGED, LOADED, CLOSED = b"r", b"c", b"l", b"x"
"""What a server says: it serves; files have changed; it has loaded them; it takes no more."""
GO, ALONE = b"g", b"a"
"""What it is told: the port is yours; the server before has ended."""


class Served:
    """The server's side: its supervisor is at the other end."""

    def __init__(self, connection: socket.socket, *, again: bool, beside: bool) -> None:
        self._connection, self.again = connection, again
        self.beside = beside
        """Whether another server serves until this one has loaded all."""
        self._alone = threading.Event()
        if not beside:
            self._alone.set()

    def is_ready(self) -> None:
        """From here on it is begun again where it ends unasked; what ends before says why, and
        would end again.
        """
        self._connection.send(READY)

    def wants_another(self) -> None:
        """Have a server begun beside this one, with the files as they are now."""
        self._connection.send(CHANGED)

    def has_loaded(self) -> None:
        """Wait until the server before takes no more connections; those that come, wait for us."""
        self._connection.send(LOADED)
        if self._connection.recv(1) != GO:
            os._exit(os.EX_OK)  # asked to stop, or without a supervisor

    def takes_no_more(self) -> None:
        """Leave the port to the next one, while what was begun here is finished."""
        with suppress(OSError):
            self._connection.send(CLOSED)

    def is_alone(self) -> None:
        """Wait until no other server works here."""
        self._alone.wait()

    def when_it_is_to_stop(self, stop: Callable[[], Any]) -> None:
        """Have it called, in a thread, when the supervisor is asked to stop, or is gone."""

        def listen() -> None:
            with suppress(OSError):
                while self._connection.recv(1) == ALONE:
                    self._alone.set()
            stop()
            self._alone.set()

        threading.Thread(target=listen, name="supervisor", daemon=True).start()


@dataclass(eq=False)
class _Server:
    """The supervisor's side."""

    pid: int
    connection: socket.socket
    began: float
    ready: bool = False
    leaves: bool = False
    """Whether it was told to stop."""
    has_port: bool = False

    def tell(self, word: bytes) -> None:
        with suppress(OSError):
            self.connection.send(word)

    def go(self) -> None:
        """Say, once, that the port is its own."""
        if not self.has_port:
            self.has_port = True
            self.tell(GO)

    def stop(self) -> None:
        self.leaves = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)

    def word(self) -> bytes:
        try:
            return self.connection.recv(1)
        except OSError:
            return b""

    def code(self) -> int:
        """Wait for its end."""
        self.connection.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def listen(host: str, port: int) -> socket.socket:
    """The port, open from now on. Raises OSError where it cannot be."""
    return socket.create_server((host, port), backlog=128)


def supervise(listener: socket.socket, *, say: Callable[[str], None]) -> Served:
    """Returns in a process of its own, which is to serve, as often as one is needed; this process
    only waits for it. Call before it has threads.
    """
    connections.close_all()
    return _Supervisor(listener, say).served()


class _Supervisor:
    """Forks servers, and hears what they say."""

    def __init__(self, listener: socket.socket, say: Callable[[str], None]) -> None:
        self._listener, self._say = listener, say
        self._servers: list[_Server] = []
        """The one that serves; behind it the one that is to take its place, where there is one."""
        self._asked = self._again = False
        self._changed = False
        """Whether files changed while the server before the one that serves was still to end."""
        self._pause = 0.0
        self._handlers = {number: signal.getsignal(number) for number in ASKED_TO_STOP}
        for number in ASKED_TO_STOP:
            signal.signal(number, self._stop)

    def served(self) -> Served:
        """Return in each server; here it never does."""
        served = self._fork(beside=False)
        while served is None:
            open_now = [server.connection for server in self._servers]
            speaking, _, _ = select.select(open_now, [], [])
            for server in [server for server in self._servers if server.connection in speaking]:
                if served is None and server in self._servers:
                    served = self._hear(server, server.word())
        return served

    def _stop(self, number: int, _: object) -> None:
        self._asked = True
        for server in self._servers:
            server.stop()
        self._listener.close()  # who comes now is refused at once

    def _fork(self, *, beside: bool) -> Served | None:
        ours, its = socket.socketpair()
        self._changed = False  # it reads them as they are now
        began, pid = time.monotonic(), os.fork()
        if pid:
            its.close()
            self._servers.append(_Server(pid, ours, began, has_port=not beside))
            return None
        for connection in (ours, *(server.connection for server in self._servers)):
            connection.close()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # those above are the supervisor's
        return Served(its, again=self._again or beside, beside=beside)

    def _hear(self, server: _Server, word: bytes) -> Served | None:
        first = self._servers[0]
        if word == READY:
            server.ready = True
        elif word == CHANGED and server.has_port and server is not first:
            self._changed = True  # the one before still ends
        elif word == CHANGED and server is first and not (server.leaves or self._asked):
            for other in self._servers[1:]:  # it loads what has changed since
                os.kill(other.pid, signal.SIGKILL)
                self._servers.remove(other)
                other.code()
            return self._fork(beside=True)
        elif word == LOADED and server is not first:
            first.stop()
        elif word == CLOSED and len(self._servers) > 1:
            self._servers[1].go()
        elif word == b"":
            return self._ended(server)
        return None

    def _ended(self, server: _Server) -> Served | None:
        was_first = server is self._servers[0]
        self._servers.remove(server)
        code = server.code()
        if self._servers:
            if was_first:
                self._servers[0].go()
                self._servers[0].tell(ALONE)
                self._again = True
            if self._changed and not self._asked:
                return self._fork(beside=True)
            return None
        if self._asked or not server.ready:
            _leave(code)
        lived = time.monotonic() - server.began > LIVED
        pause = self._pause = 0.0 if lived else min(LONGEST, 2 * self._pause + 1)
        ended = f"signal {-code}" if code < 0 else f"code {code}"
        self._say(
            f"The server ended ({ended}). It is begun again{f' in {pause:g} s' if pause else ''}, "
            "and work goes on where it stopped."
        )
        time.sleep(pause)
        if self._asked:
            _leave(0)
        self._again = True
        return self._fork(beside=False)


def _leave(code: int) -> NoReturn:
    """End as the last server did. This process has nothing of its own to put away, and taking all
    apart would take a second.
    """
    sys.stdout.flush()
    os._exit(code if code >= 0 else 128 - code)
