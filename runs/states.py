"""The words for where a run and a pause stand, and the only moves between them. No queries here."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy


class RunStatus(models.TextChoices):
    PENDING = "pending"
    """Waits for a worker."""
    RUNNING = "running"
    """A worker holds its lease."""
    PAUSED = "paused"
    """Waits for a person or a system; holds nothing."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """Nobody answered in time; not the same as rejected."""


PENDING, RUNNING, PAUSED = RunStatus.PENDING, RunStatus.RUNNING, RunStatus.PAUSED
COMPLETED, FAILED, CANCELLED, EXPIRED = (
    RunStatus.COMPLETED,
    RunStatus.FAILED,
    RunStatus.CANCELLED,
    RunStatus.EXPIRED,
)

TRIES_AGAIN, SLEEPS, FAILED_OVER = "tries_again", "sleeps", "failed_over"
"""`code` of the log lines that say so: with the `seconds` until then, the moment, `until`, or the
step that follows a failure, `to`.
"""
FAILURE = "failure"
"""Metadata on the step that failed for good and led to another one, until it is done after all."""
NOT_ASKED = "not_asked"
"""`code` of the log lines of steps that went on without an approval, which their template does not
ask for.
"""
GATHERS, GATHERED = "waits_for_children", "children_ended"
"""`code` of the log lines from which on a run waits for its child runs, and no longer."""

LIVE = frozenset({PENDING, RUNNING, PAUSED})
ENDED = frozenset({COMPLETED, FAILED, CANCELLED, EXPIRED})
RETRIED = frozenset({FAILED, EXPIRED})
"""Ends that a run may be taken up from."""

MOVES: dict[RunStatus, frozenset[RunStatus]] = {
    # PAUSED: an answer was taken back before the run went on with it
    PENDING: frozenset({RUNNING, PAUSED, CANCELLED}),
    # PENDING: time slice over, or worker lost
    RUNNING: frozenset({PENDING, PAUSED, COMPLETED, FAILED, CANCELLED}),
    PAUSED: frozenset({PENDING, CANCELLED, EXPIRED}),
    COMPLETED: frozenset(),
    FAILED: frozenset(),  # a retry is a new run
    CANCELLED: frozenset(),
    EXPIRED: frozenset(),
}


class PauseStatus(models.TextChoices):
    OPEN = "open", gettext_lazy("Open")
    ANSWERED = "answered", gettext_lazy("Answered")
    CANCELLED = "cancelled", gettext_lazy("Cancelled")
    EXPIRED = "expired", gettext_lazy("Expired")


class Lifecycle(models.TextChoices):
    """The states of a run that are watched: see `hitl.wait_gate.lifecycles`."""

    RUNNING = "running"
    WAITING = "waiting_external"
    RESUMED = "resumed"
    EXPIRED = "expired"
    COMPLETED = "completed"
    FAILED = "failed"


class PauseKind(models.TextChoices):
    """What a question wants."""

    APPROVAL = "approval"
    """A verdict on what was done, or is to be."""
    INPUT = "input"
    """Data."""
    TOOLS = "tools"
    """A decision on each of several tool calls."""
    EXTERNAL = "external"
    """The answer of a system, or one for a run of another engine."""


class NotificationStage(models.IntegerChoices):
    """How far those who are to know of a pause have been planned to be told; the telling itself is
    rows of its own.
    """

    NOTHING = 0
    QUESTION = 1
    END = 2


class FailureCode(models.TextChoices):
    """Why a run ended without its result, for filters and metrics.

    Step failures may bring a code of their own.
    """

    CANCELLED_BY_USER = "cancelled_by_user"
    CANCELLED_WITH_PARENT = "cancelled_with_parent"
    CANCELLED_BY_POLICY = "cancelled_by_policy"
    """Nobody answered in time, and the template says cancel."""
    EXPIRED = "expired"
    """Nobody answered in time."""
    STEP_ERROR = "step_error"
    INCIDENT = "incident"
    CHILD_CANNOT_START = "child_cannot_start"
    """What a child run begins with does not fit its parent's state."""


class LeaseLost(Exception):
    """The run was cancelled or belongs to another worker by now; this one must write nothing."""


class RunEnded(Exception):
    """The run has ended, so it can be neither cancelled nor answered."""

    code = "run_ended"


BEFORE, AFTER, SUSPENDED = "interrupted_before", "interrupted_after", "suspended"
STOPS = frozenset({BEFORE, AFTER, SUSPENDED})
"""Phases of pauses that no step asked for: their answer is no verdict on the step."""
