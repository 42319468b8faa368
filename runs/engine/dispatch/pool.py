"""The worker's side of body processes: has runs taken up in them, and ends those that do not end.

Messages about runs that are another's by now are nothing to end for: what counts is whether the run
is still the one that was claimed.
"""

from __future__ import annotations

import errno
import logging
import os
import queue
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from runs.engine.body_processes import child, wire
from runs.engine.body_processes.fork_server import Handle
from runs.engine.body_processes.slot import Seen, Slot
from runs.engine.dispatch import dead_bodies
from runs.engine.workers import lease
from runs.engine.workers.shutdown import stopping
from runs.models import Run
from runs.states import RUNNING

logger = logging.getLogger(__name__)

EVERY = 0.5
"""Seconds between two looks at bodies that are at work."""
YOUNG = 1.0
"""Seconds for which a body is not asked about: most are over by then."""
IDLE = 60.0
"""Seconds after which a process that nobody needs is let go."""
KEPT = 1
"""Processes that stay all the same."""
LEAVING = 3.0
"""Seconds that processes without work get at their worker's end, for what they have to send."""

Wake = tuple[uuid.UUID, str]


@dataclass(eq=False)
class Body:
    """A body process, as its worker sees it."""

    connection: socket.socket
    slot: Slot
    pid: int
    answers: queue.SimpleQueue[list[Any] | None] = field(default_factory=queue.SimpleQueue)
    run_id: uuid.UUID | None = None
    """What it works on."""
    since: float = 0.0
    asked: tuple[int, float] = (0, 0.0)
    """Which body was asked to end, and when."""
    killed: str = ""
    """Why it was ended."""
    seen: Seen = field(default_factory=lambda: Seen(0, 0, 0.0))
    """Its slot when it was ended."""
    gone: threading.Event = field(default_factory=threading.Event)
    """Nothing is said there any more."""

    def kill(self, why: str, seen: Seen) -> None:
        self.killed, self.seen = why, seen
        self._signal(signal.SIGKILL, group=True)

    def ask_to_end(self, seen: Seen) -> None:
        self.asked = (seen.number, time.monotonic())
        self._signal(signal.SIGUSR1)

    def _signal(self, number: int, *, group: bool = False) -> None:
        # nobody else can have its number before its connection is closed and it is buried
        with suppress(ProcessLookupError, PermissionError):
            if group:
                os.killpg(self.pid, number)
            os.kill(self.pid, number)


