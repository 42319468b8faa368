"""The process above the embedded server: begins it again where it ended unasked, and holds its port
meanwhile, so that a page takes a second longer and nobody is refused.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from django.db import connections

ANEW = 75
"""The exit code of a server that wants to begin anew, with the files of now."""
ASKED_TO_STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LIVED = 10.0
"""Seconds after which a server that ended is begun again at once."""
LONGEST = 30.0
"""Seconds between two that end as soon as they have begun."""
_READY = b"r"
_SOCKET = "STANDALONE_SOCKET"
"""The port that is open already, where this process took another one's place."""


class Served:
    """The server's side: its supervisor is at the other end."""

    def __init__(self, connection: socket.socket, *, again: bool) -> None:
        self._connection, self.again = connection, again

    def is_ready(self) -> None:
        """From here on it is begun again where it ends unasked; what ends before says why, and
        would end again.
        """
        self._connection.send(_READY)

    def when_it_is_to_stop(self, stop: Callable[[], Any]) -> None:
        """Have it called, in a thread, when the supervisor is asked to stop, or is gone."""

        def listen() -> None:
            with suppress(OSError):
                self._connection.recv(1)
            stop()

        threading.Thread(target=listen, name="supervisor", daemon=True).start()


def listen(host: str, port: int) -> socket.socket:
    """The port, open from now on. Raises OSError where it cannot be."""
    if number := os.environ.get(_SOCKET):
        return socket.socket(fileno=int(number))
    return socket.create_server((host, port), backlog=128)


def supervise(listener: socket.socket, *, say: Callable[[str], None]) -> Served:
    """Returns in a process of its own, which is to serve, as often as one is needed; this process
    only waits for it. Call before it has threads.
    """
    connections.close_all()
    handlers = {number: signal.getsignal(number) for number in ASKED_TO_STOP}
    pause, again = 0.0, bool(os.environ.pop(_SOCKET, ""))
    while True:
        ours, its = socket.socketpair()
        began, pid = time.monotonic(), os.fork()
        if pid == 0:
            ours.close()
            for number, handler in handlers.items():
                signal.signal(number, handler)  # those below are its supervisor's
            return Served(its, again=again)
        its.close()
        asked = _pass_on(ours, listener)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if asked or not _was_ready(ours):
            sys.stdout.flush()
            # it has nothing of its own to put away, and taking all apart would take a second
            os._exit(code if code >= 0 else 128 - code)
        ours.close()
        if code == ANEW:
            _begin_anew(listener)
        pause = 0.0 if time.monotonic() - began > LIVED else min(LONGEST, 2 * pause + 1)
        ended = f"signal {-code}" if code < 0 else f"code {code}"
        say(
            f"The server ended ({ended}). It is begun again{f' in {pause:g} s' if pause else ''}, "
            "and work goes on where it stopped."
        )
        time.sleep(pause)
        again = True


def _pass_on(connection: socket.socket, listener: socket.socket) -> list[int]:
    """Tell the server when this process is asked to stop; gives by what it was, so far."""
    asked: list[int] = []

    def stop(number: int, _: object) -> None:
        asked.append(number)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        listener.close()  # who comes now is refused at once

    for number in ASKED_TO_STOP:
        signal.signal(number, stop)
    return asked


def _was_ready(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == _READY
    except OSError:
        return False


def _begin_anew(listener: socket.socket) -> NoReturn:
    """Become the same command once more, as a deploy does it."""
    listener.set_inheritable(True)
    os.environ[_SOCKET] = str(listener.fileno())
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  # as it was called
