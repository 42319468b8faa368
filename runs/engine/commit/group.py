"""Commits of several runs in one statement, where one process has several in flight (a pool of
threads).

The first to come leads: it commits what waits, its own write among it, and hands the lead to one of
those who came meanwhile. So nobody waits for others to come, a lone write goes as ever, and the
more come at once the less each costs. Everyone waits for their own commit.

What a statement for several does not write is written alone: a run whose fence does not hold or
whose row is locked, and all of them where one could not be written at all. So no run's trouble is
another's, and there is one place that says what a refusal means.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Sequence

from django.db import Error, OperationalError, connection

from runs.engine.commit import statements
from runs.engine.commit.statements import Write

MANY = 64
"""Writes that go as one: with more of them, each costs hardly less, and the first waits longer."""
HEAVY = 64 * 1024
"""Characters of a write that goes alone: others would wait for it."""


class _Waiting:
    """A write, and what its thread waits for: that it is done, or its turn to lead."""

    __slots__ = ("done", "error", "last", "leads", "shape", "turn", "write")

    def __init__(self, write: Write) -> None:
        self.write, self.shape = write, write.shape
        self.done = self.leads = False
        self.last: int | None = None
        self.error: Exception | None = None
        self.turn = threading.Lock()
        self.turn.acquire()


class Committer:
    """One per process.

    What is handed over from thread to thread is the lead; each statement goes over its leader's own
    connection.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._led = False

    def commit(self, write: Write) -> int | None:
        """`statements.one`, together with what other threads commit at this moment.

        No transaction may be open.
        """
        if write.weight > HEAVY:
            return statements.one(write)
        mine = _Waiting(write)
        with self._guard:
            mine.leads = not self._led
            self._led = True
            if not mine.leads:
                self._waiting.append(mine)
        if not mine.leads:
            mine.turn.acquire()
        if mine.leads:
            self._lead(mine)
        if mine.error is not None:
            raise mine.error
        return mine.last if mine.done else statements.one(write)

    def _lead(self, mine: _Waiting) -> None:
        others = self._like(mine)
        try:
            if others:
                _write([mine, *others])
            else:
                mine.last, mine.done = statements.one(mine.write), True
        finally:
            for other in others:
                other.turn.release()
            self._hand_over()

    def _like(self, mine: _Waiting) -> list[_Waiting]:
        """Take those who wait with a write of the same shape, each of another run: of two claims of
        one run only one may win.
        """
        taken: dict[uuid.UUID, _Waiting] = {mine.write.run_id: mine}
        left = []
        with self._guard:
            for waiting in self._waiting:
                fits = (
                    waiting.shape == mine.shape
                    and len(taken) < MANY
                    and waiting.write.run_id not in taken
                )
                if fits:
                    taken[waiting.write.run_id] = waiting
                else:
                    left.append(waiting)
            self._waiting = left
        return list(taken.values())[1:]

    def _hand_over(self) -> None:
        with self._guard:
            following = self._waiting.pop(0) if self._waiting else None
            if following is None:
                self._led = False
            else:
                following.leads = True
        if following is not None:
            following.turn.release()


def _write(batch: Sequence[_Waiting]) -> None:
    """One statement for all of them.

    One that it does not write, or that brings it down, is left to be written alone.

    Where the connection broke, nobody knows what was committed: then all are told so, as each would
    have been alone.
    """
    try:
        written = statements.several([commit.write for commit in batch])
    except Error as error:
        if connection.connection is None or connection.connection.closed:
            for commit in batch:
                commit.error = OperationalError(*error.args)
        return
    for commit in batch:
        commit.last = written.get(commit.write.run_id)
        commit.done = commit.last is not None


def _replace_committer() -> None:
    global _committer
    _committer = Committer()


_committer = Committer()
# a forked child inherits the lead of a thread that it does not have
os.register_at_fork(after_in_child=_replace_committer)


def commit(write: Write) -> int | None:
    """See `Committer.commit`."""
    return _committer.commit(write)
