"""The process from which body processes are forked: a copy of the worker as it was before it had
threads, connections or messages. It does nothing but fork, and outlives its worker only until the
processes that the worker left have ended.
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
"""Seconds to wait for the first message of a connection, and for the end of a process that a worker
asks about.
"""
REMEMBERED = 1000
"""How many ended processes' exit codes are kept."""
_PEER = struct.Struct("3i")
"""The kernel's record of the other end of a socket: process, user, group."""
SWEEP = 0.2
"""Seconds between two looks for processes that ended ones left behind, while there are any."""


@dataclass
class Handle:
    """A fork server, as its worker knows it. Forked children of the worker know it as well."""

    pid: int
    address: str
    worker: int
    """The process that forked it."""
    _control: socket.socket

    def connect(self) -> socket.socket:
        """Fork a body process, and give the connection to it.

        Where the server is gone, no step can be taken any more: this ends the worker, so that its
        supervisor starts another one, and raises OSError.
        """
        try:
            return self._ask(["body"])
        except (ConnectionRefusedError, FileNotFoundError):
            logger.critical("the server of body processes is gone, so this worker ends")
            os.kill(self.worker, signal.SIGTERM)
            raise

    def code_of(self, pid: int) -> int | None:
        """Tell how a body process ended, as `os.waitstatus_to_exitcode` does; None where the server
        does not know.
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
        """End the server, and all body processes with it."""
        self._control.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def forget(self) -> None:
        """Let go of the server in a forked child of the worker: it must not live as long as that
        child does.
        """
        self._control.close()


def start(
    work: child.Work,
    *,
    enter: Callable[[child.BodyProcess], None] = lambda _: None,
    leave: Callable[[], None] = lambda: None,
) -> Handle:
    """Fork the server. Call before this process has threads, and after importing what bodies need.

    `work(run_id)` is what a body process does with a run; `enter` is called in each body process,
    `leave` right before one ends.
    """
    connections.close_all()
    folder = Path(tempfile.mkdtemp(prefix="waystation-"))
    ours, theirs = socket.socketpair()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "bodies"))
    listener.listen(128)
    worker = os.getpid()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _Server(theirs, listener, folder, _Serving(work, enter, leave), worker).serve()
    theirs.close()
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
    bodies_of: dict[int, set[int]] = field(default_factory=dict)
    """Pidfd of a worker's forked child → the child's body processes."""
    watched: dict[int, int] = field(default_factory=dict)
    """Process id of a worker's forked child → its pidfd."""
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
        with selectors.DefaultSelector() as selector:
            for file in (self.control, self.listener, reads):
                selector.register(file, selectors.EVENT_READ)
            strays = False
            while True:
                ready = {key.fileobj for key, _ in selector.select(SWEEP if strays else None)}
                self._end_orphans(ready, selector)
                if reads in ready:
                    with suppress(BlockingIOError):
                        os.read(reads, 4096)
                strays = self._reap()
                if self.control in ready:
                    return
                if self.listener in ready:
                    self._accept(selector)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        connection, _ = self.listener.accept()
        connection.settimeout(PATIENCE)
        with connection:
            try:
                request = wire.receive(connection)
            except OSError:
                return
            if request == ["body"]:
                self._fork(connection, selector)
            elif request is not None:
                with suppress(OSError):
                    wire.send(connection, [self._code(int(request[1]))])

    def _fork(self, connection: socket.socket, selector: selectors.BaseSelector) -> None:
        pid = os.fork()
        if pid:
            self.bodies.add(pid)
            self._note_owner(pid, connection, selector)
            return
        signal.set_wakeup_fd(-1)
        selector.close()
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

    def _note_owner(
        self, pid: int, connection: socket.socket, selector: selectors.BaseSelector
    ) -> None:
        """Note which child of a prefork worker has this body process, which then ends with it."""
        if not hasattr(os, "pidfd_open"):
            return
        seen = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        owner, *_ = _PEER.unpack(seen)
        if owner == self.worker:
            return
        if owner not in self.watched:
            try:
                descriptor = os.pidfd_open(owner)
            except ProcessLookupError:
                return _kill(pid)
            self.watched[owner], self.bodies_of[descriptor] = descriptor, set()
            selector.register(descriptor, selectors.EVENT_READ)
        self.bodies_of[self.watched[owner]].add(pid)

    def _end_orphans(self, ready: Collection[object], selector: selectors.BaseSelector) -> None:
        for owner, descriptor in list(self.watched.items()):
            if descriptor in ready:
                for pid in self.bodies_of.pop(descriptor) & self.bodies:
                    _kill(pid)
                selector.unregister(descriptor)
                os.close(descriptor)
                del self.watched[owner]

    def _code(self, pid: int) -> int | None:
        """Wait for a process that is about to end, and give its exit code."""
        ends = time.monotonic() + PATIENCE
        while pid in self.bodies and time.monotonic() < ends:
            self._reap()
            time.sleep(0.005)  # it has closed its connection, so it is ending
        return self.codes.get(pid)

    def _reap(self) -> bool:
        """Reap processes that ended, and kill those that they left behind; say whether any was
        left.
        """
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
        """End all that is left: processes that bodies started become our children, one generation
        after another.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends and (left := children() | self.bodies):
            for pid in left:
                _kill(pid)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            self.bodies &= children()
            time.sleep(0.01)  # they die, and their children become ours


def children() -> set[int]:
    """List the children of this process."""
    try:
        return {int(pid) for pid in Path("/proc/thread-self/children").read_text().split()}
    except OSError:  # a system without it
        return set()


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
