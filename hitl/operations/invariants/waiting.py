"""What must hold of what waits: deadlines, messages in line, and who is to be told."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from django.db.models import Exists, F, OuterRef, Q

from hitl.models import Decision, Via
from hitl.models.outbound import ASKING, Delivery, DeliveryStatus
from hitl.operations.invariants.base import Broken, invariant
from runs.definitions import due_times
from runs.models import Pause, QueuedTurn, Run
from runs.services.approvals import EDITED
from runs.states import EXPIRED, PauseStatus
from runs.workflows.sequence import APPROVE

# deadlines act once, never early, at most one sweep late; expired is not rejected


@invariant("P8", "What is due acts within a sweep.")
def deadline_not_met(before: dt.datetime) -> Broken:
    return Pause.objects.due(now=before).only("pk")


@invariant("P8", "An open question whose rules name a deadline has one.")
def deadline_missing(before: dt.datetime) -> Broken:
    """One whose calendar was gone when it opened: see `runs.definitions.due_times`."""
    without = Pause.objects.open().filter(deadline_at=None).exclude(review={}).only("pk", "review")
    return (pause for pause in without.iterator(chunk_size=2000) if pause.review.get("deadline"))


@invariant("P8", "A question is due when the first of its open stages is, or it itself.")
def deadline_of_stage_missing(before: dt.datetime) -> Broken:
    staged = Pause.objects.open().filter(turn__gt=0).exclude(times={})
    each = staged.only("pk", "review", "times", "turn", "deadline_at").iterator(chunk_size=2000)
    return (
        pause
        for pause in each
        if due_times.DUE in pause.times and pause.deadline_at != due_times.earliest(pause)
    )


@invariant("P8", "Nothing expires before its deadline.")
def expired_early(before: dt.datetime) -> Broken:
    return Pause.objects.filter(
        Q(deadline_at=None) | Q(closed_at__lt=F("deadline_at")), status=PauseStatus.EXPIRED
    ).only("pk")


@invariant("P8", "The run of an expired question has expired.")
def expired_and_its_run_did_not(before: dt.datetime) -> Broken:
    return Pause.objects.filter(status=PauseStatus.EXPIRED).exclude(run__status=EXPIRED).only("pk")


@invariant("P8", "An expired run has its expired question.")
def expired_without_its_question(before: dt.datetime) -> Broken:
    unanswered = Pause.objects.filter(run=OuterRef("pk"), status=PauseStatus.EXPIRED)
    return Run.objects.filter(~Exists(unanswered), status=EXPIRED).only("pk")


@invariant("P8", "The rules decide only what they name, and not before the deadline.")
def decided_by_silence(before: dt.datetime) -> Broken:
    """The rules decide what they say, when they say it."""
    decisions = Decision.objects.filter(via=Via.POLICY, erasure=None).select_related("pause")
    return (decision for decision in decisions.iterator(chunk_size=2000) if not _is_due(decision))


def _is_due(decision: Decision) -> bool:
    pause = decision.pause
    if pause is None or pause.deadline_at is None or decision.decided_at < pause.deadline_at:
        return False
    return bool(pause.review.get("deadline", {}).get("outcome") == decision.action)


@invariant(
    "P6",
    "A step passes its review only where its template allows that, and never over what a person "
    "wrote into its state.",
)
def passed_unallowed(before: dt.datetime) -> Iterator[Decision]:
    """Reviews that a step passed, though its frozen template does not say so or asks with care, or
    a person had edited the state.
    """
    passed = (
        Decision.objects.filter(via=Via.WORKFLOW, erasure=None)
        .select_related("pause__run", "pause__checkpoint")
        .defer("pause__checkpoint__body")
    )
    return (decision for decision in passed.iterator(2000) if not _may_pass(decision))


def _may_pass(decision: Decision) -> bool:
    pause = decision.pause
    if pause is None or decision.action != APPROVE or pause.review.get("risk") == "high":
        return False
    if EDITED in pause.checkpoint.metadata:
        return False
    return any(
        step.get("may_pass") for step in pause.run.frozen.steps if step["name"] == pause.step
    )


# a message in line begins in its turn


@invariant("P3", "A message that waits for its turn begins when the run before it has ended.")
def queued_but_not_begun(before: dt.datetime) -> Broken:
    """A message that waits on a thread where no run is alive."""
    return (
        QueuedTurn.objects.due()
        .filter(created_at__lt=before)
        .exclude(thread__runs__ended_at__gte=before)
        .only("pk")
    )


# Outbound: who is to know of a question is told


@invariant("P3", "A question, and its end, is soon planned to be told to those who are to know.")
def not_announced(before: dt.datetime) -> Broken:
    closed = ~Q(status=PauseStatus.OPEN) & Q(closed_at__lt=before)
    return (
        Pause.objects.untold()
        .filter(closed | Q(status=PauseStatus.OPEN, opened_at__lt=before))
        .only("pk")
    )


@invariant("P3", "A message whose time has come is soon sent.")
def not_delivered(before: dt.datetime) -> Broken:
    """A message whose time came, or whose worker was lost, and that nobody took up.

    An hour's grace: thousands may be due at once.
    """
    return Delivery.objects.due(now=before - dt.timedelta(hours=1)).only("pk")


@invariant("P6", "Nobody is asked what was answered.")
def sent_after_the_end(before: dt.datetime) -> Broken:
    """A reminder that went out well after its question was closed: past the time that a try may
    take.
    """
    late = F("pause__closed_at") + dt.timedelta(minutes=5)
    return Delivery.objects.filter(
        status=DeliveryStatus.SENT, occasion__in=ASKING, sent_at__gt=late
    ).only("pk")
