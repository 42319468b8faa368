"""Wire runs, derived: the stretch of a run between its start or an answer, and its next question or
its end. Nothing is kept of them, so what begins or is answered through another door has one too. An
edit of the state between runs is none, though it is a run of ours.

| begins with | its id |
|---|---|
| a run | `Run.pk`, or `QueuedTurn.pk` where it waited in the line |
| an answer that closes a question | `Decision.pk` |
| a vote, where others must approve too | `Vote.pk`: it ends at once |
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Q

from checkpoints import ids
from checkpoints.models import Event, EventKind
from hitl.decisions.services import NotFound
from hitl.live.subscriptions import TERMINAL
from hitl.models import Decision, Vote
from runs.models import QueuedTurn, Run
from runs.states import CANCELLED, COMPLETED, LIVE
from runs.threads import edits

PENDING, RUNNING, SUCCESS, ERROR, INTERRUPTED = (
    "pending", "running", "success", "error", "interrupted",
)  # fmt: skip
AT_WORK = frozenset({PENDING, RUNNING})
ENDS = {EventKind.RUN_COMPLETED.value: SUCCESS, EventKind.RUN_CANCELLED.value: INTERRUPTED}
"""Events that end a run without an error."""
MARKS = frozenset({EventKind.RUN_PAUSED, EventKind.APPROVAL_RECEIVED, *TERMINAL})
"""Events with which a segment begins or ends; of runs with child runs some lines of the log too:
`mark_of`."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    wire_id: uuid.UUID
    thread_id: uuid.UUID
    run: Run | None
    """None while it waits in the line, and where it never began."""
    first: int
    """The number in the thread's log with which it begins, and"""
    last: int | None
    """with which it ends; None until then."""
    status: str
    began_at: dt.datetime
    changed_at: dt.datetime

    @property
    def is_over(self) -> bool:
        return self.status not in AT_WORK


def mark_of(kind: str, data: Mapping[str, Any]) -> str:
    """`asks`, `answered`, `ended`, or "" for an event that is no mark: those of a run's own
    questions, and the lines that tell of its child runs'.
    """
    if kind in TERMINAL:
        return "ended"
    if kind == EventKind.RUN_PAUSED:
        return "asks"
    if kind == EventKind.APPROVAL_RECEIVED:
        return "answered"
    if kind == EventKind.LOG and "child_run_id" in data:
        return "asks" if "pause_id" in data else "answered" if data.get("decision_id") else ""
    return ""


def of_run(run: Run) -> list[Segment]:
    """The segments of a run, in their order."""
    events = Event.objects.filter(thread=run.thread_id, run_id=run.pk).order_by("seq")
    marks = Q(kind__in=MARKS)
    if Run.objects.filter(parent=run).exists():
        marks |= Q(kind=EventKind.LOG)
    first = events.values_list("seq", flat=True).first() or 0
    queued = QueuedTurn.objects.filter(run=run).first()
    at = Segment(
        wire_id=queued.pk if queued else run.pk,
        thread_id=run.thread_id,
        run=run,
        first=first,
        last=None,
        status=RUNNING,
        began_at=run.created_at,
        changed_at=run.created_at,
    )
    segments, own, below = [], False, 0
    for event in events.filter(marks):
        data = event.data if isinstance(event.data, Mapping) else {}
        match mark_of(event.kind, data):
            case "asks":
                own, below = own or event.kind != EventKind.LOG, below + (event.kind == "log")
                if at.last is None:
                    at = replace(at, last=event.seq, status=SUCCESS, changed_at=event.at)
            case "answered" if (key := _key(data)) is not None:
                own, below = own and event.kind == "log", max(0, below - (event.kind == "log"))
                if at.last is None:  # answered while others still asked
                    at = replace(at, last=event.seq, status=SUCCESS, changed_at=event.at)
                segments.append(at)
                at = replace(
                    at, wire_id=key, first=event.seq, last=None, status=RUNNING,
                    began_at=event.at, changed_at=event.at,
                )  # fmt: skip
                if own or below:
                    at = replace(at, last=event.seq, status=SUCCESS)
            case "ended":
                last = events.values_list("seq", flat=True).last() or event.seq
                if at.last is None:
                    # the row was read before: it may not say so yet
                    status = ENDS.get(event.kind, ERROR)
                    at = replace(at, last=last, status=status, changed_at=event.at)
    if at.last is None and run.status not in LIVE:  # imported, or its log's end was dropped
        at = replace(at, last=at.first, status=_end(run))
    if at.last is None and run.started_at is None:
        at = replace(at, status=PENDING)
    return [*segments, at]


def _key(data: Mapping[str, Any]) -> uuid.UUID | None:
    try:
        return ids.parse(Decision.PREFIX, str(data.get("decision_id")))
    except ValueError:
        return None


def _end(run: Run) -> str:
    ends: dict[str, str] = {COMPLETED: SUCCESS, CANCELLED: INTERRUPTED}
    return ends.get(run.status, ERROR)


def of_thread(thread_id: uuid.UUID, *, enough: int) -> list[Segment]:
    """A thread's newest segments, newest first: those of the runs that give `enough`."""
    line = QueuedTurn.objects.waiting().filter(thread=thread_id)
    segments = [waiting(turn) for turn in reversed(line)]
    runs = Run.objects.filter(thread=thread_id).exclude(edits.ONLY)
    for run in runs.order_by("-id").iterator():
        if len(segments) >= enough:
            break
        segments += reversed(of_run(run))
    return segments


def waiting(turn: QueuedTurn) -> Segment:
    """A message that has begun no run."""
    status = {"waiting": PENDING, "refused": ERROR}.get(turn.status, INTERRUPTED)
    return Segment(
        wire_id=turn.pk,
        thread_id=turn.thread_id,
        run=None,
        first=0,
        last=None if status == PENDING else 0,
        status=status,
        began_at=turn.created_at,
        changed_at=turn.closed_at or turn.created_at,
    )


def find(thread_id: uuid.UUID, wire_id: uuid.UUID) -> Segment:
    """A segment of a thread by its id. Raises NotFound."""
    run = Run.objects.filter(pk=wire_id, thread=thread_id).first()
    if run is not None:
        return replace(of_run(run)[0], wire_id=wire_id)
    turn = QueuedTurn.objects.filter(pk=wire_id, thread=thread_id).select_related("run").first()
    if turn is not None:
        return of_run(turn.run)[0] if turn.run is not None else waiting(turn)
    decision = Decision.objects.filter(pk=wire_id, undoes=None).select_related("pause__run").first()
    vote = Vote.objects.filter(pk=wire_id).select_related("pause__run").first()
    pause = decision.pause if decision else vote.pause if vote else None
    run = _upwards(pause.run if pause else None, thread_id)
    if run is None:
        raise NotFound("There is no such run of this thread.")
    segments = of_run(run)
    for segment in segments:
        if segment.wire_id == wire_id:
            return segment
    last = segments[-1]
    seq = last.last or last.first
    return replace(last, wire_id=wire_id, first=seq, last=seq, status=SUCCESS)


def _upwards(run: Run | None, thread_id: uuid.UUID) -> Run | None:
    """The run of this thread that a run is, or works for."""
    while run is not None and run.thread_id != thread_id:
        run = run.parent
    return run
