"""The process from which body processes are forked: a copy of the worker as it was before it had
threads, connections or messages. It does nothing else, and outlives its worker by no more than it
takes to end what that has left.
"""

from __future__ import annotations

import gc
import logging
import os
import selectors
import shutil
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from django.db import connections

from runs.engine.body_processes import child, wire

logger = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds for the first word of a connection, and for the end of a process that is asked about."""
REMEMBERED = 1000
"""Ended processes whose code is known."""
_PEER = struct.Struct("3i")
"""Who is at the other end of a socket: process, user, group."""
SWEEP = 0.2
"""Seconds between two looks at what ended processes have left behind, while there is any."""


@dataclass
class Handle:
    """A fork server, as its worker knows it. Forked children of the worker know it as well."""

    pid: int
    address: str
    worker: int
    """The process that forked it."""
    _control: socket.socket

    def connect(self) -> socket.socket:
        """A body process at the other end.

        Where the server is gone, no step can be taken any more: the worker is told to end, for what
        supervises it to start another one, and OSError is raised.
        """
        try:
            return self._ask(["body"])
        except (ConnectionRefusedError, FileNotFoundError):
            logger.critical("the server of body processes is gone, so this worker ends")
            os.kill(self.worker, signal.SIGTERM)
            raise

    def code_of(self, pid: int) -> int | None:
        """How a body process ended, as `os.waitstatus_to_exitcode` says it; None where nobody
        knows.
        """
        try:
            with self._ask(["code", pid]) as connection:
                connection.settimeout(PATIENCE * 2)
                answer = wire.receive(connection)
        except OSError:
            return None
        return None if answer is None else answer[0]

    def _ask(self, message: list[object]) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self.address)
            wire.send(connection, message)
        except OSError:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """End it, and with it all body processes."""
        self._control.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def forget(self) -> None:
        """In a forked child of the worker: the server is not to live as long as that does."""
        self._control.close()


def start(
    work: child.Work,
    *,
    enter: Callable[[child.BodyProcess], None] = lambda _: None,
    leave: Callable[[], None] = lambda: None,
) -> Handle:
    """Fork it. Call before this process has threads, and with what bodies need imported.

    `work(run_id)` is what a body process does with a run; `enter` is called in each body process,
    `leave` right before one ends.
    """
    connections.close_all()
    folder = Path(tempfile.mkdtemp(prefix="waystation-"))
    ours, its = socket.socketpair()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "bodies"))
    listener.listen(128)
    worker = os.getpid()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _Server(its, listener, folder, _Serving(work, enter, leave), worker).serve()
    its.close()
    listener.close()
    return Handle(pid, str(folder / "bodies"), worker, ours)


@dataclass(frozen=True)
class _Serving:
    work: child.Work
    enter: Callable[[child.BodyProcess], None]
    leave: Callable[[], None]


@dataclass
class _Server:
    control: socket.socket
    listener: socket.socket
    folder: Path
    serving: _Serving
    worker: int
    bodies: set[int] = field(default_factory=set)
    of: dict[int, set[int]] = field(default_factory=dict)
    """Descriptor of a forked child of the worker's → its body processes."""
    watched: dict[int, int] = field(default_factory=dict)
    """Its process → that descriptor."""
    codes: dict[int, int] = field(default_factory=dict)

    def serve(self) -> NoReturn:
        try:
            self._serve()
        except BaseException:
            logger.exception("the server of body processes fell")
        finally:
            self._end()
            os._exit(0)

    def _serve(self) -> None:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        reads, writes = os.pipe()
        for end in (reads, writes):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
        child.become_subreaper()
        gc.freeze()  # what is there stays, and is shared with all forks
        with selectors.DefaultSelector() as looking:
            for file in (self.control, self.listener, reads):
                looking.register(file, selectors.EVENT_READ)
            strays = False
            while True:
                found = {key.fileobj for key, _ in looking.select(SWEEP if strays else None)}
                self._end_orphans(found, looking)
                if reads in found:
                    with suppress(BlockingIOError):
                        os.read(reads, 4096)
                strays = self._reap()
                if self.control in found:
                    return
                if self.listener in found:
                    self._accept(looking)

    def _accept(self, looking: selectors.BaseSelector) -> None:
        connection, _ = self.listener.accept()
        connection.settimeout(PATIENCE)
        with connection:
            try:
                asked = wire.receive(connection)
            except OSError:
                return
            if asked == ["body"]:
                self._fork(connection, looking)
            elif asked is not None:
                with suppress(OSError):
                    wire.send(connection, [self._code(int(asked[1]))])

    def _fork(self, connection: socket.socket, looking: selectors.BaseSelector) -> None:
        pid = os.fork()
        if pid:
            self.bodies.add(pid)
            self._note_whose(pid, connection, looking)
            return
        signal.set_wakeup_fd(-1)
        looking.close()
        self.control.close()
        self.listener.close()
        connection.settimeout(None)
        gc.unfreeze()
        child.serve(
            connection,
            self.serving.work,
            enter=self.serving.enter,
            leave=self.serving.leave,
        )

    def _note_whose(
        self, pid: int, connection: socket.socket, looking: selectors.BaseSelector
    ) -> None:
        """Of a prefork worker's child: its body processes end with it."""
        if not hasattr(os, "pidfd_open"):
            return
        seen = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        whose, *_ = _PEER.unpack(seen)
        if whose == self.worker:
            return
        if whose not in self.watched:
            try:
                descriptor = os.pidfd_open(whose)
            except ProcessLookupError:
                return _kill(pid)
            self.watched[whose], self.of[descriptor] = descriptor, set()
            looking.register(descriptor, selectors.EVENT_READ)
        self.of[self.watched[whose]].add(pid)

    def _end_orphans(self, found: Collection[object], looking: selectors.BaseSelector) -> None:
        for whose, descriptor in list(self.watched.items()):
            if descriptor in found:
                for pid in self.of.pop(descriptor) & self.bodies:
                    _kill(pid)
                looking.unregister(descriptor)
                os.close(descriptor)
                del self.watched[whose]

    def _code(self, pid: int) -> int | None:
        """Waits for a process that is about to end."""
        ends = time.monotonic() + PATIENCE
        while pid in self.bodies and time.monotonic() < ends:
            self._reap()
            time.sleep(0.005)  # it has closed its connection, so it is ending
        return self.codes.get(pid)

    def _reap(self) -> bool:
        """Bury what ended, and end what it left behind; whether any of that is left."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                if pid in self.bodies:
                    self.bodies.discard(pid)
                    if len(self.codes) > REMEMBERED:
                        self.codes.clear()
                    self.codes[pid] = os.waitstatus_to_exitcode(status)
        left = children() - self.bodies
        for pid in left:
            _kill(pid)
        return bool(left)

    def _end(self) -> None:
        """End all that is left: what bodies started becomes ours, one generation after another."""
        shutil.rmtree(self.folder, ignore_errors=True)
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends and (left := children() | self.bodies):
            for pid in left:
                _kill(pid)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            self.bodies &= children()
            time.sleep(0.01)  # they die, and their children come


def children() -> set[int]:
    """The children of this process."""
    try:
        return {int(pid) for pid in Path("/proc/thread-self/children").read_text().split()}
    except OSError:  # a system without it
        return set()


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
