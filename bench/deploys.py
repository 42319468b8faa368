"""A deploy under a hundred orders that wait (P10): `make bench ARGS=deploys`, `BENCH_DEPLOYS=20`
for fewer.

The step behind their question is another function, then none, then the one they were asked for
with. In this process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from bench.workload import figure
from checkpoints.models import Event, EventKind
from hitl.decisions.services import Answer, decide
from hitl.models import Via
from hitl.operations import invariants
from runs import services
from runs.definitions import compatibility
from runs.engine.advance import advance
from runs.models import Pause, Run
from runs.workflows import registry
from runs.workflows.base import Context, Done, Outcome, State

MANY = int(os.environ.get("BENCH_DEPLOYS", "100"))
STEP = "bench.stamp"


def measure() -> Iterator[dict[str, Any]]:
    user, asked_for = User.objects.get(username="bench"), registry._STEPS[STEP]
    try:
        yield from _changed(user)
        registry._STEPS[STEP] = asked_for
        yield from _missing(user)
    finally:
        registry._STEPS[STEP] = asked_for


def another(state: State, context: Context) -> Outcome:
    return Done(update={"began": -1.0})


def _changed(user: User) -> Iterator[dict[str, Any]]:
    """Policy `continue`, the default: each is named before the deploy, and each says so in its log
    before the new code runs.
    """
    settings.WAYSTATION_ON_CHANGE = "continue"
    asked = waiting(user)
    registry._STEPS[STEP] = another
    named = sum(step.count for step in compatibility.report(verdicts=("changed",)))
    yield figure(
        f"{MANY} orders wait, the step ahead changes: check_inflight does not name",
        MANY - named,
        "runs",
        bar=0,
    )
    answer(asked, user)
    lines = Event.objects.filter(run_id__in=asked, kind=EventKind.LOG)
    run_ids = {
        line.run_id for line in lines if "has changed since" in str(line.data.get("message"))
    }
    ended = set(Run.objects.filter(pk__in=asked, status="completed").values_list("pk", flat=True))
    yield figure(
        "they are answered: ran the changed step unsaid", len(ended - run_ids), "runs", bar=0
    )
    yield figure("they are answered: did not end", len(asked - ended), "runs", bar=0)
    broken = [
        result.invariant.code
        for result in invariants.check(now=timezone.now(), deep=True)
        if result.count
    ]
    yield {**figure("invariants broken", len(broken), "invariants", bar=0), "broken": broken}


def _missing(user: User) -> Iterator[dict[str, Any]]:
    """The step is gone, then there again."""
    asked = waiting(user)
    gone = registry._STEPS.pop(STEP)
    answer(asked, user)
    left = Run.objects.filter(pk__in=asked)
    held = left.filter(status="pending").exclude(held_because="").count()
    yield figure(
        f"{MANY} orders wait, the step ahead is gone: ended, or not held",
        MANY - held,
        "runs",
        bar=0,
    )
    registry._STEPS[STEP] = gone
    left.update(due_at=timezone.now())
    advance_all(asked)
    yield figure(
        "it is there again: did not end as asked for",
        MANY - left.filter(status="completed").count(),
        "runs",
        bar=0,
    )


def waiting(user: User) -> set[Any]:
    asked = {services.submit("bench-ask", by=user).latest_run_id for _ in range(MANY)}
    advance_all(asked)
    assert Pause.objects.open().filter(run__in=asked).count() == MANY
    return asked


def answer(asked: set[Any], user: User) -> None:
    for pause in Pause.objects.open().filter(run__in=asked):
        decide(pause.pk, Answer("approve", Via.PAGE), by=user)
    advance_all(asked)


def advance_all(asked: set[Any]) -> None:
    for run in asked:
        advance(run, budget=60)
