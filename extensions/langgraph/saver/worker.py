"""One thread with one connection that does a saver's database work, whichever thread or event loop
asks for it.

LangGraph calls a saver from short-lived threads, each of which would open a connection of its own
and leave it open; and in an event loop Django's async ORM sends everything through one thread of
the whole process. Here jobs wait in a queue instead. The writes that are in it when the thread gets
to them are one transaction: a superstep's writes and its checkpoint often cost one commit, not two.

A job is done when it is committed. It is never part of the caller's transaction. After IDLE seconds
without a job the connection is closed and the thread ends, so a graph that waits for a person holds
neither.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from django.db import (
    Error,
    IntegrityError,
    InterfaceError,
    OperationalError,
    connections,
    transaction,
)

from checkpoints.database.statements import execute

IDLE = 20.0
"""Seconds."""
TOGETHER = 50
"""Jobs in one transaction, at most."""
LINGER = 0.002
"""Seconds that a job waits for the one that usually follows it."""
LUCK = 8
"""How often it may wait in vain before it does not any more."""
TRIES = 3
AGAIN = (IntegrityError, OperationalError, InterfaceError)
"""What may go away when the job is done again: a row that others deleted or made meanwhile, a
deadlock, a connection that was cut.
"""
Result = TypeVar("Result")


class Kind(Enum):
    READ = "read"
    """No transaction; on SQLite one would take the write lock."""
    ADD = "add"
    """Gives the statements to execute: those of several jobs may go together."""
    CHANGE = "change"
    """A transaction of its own."""


@dataclass
class Job:
    work: Callable[[], Any]
    kind: Kind
    more: bool = False
    """Whether another one usually follows at once."""
    future: Future[Any] = field(default_factory=Future)


class Worker:
    def __init__(self, using: str, forget: Callable[[], None]) -> None:
        """`forget` drops what jobs remember of the database; it is called before a job is done
        again.
        """
        self.using, self.forget = using, forget
        self._reset()
        _workers.add(self)

    def _reset(self) -> None:
        self._jobs: deque[Job] = deque()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._serving = self._closing = False
        self._luck = LUCK

    def submit(
        self, work: Callable[[], Result], kind: Kind, *, more: bool = False
    ) -> Future[Result]:
        job = Job(work, kind, more)
        # from now on: who is cancelled while waiting leaves a job that is done all the same
        job.future.set_running_or_notify_cancel()
        with self._wake:
            self._jobs.append(job)
            if self._serving:
                self._wake.notify()
            else:
                self._serving = True
                self._thread = threading.Thread(
                    target=self._serve, name="langgraph saver", daemon=True
                )
                self._thread.start()
        return job.future

    def close(self) -> None:
        """Finish what is waiting, close the connection, end the thread.

        A later job opens both anew.
        """
        with self._wake:
            self._closing = True
            thread = self._thread
            self._wake.notify()
        if thread is not None:
            thread.join()
        self._closing = False

    def _serve(self) -> None:
        batch: list[Job] = []
        try:
            while batch := self._next():
                self._do(batch)
        except BaseException as error:  # noqa: BLE001  # it is theirs who wait, and else would for ever
            self._end_with(batch, error)
        finally:
            connections[self.using].close()

    def _end_with(self, batch: list[Job], error: BaseException) -> None:
        """Tell all who wait that this thread ends; a later job begins another one."""
        with self._wake:
            left = [job for job in (*batch, *self._jobs) if not job.future.done()]
            self._jobs.clear()
            self._serving = False
        for job in left:
            job.future.set_exception(error)

    def _next(self) -> list[Job]:
        """The next job, and where it adds something all that do so behind it; nothing when it is
        time to end.
        """
        with self._wake:
            self._wake.wait_for(lambda: self._jobs or self._closing, IDLE)
            if not self._jobs:
                self._serving = False
                return []
            batch = [self._jobs.popleft()]
            if batch[0].more and not self._jobs and self._luck > 0:
                came = self._wake.wait_for(lambda: self._jobs or self._closing, LINGER)
                self._luck = LUCK if came else self._luck - 1
            while (
                batch[0].kind is Kind.ADD
                and self._jobs
                and self._jobs[0].kind is Kind.ADD
                and len(batch) < TOGETHER
            ):
                batch.append(self._jobs.popleft())
            return batch

    def _do(self, batch: list[Job]) -> None:
        if len(batch) == 1:
            self._alone(batch[0])
            return
        self._luck = LUCK
        try:
            self._add(batch)
        except Exception:  # noqa: BLE001  # each on its own: a bad job fails alone, and says why
            self.forget()
            for job in batch:
                self._alone(job)
        else:
            for job in batch:
                job.future.set_result(None)

    def _add(self, jobs: list[Job]) -> None:
        execute([statement for job in jobs for statement in job.work()], using=self.using)

    def _alone(self, job: Job) -> None:
        for attempt in range(1, TRIES + 1):
            try:
                result = self._result(job)
            except Exception as error:  # noqa: BLE001  # it is the caller's
                self.forget()
                if isinstance(error, Error) and not isinstance(error, IntegrityError):
                    connections[self.using].close()
                if attempt == TRIES or not isinstance(error, AGAIN):
                    job.future.set_exception(error)
                    return
            else:
                job.future.set_result(result)
                return

    def _result(self, job: Job) -> Any:
        match job.kind:
            case Kind.ADD:
                return self._add([job])
            case Kind.READ:
                return job.work()
            case Kind.CHANGE:
                with transaction.atomic(using=self.using):
                    return job.work()


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for worker in list(_workers):
        worker.close()


def _reset_all() -> None:
    """In a forked child there is no such thread, and the parent's connection is not ours."""
    for worker in list(_workers):
        worker._reset()


os.register_at_fork(after_in_child=_reset_all)
