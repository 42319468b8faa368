"""A run while a worker holds it: what its claim read, which stays as it is, and how far it has come
since, which changes.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from django.conf import settings

from checkpoints.models import Checkpoint
from checkpoints.telemetry.spans import SpanRef
from runs.engine.approvals import KEY, DecisionRecord
from runs.engine.context import orders, workspace
from runs.engine.context.secret_filter import SecretFilter
from runs.engine.context.watch import Watch
from runs.git.workspace import GitWorkspace
from runs.models import Repository, Run, WorkOrder
from runs.workflows.base import Order
from runs.workflows.sequence import FrozenStep

COUNTS = ("attempts", "untraced_steps", "lost_attempts", "deaths")
"""Columns of the run's row that its steps count up and down."""


class Progress:
    """How far a claimed run has come: where its next step starts from, and what this step's commit
    tells besides. Each change is a method.

    A checkpoint that was read is written to by nobody: what the next one takes over is `metadata`.
    """

    def __init__(self, run: Run, head: Checkpoint) -> None:
        self.state: dict[str, Any] = {}
        self.written = head, self.state
        """The newest checkpoint that was written, and its state: what the next one is a delta
        against. Older than `head` where the template's frequency left out those since.
        """
        self.counts: dict[str, int] = {name: getattr(run, name) for name in COUNTS}
        """COUNTS, as the run's row has them."""
        self.code_seen: Mapping[str, str] = run.code_seen
        """The column of that name."""
        self.approved: Mapping[str, DecisionRecord] = {}
        """What counts as approved for it, by step, as it was looked up when the run was claimed."""
        self.trace: SpanRef | None = None
        """The span below which its steps' spans stand, where this process makes any."""
        self.wake: list[tuple[uuid.UUID, str]] = []
        """Runs that want a message once this one is let go, each with its queue."""
        self.due: list[tuple[dt.datetime, str]] = []
        """When something happens by itself that was written just now: with the queue of the run
        that is due then, with "" where the rules of its question act.
        """
        self.ended = False
        """Whether the run ended just now that another one waits for."""
        self.passed = ""
        """The queue of the step behind a review that was passed just now: the run is pending again,
        and this worker may claim it at once.
        """
        self._stand_at(head)

    def _stand_at(self, head: Checkpoint) -> None:
        self.head = head
        self.metadata: Mapping[str, Any] = head.metadata
        """The head's, of which approvals that do not count any more are gone."""
        self.joining = not head.next_step and "gather" in head.metadata
        """The run waited for child runs, and they have ended."""
        self.at = head.node_id if self.joining else head.next_step
        """The step at hand; "" where nothing follows."""
        self.joined: Mapping[str, Any] = {}
        """Metadata that child runs bring to the checkpoint after their join."""
        self.relied: dict[str, dict[str, str]] = {}
        """The decisions that the step at hand relied on: step that asked → decision's id, and the
        digest of what is done for it.
        """
        self.unasked: set[str] = set()
        """The steps about which it went on without an approval, since its template does not ask."""
        self.passing_over = False
        """The step at hand is skipped by its condition."""
        self.failed: tuple[Any, dict[str, Any]] | None = None
        """What is said of the step at hand where it failed and leads to another one."""

    @property
    def is_written(self) -> bool:
        """Whether the checkpoint that the run stands at is in its table."""
        return self.written[0] is self.head

    def load(self, state: dict[str, Any]) -> None:
        """Begin with the state of the head."""
        self.state, self.written = state, (self.head, state)

    def settle(self, approved: Mapping[str, DecisionRecord], names: Mapping[str, str]) -> None:
        """Take over what counts as approved (`approvals.settle`)."""
        self.approved, self.metadata = approved, {**self.metadata, KEY: names}

    def enter(self, trace: SpanRef) -> None:
        """Let the spans of its steps stand below this one."""
        self.trace = trace

    def pass_over(self, skips: bool) -> None:
        """Say whether the step at hand is skipped by its condition."""
        self.passing_over = skips

    def join(self, metadata: Mapping[str, Any]) -> None:
        """Take over what child runs bring to the next checkpoint."""
        self.joined = metadata

    def fail_over(self, metadata: Mapping[str, Any], told: tuple[Any, dict[str, Any]]) -> None:
        """Take over to the next checkpoint that the step at hand failed, and what is said of it."""
        self.joined, self.failed = metadata, told

    def rely_on(self, step: str, decision_id: str, material: str) -> None:
        """Note the decision that the step at hand relies on."""
        self.relied[step] = {"decision": decision_id, "material": material}

    def go_unasked(self, steps: Iterable[str]) -> None:
        """Note the steps about which the one at hand goes on without an approval."""
        self.unasked.update(steps)

    def see_code(self, code_seen: Mapping[str, str]) -> None:
        """Take over that changed code was said."""
        self.code_seen = code_seen

    def pass_review(self, queue: str) -> None:
        """Let this worker claim the run anew: its step passed the review that it asked for."""
        self.passed = queue

    def wake_later(self, wake: Iterable[tuple[uuid.UUID, str]]) -> None:
        """Send these runs a message once this one is let go."""
        self.wake += wake

    def end(self) -> None:
        """Note that the run has ended that another one waits for."""
        self.ended = True

    def wait_until(self, at: dt.datetime, queue: str = "") -> None:
        """Note when the run is due, or where no queue is named, its question."""
        self.due.append((at, queue))

    def go_on(
        self,
        checkpoint: Checkpoint,
        state: dict[str, Any],
        changed: Mapping[str, Any],
        *,
        written: bool,
    ) -> None:
        """Start the next step from here: a step was committed, and columns of the run changed."""
        if written:
            self.written = checkpoint, state
        self.state = state
        for name in self.counts:
            if name in changed:
                self.counts[name] = changed[name]
        self._stand_at(checkpoint)


@dataclass(frozen=True, eq=False, kw_only=True)
class ClaimedRun:
    """A run as its worker read it to claim it. Nothing of it changes while steps are taken; what
    does is in `progress`.
    """

    run: Run
    """Its row as it was read, with its thread and that one's head."""
    epoch: int
    """The epoch of its claim: the fence of all that this worker writes."""
    steps: list[FrozenStep]
    reducers: Mapping[str, str]
    """State key → reducer, as the definition says."""
    order: WorkOrder | None
    """None for a run on a thread without a work order."""
    limited: bool
    """Its template says how many runs may be at work at once."""
    progress: Progress
    watch: Watch
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
    def key(self) -> str:
        """Names this execution of the step: the same at every try, also by another worker or by the
        run that retries a failed one.
        """
        return key_of(self.progress.head, self.shown_id, self.progress.at)


def key_of(head: Checkpoint, run_id: str, step: str) -> str:
    """Name the coming execution of a step, as all its tries and retries do."""
    return str(head.metadata.get("scope") or f"{run_id}/{step}/{loop_num(head, step)}")


def loop_num(head: Checkpoint, name: str) -> int:
    """The number of the coming execution of step `name`, from 1."""
    return int(head.metadata.get("loops", {}).get(name, 0)) + 1