class Pool:
    """The body processes of this worker. `relays` are called with what they say besides: messages
    that only this process can send.
    """

    def __init__(self, server: Handle, relays: Mapping[str, Callable[..., None]]) -> None:
        self._server, self._relays = server, relays
        self._guard = threading.Lock()
        self._idle: list[Body] = []
        self._busy: set[Body] = set()
        self._leaving: set[Body] = set()
        self._watching = False

    def take_up(self, run_id: uuid.UUID) -> list[Wake]:
        """Have a run taken up in a body process; gives the runs that want a message because that
        died or was ended. Raises RuntimeError with the words of an engine that fell.
        """
        body = self._free()
        try:
            with lease.renewed(run_id):
                answer = self._have_done(body, run_id)
        except BaseException:
            self._drop(body)
            raise
        if answer is None:
            return self._ended(body, run_id)
        _, error, spoiled = answer
        self._keep(body, spoiled)
        if error:
            raise RuntimeError(error)
        return []

    def _have_done(self, body: Body, run_id: uuid.UUID) -> list[Any] | None:
        body.run_id, body.since, body.killed = run_id, time.monotonic(), ""
        with self._guard:
            self._busy.add(body)
            self._watch()
        try:
            with suppress(OSError):  # it died while it was idle: then there is no answer
                wire.send(body.connection, [str(run_id), lease.owner()])
            return body.answers.get()
        finally:
            with self._guard:
                self._busy.discard(body)
            body.run_id = None

    def _free(self) -> Body:
        with self._guard:
            if self._idle:
                return self._idle.pop()
        return self._made()

    def _made(self) -> Body:
        connection = self._server.connect()
        try:
            _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
            if not descriptors:
                raise OSError(errno.ECONNRESET, "no body process came")
            slot = Slot(descriptors[0])
            slot.close_descriptor()
            hello = wire.receive(connection)
            if hello is None:
                raise OSError(errno.ECONNRESET, "no body process came")
        except OSError:
            connection.close()
            raise
        body = Body(connection, slot, hello[1])
        threading.Thread(target=self._listen, args=(body,), name="body", daemon=True).start()
        return body

    def _listen(self, body: Body) -> None:
        """Hear what it says until it ends."""
        while True:
            try:
                said = wire.receive(body.connection)
            except OSError:
                said = None
            if said is None or said[0] == "done":
                body.answers.put(said)
            else:
                try:
                    self._relays[said[0]](*said[1:])
                except Exception:  # one message ends nobody's ear for the next, nor for "done"
                    logger.exception("could not pass on what a step's process says")
            if said is None:
                break
        body.connection.close()
        self._leaving.discard(body)
        body.gone.set()

    def _keep(self, body: Body, spoiled: str) -> None:
        if spoiled:
            logger.debug("a body process ends: %s", spoiled)
            return self._drop(body)
        with self._guard:
            body.since = time.monotonic()
            self._idle.append(body)
        return None

    def _drop(self, body: Body) -> None:
        """It sees the end of the connection, and ends once it has sent what it has to send."""
        self._leaving.add(body)
        if body.gone.is_set():
            return self._leaving.discard(body)
        with suppress(OSError):
            body.connection.shutdown(socket.SHUT_WR)
        return None

    def leave(self, seconds: float) -> None:
        """Let those without work end, and wait so long for them."""
        with self._guard:
            idle, self._idle = self._idle, []
        for body in idle:
            self._drop(body)
        ends = time.monotonic() + seconds
        for body in list(self._leaving):
            body.gone.wait(max(0.0, ends - time.monotonic()))

    def _ended(self, body: Body, run_id: uuid.UUID) -> list[Wake]:
        """What becomes of a run whose process ended under it."""
        seen = body.seen if body.killed else body.slot.look()
        self._drop(body)
        code = self._server.code_of(body.pid)
        if stopping():
            return []  # its run is handed back, by this worker or by the sweep
        if not seen.epoch:
            return [] if body.killed else [(run_id, _queue_of(run_id))]
        try:
            if time.monotonic() >= seen.deadline:
                return dead_bodies.timed_out(run_id, seen.epoch)
            if body.killed:
                logger.info("ended a step of %s: %s", run_id, body.killed)
                return []
            return dead_bodies.died(run_id, seen.epoch, code)
        finally:
            connection.close()

    def _watch(self) -> None:
        """Call with the guard held."""
        if not self._watching:
            self._watching = True
            threading.Thread(target=self._look, name="body-watch", daemon=True).start()

    def _look(self) -> None:
        while True:
            time.sleep(EVERY)  # what ends a run tells no worker
            try:
                with self._guard:
                    busy = list(self._busy)
                    spare = self._spare()
                for body in spare:
                    self._drop(body)
                self._look_at(busy)
            except (DatabaseError, InterfaceError) as error:
                logger.warning("could not look after steps at work, will try again: %s", error)
                connection.close()
            except Exception:  # without this thread no body is ended any more
                logger.exception("could not look after steps at work, will try again")

    def _spare(self) -> list[Body]:
        """Take out processes that nobody needed for a while."""
        old = time.monotonic() - IDLE
        spare = [body for body in self._idle[: max(0, len(self._idle) - KEPT)] if body.since < old]
        self._idle = [body for body in self._idle if body not in spare]
        return spare

    def _look_at(self, busy: list[Body]) -> None:
        now = time.monotonic()
        at_work = {
            body: seen
            for body in busy
            if now - body.since > YOUNG and (seen := body.slot.look()).is_at_work
        }
        if not at_work:
            connection.close()
            return
        ours = _held({body.run_id: seen.epoch for body, seen in at_work.items() if body.run_id})
        grace = settings.WAYSTATION_STEP_GRACE
        for body, seen in at_work.items():
            if now > seen.deadline + child.GRACE + grace:
                body.kill("its time was up", seen)
            elif body.run_id is None or (body.run_id, seen.epoch) in ours:
                continue
            elif body.asked[0] != seen.number:
                body.ask_to_end(seen)
            elif now - body.asked[1] > grace and body.slot.look() == seen:
                body.kill("the run was cancelled or taken over", seen)


def _held(runs: Mapping[uuid.UUID | None, int]) -> set[tuple[uuid.UUID, int]]:
    """Those that are still held by the claim that is known here."""
    found = Run.objects.filter(pk__in=list(runs), status=RUNNING).values_list("pk", "epoch")
    return {(pk, epoch) for pk, epoch in found}


def _queue_of(run_id: uuid.UUID) -> str:
    try:
        return Run.objects.filter(pk=run_id).values_list("queue", flat=True).first() or "steps"
    finally:
        connection.close()


_server: Handle | None = None
_relays: Mapping[str, Callable[..., None]] = {}
_pool: Pool | None = None
_making = threading.Lock()


def use(server: Handle, relays: Mapping[str, Callable[..., None]]) -> None:
    """From now on runs are taken up in body processes."""
    global _server, _relays
    _server, _relays = server, relays


def here() -> Pool | None:
    """The body processes of this process; None where bodies run in it."""
    global _pool
    if _server is None:
        return None
    with _making:
        if _pool is None:
            _pool = Pool(_server, _relays)
    return _pool


def leave(seconds: float = LEAVING) -> None:
    """Let those of this process end that have no work."""
    if _pool is not None:
        _pool.leave(seconds)


def end() -> None:
    """End the body processes, whatever they do."""
    global _server
    if _server is not None:
        leave()
        server, _server = _server, None
        server.close()


def _in_a_child() -> None:
    """A forked worker has body processes of its own, from the same server."""
    global _pool, _making
    _pool, _making = None, threading.Lock()
    if _server is not None:
        _server.forget()


os.register_at_fork(after_in_child=_in_a_child)
