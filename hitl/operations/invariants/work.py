"""What must hold of runs, their checkpoints and their logs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from checkpoints.database import clock
from checkpoints.models import Checkpoint, CheckpointStatus, Event, EventKind, Thread
from checkpoints.retention.rules import steps_done
from hitl.models import Decision, Import
from hitl.operations.invariants.base import Broken, invariant
from runs.models import Pause, Run, Schedule, WorkOrder
from runs.states import COMPLETED, ENDED, EXPIRED, LIVE, PAUSED, PENDING, RUNNING, PauseStatus
from runs.workflows.code import compatibility
from runs.workflows.sequence import CANCEL, ENDINGS

ENDS = (
    EventKind.RUN_COMPLETED,
    EventKind.RUN_FAILED,
    EventKind.RUN_CANCELLED,
    EventKind.RUN_EXPIRED,
)
WORK = (
    EventKind.STEP_STARTED,
    EventKind.STEP_COMPLETED,
    EventKind.TOOL_CALL_STARTED,
    EventKind.TOOL_CALL_COMPLETED,
)

# nothing waits for a worker for long


@invariant("P3", "A run that is due is soon picked up by a worker.")
def not_picked_up(before: dt.datetime) -> Broken:
    return Run.objects.overdue(before=before).only("pk")


@invariant("P3", "A run whose worker was lost is soon taken back.")
def not_taken_back(before: dt.datetime) -> Broken:
    return Run.objects.lost(now=before).only("pk")


@invariant("P3", "A schedule that is due is soon looked at.")
def schedule_not_looked_at(before: dt.datetime) -> Broken:
    """Also one with which something goes wrong again and again is put off from now, not left."""
    return Schedule.objects.due(now=before).only("pk")


@invariant("P3", "No lease ends later than one that is taken now.")
def lease_too_long(before: dt.datetime) -> Broken:
    """A lease that ends later than one taken or renewed now: its worker could be lost for long
    before anybody finds out.
    """
    latest = clock.FromNow(2 * settings.WAYSTATION_LEASE_SECONDS)
    return Run.objects.filter(status=RUNNING, lease_until__gt=latest).only("pk")


@invariant("P3", "A work order's latest run is its own and its newest.")
def latest_run_is_another(before: dt.datetime) -> Broken:
    newer = Run.objects.filter(thread=OuterRef("thread"), pk__gt=OuterRef("latest_run"))
    return WorkOrder.objects.filter(~Q(latest_run__work_order=F("pk")) | Exists(newer)).only("pk")


# changed code is said before it runs


@invariant(
    "P10",
    "A step whose code has changed since the run was asked for runs only after that was said "
    "or accepted.",
    deep=True,
)
def ran_changed_code_unsaid(before: dt.datetime) -> Iterator[Run]:
    begun = Event.objects.filter(run_id=OuterRef("pk"), kind=EventKind.STEP_STARTED).order_by(
        "-seq"
    )
    at_work = (
        Run.objects.filter(status=RUNNING)
        .annotate(begun=Subquery(begun.values("at")[:1]))
        .filter(begun__lt=before)
    )
    for run in at_work.select_related("thread__head", "definition"):
        name = run.thread.head.next_step if run.thread.head else ""
        step = next((step for step in run.frozen.steps if step["name"] == name), None)
        if (
            step
            and compatibility.judge(step) == "changed"
            and run.code_seen.get(name) != compatibility.current(step)
        ):
            yield run


# a step's result is committed exactly once


def _made_here(rows: QuerySet[Any], at: str) -> QuerySet[Any]:
    """Without what was imported: it is what another server says of itself."""
    return rows.filter(
        ~Exists(Import.objects.filter(thread=OuterRef("thread"), at__gte=OuterRef(at)))
    )


@invariant("P4", "Each execution of a step in a run has one result.")
def step_done_twice(before: dt.datetime) -> Broken:
    twice = (
        _made_here(steps_done(), "created_at")
        .values("run_id", "node_id", "loop_num")
        .annotate(count=Count("pk"))
        .filter(count__gt=1)
    )
    return Run.objects.filter(pk__in=twice.values("run_id")).only("pk")


@invariant("P4", "The checkpoints of a run follow one another, one after each.")
def history_forks(before: dt.datetime) -> Broken:
    followers = _made_here(
        Checkpoint.objects.filter(parent__isnull=False, graph=None), "created_at"
    )
    forks = followers.values("run_id", "parent").annotate(count=Count("pk")).filter(count__gt=1)
    return Run.objects.filter(pk__in=forks.values("run_id")).only("pk")


@invariant("P4", "A thread has at most one live run.")
def two_live_runs(before: dt.datetime) -> Broken:
    live = (
        Run.objects.filter(status__in=sorted(LIVE))
        .values("thread")
        .annotate(count=Count("pk"))
        .filter(count__gt=1)
    )
    return Thread.objects.filter(pk__in=live.values("thread")).only("pk")


@invariant("P4", "A completed or paused run has the checkpoint that says so.")
def end_without_result(before: dt.datetime) -> Broken:
    completed = Q(latest_run__status=COMPLETED) & ~Q(
        thread__head__status=CheckpointStatus.COMPLETED
    )
    asking = Q(latest_run__status=PAUSED, latest_run__awaited=0)
    waiting = asking & ~Q(thread__head__status=CheckpointStatus.PENDING_INPUT)
    return WorkOrder.objects.filter(completed | waiting).only("pk")


# a run goes on from where it stopped


@invariant("P5", "A paused run has exactly one open question, or waits for child runs.")
def paused_without_question(before: dt.datetime) -> Broken:
    opened = Count("pauses", filter=Q(pauses__status=PauseStatus.OPEN))
    return (
        Run.objects.filter(status=PAUSED, awaited=0)
        .annotate(opened=opened)
        .exclude(opened=1)
        .only("pk")
    )


@invariant("P3", "A run that waits for child runs counts those that live.")
def children_miscounted(before: dt.datetime) -> Broken:
    """A parent woken by a failure still has live children for a moment; one that waits has exactly
    those it counts.
    """
    live = Count("children", filter=Q(children__status__in=sorted(LIVE)))
    return (
        Run.objects.filter(status=PAUSED, awaited__gt=0)
        .annotate(live=live)
        .exclude(live=F("awaited") - F("gather_queued"))
        .only("pk")
    )


@invariant("P3", "Child runs that wait for their turn are started when it comes.")
def children_forgotten(before: dt.datetime) -> Broken:
    waits = Run.objects.filter(status=PAUSED, gather_queued__gt=0)
    overdue = waits.filter(gather_due_at__lt=before)
    nobody_is_live = waits.filter(awaited=F("gather_queued"), gather_due_at=None)
    return (overdue | nobody_is_live).only("pk")


@invariant("P6", "No child run lives on after the run that waited for it.")
def child_outlives_parent(before: dt.datetime) -> Broken:
    live = Run.objects.live().filter(parent__status__in=sorted(ENDED))
    return live.exclude(child_name__in=ENDINGS).only("pk")  # these follow that end


@invariant("P5", "A run with an open question is paused, not at work.")
def question_of_working_run(before: dt.datetime) -> Broken:
    return Pause.objects.open().filter(run__status__in=[PENDING, RUNNING]).only("pk")


@invariant("P5", "An open question was asked in the state its run goes on from.")
def question_is_not_the_head(before: dt.datetime) -> Broken:
    return Pause.objects.open().exclude(checkpoint=F("run__thread__head")).only("pk")


@invariant("P5", "A thread's head is a checkpoint of its own.")
def head_of_another_thread(before: dt.datetime) -> Broken:
    return Thread.objects.filter(head__isnull=False).exclude(head__thread=F("pk")).only("pk")


@invariant("P5", "A thread's head was written by its latest run.")
def head_of_another_run(before: dt.datetime) -> Broken:
    return WorkOrder.objects.exclude(thread__head__run_id=F("latest_run")).only("pk")


@invariant("P5", "No checkpoint follows a thread's head.")
def head_is_old(before: dt.datetime) -> Broken:
    """By descent, not by id: ids of two hosts are in order only as far as their clocks are."""
    return Thread.objects.filter(
        Exists(Checkpoint.objects.filter(parent=OuterRef("head"), thread=OuterRef("pk")))
    ).only("pk")


# nothing is done for what was cancelled, or not answered


def _went_on(status: CheckpointStatus) -> QuerySet[Checkpoint]:
    """What a run wrote after a checkpoint of its own in that status.

    A fork is another run: a person began it, and its step runs anew.
    """
    # a graph has rules of its own
    made_here = _made_here(Checkpoint.objects.filter(graph=None), "created_at")
    return made_here.filter(parent__status=status, parent__run_id=F("run_id"))


@invariant("P6", "What follows a question follows a decision that lets it go on.")
def went_on_unasked(before: dt.datetime) -> Broken:
    approved = Decision.objects.filter(pause__checkpoint=OuterRef("parent")).exclude(action=CANCEL)
    after = _went_on(CheckpointStatus.PENDING_INPUT).exclude(status=CheckpointStatus.CANCELLED)
    # its last checkpoint says so, and is a failure
    expired = Run.objects.filter(pk=OuterRef("run_id"), status=EXPIRED)
    return (
        after.filter(~Exists(approved))
        .exclude(Exists(expired), status=CheckpointStatus.FAILED)
        .only("pk")
    )


@invariant("P6", "A run writes nothing after its cancellation.")
def went_on_cancelled(before: dt.datetime) -> Broken:
    return _went_on(CheckpointStatus.CANCELLED).only("pk")


def _later(*kinds: EventKind) -> QuerySet[Event]:
    """Events of those kinds after an event of the same run, in order."""
    same_run = Event.objects.filter(thread=OuterRef("thread"), run_id=OuterRef("run_id"))
    return same_run.filter(seq__gt=OuterRef("seq"), kind__in=kinds).order_by("seq")


@invariant("P6", "Between a pause and its answer no step works.")
def worked_while_paused(before: dt.datetime) -> Broken:
    following = Subquery(
        _later(EventKind.RUN_RESUMED, EventKind.RUN_CANCELLED, EventKind.RUN_EXPIRED, *WORK).values(
            "kind"
        )[:1]
    )
    paused = _made_here(Event.objects.filter(kind=EventKind.RUN_PAUSED), "at")
    unasked = paused.annotate(following=following).filter(following__in=WORK)
    return Run.objects.filter(pk__in=unasked.values("run_id")).only("pk")


@invariant("P6", "No step of a run begins or ends after the run's end.")
def worked_after_end(before: dt.datetime) -> Broken:
    ended = _made_here(Event.objects.filter(kind__in=ENDS), "at")
    return Run.objects.filter(pk__in=ended.filter(Exists(_later(*WORK))).values("run_id")).only(
        "pk"
    )


@invariant("P6", "A run that has ended asks nothing any more.")
def question_of_ended_run(before: dt.datetime) -> Broken:
    return Pause.objects.open().filter(run__status__in=sorted(ENDED)).only("pk")


# waiting costs nothing


@invariant("P7", "Only a run at work holds a lease.")
def lease_without_work(before: dt.datetime) -> Broken:
    return (
        Run.objects.exclude(status=RUNNING)
        .filter(Q(lease_until__isnull=False) | ~Q(lease_owner=""))
        .only("pk")
    )


# a client misses nothing and sees nothing twice


@invariant("P9", "A thread's log holds each number from its first that is kept to its last, once.")
def log_with_gaps(before: dt.datetime) -> Broken:
    """What retention drops is the beginning, and `first_seq` moves with it; what it folds in the
    middle is counted.
    """
    counted = Thread.objects.annotate(
        count=Count("events"),
        lowest=Coalesce(Min("events__seq"), F("first_seq")),
        highest=Coalesce(Max("events__seq"), F("first_seq") - 1),
    )
    return counted.exclude(
        count=F("last_seq") - F("first_seq") + 1 - F("folded"),
        lowest=F("first_seq"),
        highest=F("last_seq"),
    ).only("pk")


@invariant("P9", "Each result of a step has its event.")
def step_untold(before: dt.datetime) -> Broken:
    """The log may tell more steps than there are checkpoints of: where those were dropped, or never
    written, which both is counted.
    """
    events = Event.objects.filter(thread=OuterRef("pk"), kind=EventKind.STEP_COMPLETED)
    done = steps_done().filter(thread=OuterRef("pk"))
    untraced = (
        Run.objects.filter(thread=OuterRef("pk"))
        .order_by()
        .values("thread")
        .annotate(count=Sum("untraced_steps"))
        .values("count")
    )
    # the log of another server may begin and end elsewhere
    mine = Thread.objects.filter(imported=None)
    counted = mine.annotate(
        told=_count(events), done=_count(done), untraced=Coalesce(Subquery(untraced), 0)
    )
    return counted.exclude(told=F("done") + F("step_balance") + F("untraced")).only("pk")


def _count(rows: QuerySet[Any]) -> Coalesce:
    """How many rows of a thread."""
    return Coalesce(
        Subquery(rows.order_by().values("thread").annotate(count=Count("pk")).values("count")), 0
    )
