"""A body process: takes one run after another from its worker, and ends where it could not be left
as it was.
"""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from django.conf import settings
from django.db import connections

from runs.engine.body_processes import endable, wire
from runs.engine.body_processes.leftovers import Before
from runs.engine.body_processes.slot import Slot
from runs.engine.workers import lease
from runs.workflows.base import StepFailed, Stopped

logger = logging.getLogger(__name__)

Work = Callable[[str], None]
GRACE = 2.0
"""Seconds past its time limit for a step that looks at `Context.check`: it ends by itself, its
subprocesses with it.
"""
LONGEST = 1e8
"""Seconds that a timer of the system takes."""
WRONG = 70
"""The exit code where the engine itself fell."""
_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36
"""Of Linux' prctl."""

here: BodyProcess | None = None
"""Where this process is one."""


@contextmanager
def watched() -> Iterator[None]:
    """Around a body, with what the engine opens for it and closes behind it."""
    if here is None:
        yield
        return
    here.begin()
    try:
        yield
    finally:
        here.look_back()


def is_spoiled() -> bool:
    """Whether no other body may run in this process."""
    return here is not None and bool(here.spoiled)


class BodyProcess:
    """This process."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._turn = threading.Lock()
        self._slot = Slot.make()
        self._before: Before | None = None
        self.spoiled = ""
        """Why no other body may run in this process."""

    def say(self, *message: Any) -> None:
        """Tell the worker something, from any thread."""
        # where it is gone, this process goes at once
        with self._turn, suppress(OSError):
            wire.send(self._connection, message)

    def serve(self, work: Work, *, leave: Callable[[], None]) -> NoReturn:
        """Work until the worker has had enough, or this process is not as it was."""
        socket.send_fds(self._connection, [b"\0"], [self._slot.descriptor])
        self._slot.close_descriptor()
        wire.send(self._connection, ["ready", os.getpid()])
        while not self.spoiled and (job := wire.receive(self._connection)) is not None:
            run_id, lease.acting_for = job
            error = ""
            try:
                work(run_id)
            except Exception as reason:  # told to the worker, whose task it is
                logger.exception("could not work on %s", run_id)
                error = f"{type(reason).__name__}: {reason}"
            if is_spoiled():
                connections.close_all()
            self.say("done", error, self.spoiled)
        leave()
        os._exit(0)

    def begin(self) -> None:
        if self._before is None:
            self._before = Before()
        self._before.begin()

    def look_back(self) -> None:
        """Whether the body left anything behind."""
        assert self._before is not None
        self.spoiled = self.spoiled or self._before.left()

    def call(self, epoch: int, seconds: float, function: Callable[[], Any]) -> Any:
        """Call a body, which may be ended from outside.

        Raises what it raises; StepFailed(code="timeout") when its time is up, and Stopped where it
        was ended because the run is not this worker's any more.
        """
        assert self._before is not None  # `watched`
        ends = time.monotonic() + seconds
        self._slot.enter(epoch, ends)
        try:
            endable.begin()
            signal.setitimer(signal.ITIMER_REAL, min(seconds + GRACE, LONGEST))
            return function()
        except MemoryError as error:
            self.spoiled = "its body ran out of memory"
            raise StepFailed(
                f"The step needed more than the {settings.WAYSTATION_STEP_MEMORY:,} bytes of "
                "memory that it may have. Nothing of it was recorded.",
                code="out_of_memory",
            ) from error
        finally:
            was_ended = endable.end()
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._slot.leave()
            self.spoiled = self.spoiled or self._before.put_back()
            if was_ended:
                self._ended(ends, seconds)

    def _ended(self, ends: float, seconds: float) -> NoReturn:
        """Whatever a body answers or raises that was to end."""
        self.spoiled = "its body was ended"
        connections.close_all()
        if time.monotonic() >= ends:
            raise StepFailed(f"The step did not end within {seconds:g} s.", code="timeout")
        raise Stopped("the run was cancelled or taken over, so its step was ended")


def serve(
    connection: socket.socket,
    work: Work,
    *,
    enter: Callable[[BodyProcess], None],
    leave: Callable[[], None],
) -> NoReturn:
    """The life of a body process, right after its fork."""
    global here
    try:
        _set_apart()
        _bound_memory()
        here = BodyProcess(connection)
        enter(here)
        here.serve(work, leave=leave)
    except BaseException:
        logger.exception("a body process fell")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(WRONG)


def _set_apart() -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2):
        # a handler, not SIG_IGN: that would go on to the programs that steps start
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGUSR1, signal.SIGALRM):
        signal.signal(number, lambda *_: endable.want())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    prctl(_SET_SUBREAPER, 1)


def become_subreaper() -> None:
    """What children of this process leave behind becomes its own children."""
    prctl(_SET_SUBREAPER, 1)


def prctl(what: int, value: int) -> None:
    """Where the kernel is not Linux', nothing: what a session leaves behind may then live on."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


def _bound_memory() -> None:
    """What a body may take, beside what the process has already."""
    if (most := settings.WAYSTATION_STEP_MEMORY) and bounds_memory():
        has = _data_bytes()
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (has + most, hard))


def bounds_memory() -> bool:
    """Whether this system can bound the memory of a body: Linux counts what a process takes."""
    return sys.platform == "linux" and _data_bytes() > 0


def _data_bytes() -> int:
    try:
        with open("/proc/self/status") as status:
            lines = dict(line.split(":", 1) for line in status if line.startswith("VmData"))
    except OSError:
        return 0
    return int(lines.get("VmData", "0").split()[0]) * 1024
