"""A run while a worker holds it, and what its steps may do with it: log, record an effect, learn
that they must stop.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from checkpoints import store
from checkpoints.database import outages
from checkpoints.events import log
from checkpoints.models import Checkpoint, EventKind, Memo
from checkpoints.models.fields import Locked
from checkpoints.state import codec, redaction
from checkpoints.telemetry.spans import SpanRef
from runs.engine import approvals
from runs.engine.body_processes import endable
from runs.engine.context import artifacts, orders, workspace
from runs.engine.context.secret_filter import SecretFilter
from runs.engine.workers import shutdown
from runs.git.workspace import GitWorkspace
from runs.models import Repository, Run, WorkOrder
from runs.security import credentials
from runs.workflows.base import Order, Step, StepFailed, Stopped, Told
from runs.workflows.sequence import FrozenStep

logger = logging.getLogger(__name__)

CHECK_EVERY = 0.5
"""Seconds between two looks at the database by `Context.check`."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two tries to record an effect that has happened."""
OUTAGE = 600.0
"""Seconds for which that is tried.

A run whose database is away is taken over by nobody, however long ago its lease has run out.
"""


@dataclass
class ClaimedRun:
    """A run while this worker holds it: what the next step starts from."""

    run: Run
    epoch: int
    steps: list[FrozenStep]
    order: WorkOrder | None
    """None for a run on a thread without a work order."""
    head: Checkpoint
    state: dict[str, Any]
    limited: bool = False
    """Its template says how many runs may be at work at once."""
    checked_at: float = 0.0
    asked_at: float = 0.0
    wanted: bool = False
    """A person wants the run suspended, as far as was seen."""
    deadline: float = float("inf")
    """On the monotonic clock: when the step's time is up."""
    thread_ident: int = 0
    reducers: Mapping[str, str] = field(default_factory=dict)
    """State key → reducer, as the definition says."""
    passing_over: bool = False
    """The step at hand is skipped by its condition."""
    handed_back: bool = False
    """The time slice is over: the run is pending again and wants another task."""
    passed: str = ""
    """The queue of the step behind a review that was passed just now: the run is pending again, and
    this worker may claim it at once.
    """
    joined: Mapping[str, Any] = field(default_factory=dict)
    """Metadata that child runs bring to the checkpoint after their join."""
    kept: Checkpoint | None = None
    """The newest checkpoint that was written, where the template's frequency left out those since;
    `head` then is in no table.
    """
    kept_state: dict[str, Any] = field(default_factory=dict)
    noted: list[tuple[EventKind, dict[str, Any]]] = field(default_factory=list)
    """What the next commit tells besides, such as a budget that is nearly spent."""
    wake: list[tuple[uuid.UUID, str]] = field(default_factory=list)
    """Runs that want a message once this one is let go, each with its queue."""
    approved: Mapping[str, approvals.DecisionRecord] = field(default_factory=dict)
    """What counts as approved for it, by step, as it was looked up when the run was claimed."""
    relied: dict[str, dict[str, str]] = field(default_factory=dict)
    """The decisions that the step at hand relied on: step that asked → decision's id, and the
    digest of what is done for it.
    """
    unasked: set[str] = field(default_factory=set)
    """The steps about which it went on without an approval, since its template does not ask."""
    trace: SpanRef | None = None
    """The span below which its steps' spans stand, where this process makes any."""
    scrub: SecretFilter = field(default_factory=SecretFilter)
    """Takes the secrets that its steps asked for out of all that they write.

    Whatever writes a step's words goes through it.
    """

    @cached_property
    def shown_id(self) -> str:
        """Its run's, as people see it."""
        return self.run.shown_id

    @cached_property
    def shown_thread_id(self) -> str:
        return self.run.thread.shown_id

    @cached_property
    def told(self) -> Order:
        """What its steps are told of what was asked for: the same for all of them."""
        return orders.order_of(self.run, self.order)

    @property
    def repository(self) -> Repository | None:
        """Its order's repository as operators settled it, read with the run."""
        return self.order.repository if self.order else None

    @cached_property
    def open_workspace(self) -> Callable[..., GitWorkspace]:
        """What opens the folder that its steps work in."""
        return workspace.opener(self.run, self.told)

    @cached_property
    def shared(self) -> Path:
        return Path(settings.WAYSTATION_SHARED)

    @property
    def joining(self) -> bool:
        """The run waited for child runs, and they have ended."""
        return not self.head.next_step and "gather" in self.head.metadata

    @property
    def at(self) -> str:
        """The step at hand; "" where nothing follows."""
        return self.head.node_id if self.joining else self.head.next_step

    def move_on(
        self, checkpoint: Checkpoint, state: dict[str, Any], *, written: bool = True
    ) -> None:
        """A step is done: the next one starts from here."""
        if written:
            self.kept, self.kept_state = None, {}
        elif self.kept is None:
            self.kept, self.kept_state = self.head, self.state
        self.head, self.state, self.joined, self.relied, self.unasked, self.run.attempts = (
            checkpoint,
            state,
            {},
            {},
            set(),
            0,
        )

    @property
    def written(self) -> tuple[Checkpoint, dict[str, Any]]:
        """The newest checkpoint that was written, and its state: what the next one is a delta
        against.
        """
        return (self.head, self.state) if self.kept is None else (self.kept, self.kept_state)

    @property
    def key(self) -> str:
        """Names this execution of the step: the same at every try, also by another worker or by the
        run that retries a failed one.
        """
        return key_of(self.head, self.shown_id, self.at)

    def once(
        self,
        key: str,
        function: Callable[[], Any],
        *,
        tell: Callable[[Any], Told] | None = None,
        optional: bool = False,
        flush: Callable[[], None] = lambda: None,
    ) -> Any:
        """See `runs.workflows.base.Once`.

        `flush` writes what the step has said so far, before something is told.
        """
        unapproved = not (optional or self.relied or self.unasked) and approvals.is_behind_review(
            self.steps, self.at
        )
        with self._own_connection():
            return self._recorded(self.scrub(key), function, tell, flush, unapproved=unapproved)

    @contextmanager
    def _own_connection(self) -> Iterator[None]:
        """What the engine does for a step, which nothing breaks off; in a thread of the step's own
        with a connection that nobody else would close.
        """
        with endable.shielded():
            try:
                yield
            finally:
                if threading.get_ident() != self.thread_ident:
                    connection.close()

    def recorded(self, keys: Collection[str]) -> dict[str, Any]:
        """Those of these keys that `once` has recorded for this execution, each with its result."""
        with self._own_connection():
            return {
                memo.key: _result(memo)
                for memo in Memo.objects.filter(scope=self.key, key__in=keys)
            }

    def _recorded(
        self,
        key: str,
        function: Callable[[], Any],
        tell: Callable[[Any], Told] | None,
        flush: Callable[[], None],
        *,
        unapproved: bool,
    ) -> Any:
        memo = Memo.objects.filter(scope=self.key, key=key).first()
        if memo is not None:
            return _result(memo)
        # a run that was cancelled or taken over has no more effects; what is under way then cannot
        # be stopped
        self._require()
        with endable.exposed():
            value = function()
        value = self.scrub(value)
        codec.check(value, f"once[{key}]")
        value = redaction.redact(value)
        unsaid: Exception | None = None
        if tell is not None:
            try:
                flush()
            except outages.ERRORS as error:
                # words are lost, which is told below; the effect has happened, so it is recorded
                # first
                unsaid = error
        _insist_on(lambda: self._record_once(key, value, tell, unapproved=unapproved))
        if unsaid is not None:
            raise unsaid
        # of two threads the first to record wins
        return _result(Memo.objects.get(scope=self.key, key=key))

    def _record_once(
        self, key: str, value: Any, tell: Callable[[Any], Told] | None, *, unapproved: bool
    ) -> None:
        """Record what `once` computed, unless that is recorded: a commit whose answer was lost may
        have done it.
        """
        if Memo.objects.filter(scope=self.key, key=key).exists():
            return
        with transaction.atomic(durable=True):
            if tell is not None:
                kind, data = tell(value)
                self._append([(EventKind(kind), data)])
            if unapproved:
                self._append([(EventKind.LOG, approvals.unapproved_effect(key))])
            self._require()
            memo = Memo(
                thread_id=self.run.thread_id,
                scope=self.key,
                key=key,
                value=[value],
                unapproved=unapproved,
            )
            Memo.objects.bulk_create([memo], ignore_conflicts=True)

    def check(self) -> None:
        """Raise Stopped when the run was cancelled or taken over; asks the database at most every
        CHECK_EVERY seconds.
        """
        now = time.monotonic()
        if now > self.deadline:
            raise StepFailed("The step took longer than it may.", code="timeout")
        if now - self.checked_at < CHECK_EVERY:
            return
        self.checked_at = now
        with self._own_connection():
            self._require()

    def halting(self) -> bool:
        """Whether a step boundary is wanted; asks the database at most every CHECK_EVERY
        seconds.
        """
        now = time.monotonic()
        if now - self.asked_at >= CHECK_EVERY:
            self.asked_at = now
            self.wanted = Run.objects.held(self.run.pk, self.epoch).exclude(suspend_by="").exists()
        return self.wanted or shutdown.stopping()

    def _require(self) -> None:
        if not Run.objects.held(self.run.pk, self.epoch).exists():
            raise Stopped(f"{self.run.shown_id} was cancelled or taken over by another worker")

    def write_lines(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Log lines in one small commit, so that they are seen while the step still works.

        Raises Stopped where the run is not ours.
        """
        # whoever writes closes its connection, or keeps it
        self._commit_events([(EventKind.LOG, line) for line in lines])

    def write_chunk(self, text: str, *, step: str, loop: int) -> None:
        """A piece of what a step says, in its own small commit.

        Raises Stopped where the run is not ours.
        """
        # its writer keeps its connection
        self._commit_events(
            [(EventKind.STREAMING_CHUNK, {"content": text, "step": step, "loop_num": loop})]
        )

    def write_thought(self, text: str, *, step: str, loop: int) -> None:
        """The same of what it thinks aloud: without content, so that who knows of no thoughts takes
        them for no words.
        """
        data = {"content": "", "thinking": text, "step": step, "loop_num": loop}
        self._commit_events([(EventKind.STREAMING_CHUNK, data)])

    def write_event(self, kind: EventKind, data: Mapping[str, Any]) -> None:
        """An event in its own small commit. Raises Stopped where the run is not ours."""
        with self._own_connection():
            self._commit_events([(kind, data)])

    def _commit_events(self, facts: Sequence[tuple[EventKind, Mapping[str, Any]]]) -> None:
        with endable.shielded(), transaction.atomic(durable=True):
            self._append(facts)
            self._require()  # after the append, which waits for whoever is ending the run just now

    def _append(self, facts: Sequence[tuple[EventKind, Mapping[str, Any]]]) -> None:
        log.append(
            self.run.thread_id, self.run.pk, [(kind, self._sayable(data)) for kind, data in facts]
        )

    def _sayable(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        readable = {
            key: codec.readable(value) if isinstance(value, str) else value
            for key, value in data.items()
        }
        sayable: Mapping[str, Any] = self.scrub({"step": self.at, **readable})
        return sayable

    def keep(self, name: str, text: str, *, step: str, loop: int) -> None:
        """See `Context.keep`. Raises Stopped where the run is not ours, and StepFailed where its
        artifacts are too large.
        """
        self.keep_long(name, text, 0, step=step, loop=loop)

    def keep_long(self, name: str, text: str, whole: int, *, step: str, loop: int) -> None:
        """The same of a text of which `whole` bytes there were, and the middle is left out
        already.
        """
        artifacts.keep(
            self.run, name, self.scrub(text), whole, step=step, loop=loop, require=self._require
        )

    def require_approval(
        self, of: str | Step, material: Any = None, *, optional: bool = False
    ) -> None:
        """See `runs.workflows.base.RequireApproval`."""
        with self._own_connection():
            approvals.require(self, of, material, at=self.at, optional=optional)

    def credential(self, name: str, *, to: str = "") -> str:
        """See `runs.workflows.base.GiveCredential`."""
        with self._own_connection():
            secret = credentials.resolve(name, team_id=self.run.thread.team_id, to=to)
        self.scrub.learn(secret)
        return secret


def _insist_on(work: Callable[[], None]) -> None:
    """Do what records an effect that has happened.

    While there is trouble with the database it is tried again, for OUTAGE: an effect
    that is not recorded happens again."""
    ends, pause = time.monotonic() + OUTAGE, FIRST_PAUSE
    while True:
        try:
            return work()
        except outages.ERRORS as error:
            if not outages.is_trouble(error) or time.monotonic() + pause > ends:
                raise
            logger.warning("could not record an effect that has happened, trying again: %s", error)
            connection.close()
        time.sleep(pause)  # the database may be back by then
        pause = min(pause * 2, LONGEST_PAUSE)


def _result(memo: Memo) -> Any:
    """What was recorded; raises CheckpointDamaged where it cannot be read, so that it is not done
    again.
    """
    if isinstance(memo.value, Locked):
        raise store.unreadable(f"what {memo.scope} recorded as {memo.key}", memo.value.error)
    if not isinstance(memo.value, list) or len(memo.value) != 1:
        raise store.CheckpointDamaged(
            f"what {memo.scope} recorded as {memo.key} cannot be read; its stored text was changed"
        )
    return memo.value[0]


def key_of(head: Checkpoint, run_id: str, step: str) -> str:
    """Name the coming execution of a step, as all its tries and retries do."""
    return str(head.metadata.get("scope") or f"{run_id}/{step}/{loop_num(head, step)}")


def loop_num(head: Checkpoint, name: str) -> int:
    """The number of the coming execution of step `name`, from 1."""
    return int(head.metadata.get("loops", {}).get(name, 0)) + 1
