"""`make bench ARGS=deadlines`: ten thousand deadlines that come due at once (P8), while people go
on answering (P3).

`DEADLINES_DUE` says how many. A quarter each expires, is cancelled, is approved by silence, and is
escalated; `DEADLINES_OUTCOMES=expire,cancel` names others. The sweep runs as its task does, batch
after batch, in a thread of this process beside the one that answers, so what it costs an answer is
more than with processes. How busy the machine is besides is told as its load.
"""

from __future__ import annotations

import datetime as dt
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone

from bench.workload import figure, percentile
from checkpoints import ids, store
from checkpoints.models import Checkpoint, CheckpointStatus, Thread
from checkpoints.store import Entry
from hitl.decisions import services as hitl
from hitl.decisions.deadlines import outcomes
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.operations import invariants
from runs import services
from runs.definitions import reviewer_index
from runs.engine.advance import advance
from runs.models import Pause, Run
from runs.states import PauseStatus

DUE = int(os.environ.get("DEADLINES_DUE", "10000"))
ANSWERS, AT_ONCE = 300, 1_000
SLOWEST = 2_000.0
"""Milliseconds that an answer may take at the 99th percentile (P3)."""
OUTCOMES = os.environ.get("DEADLINES_OUTCOMES", "expire,cancel,approve,escalate").split(",")
LATER = dt.timedelta(days=1)


def measure() -> Iterator[dict[str, Any]]:
    first = one_question()
    waiting = copies(first, 2 * ANSWERS, deadline=None)
    alone = answers(waiting[:ANSWERS])
    copies(first, DUE, deadline=timezone.now())
    delays: list[float] = []
    sweeping = threading.Thread(target=sweep, args=(delays,))
    sweeping.start()
    beside = answers(waiting[ANSWERS:])
    still = sweeping.is_alive()
    sweeping.join()
    seconds, batch = sum(delays), max(delays)
    left = Pause.objects.open().filter(deadline_at__lte=timezone.now()).count()
    yield {
        **figure(f"{DUE} deadlines due at once, all acted on", seconds, "s"),
        "left": left,
        "each_ms": round(1000 * seconds / DUE, 2),
        "load": os.getloadavg()[0],
    }
    yield figure(f"a batch of {outcomes.BATCH}, at the longest", batch, "s")
    yield figure("an answer, nothing due, p99", percentile(alone, 0.99), "ms")
    line = figure(
        "an answer while the sweep works, p99", percentile(beside, 0.99), "ms", bar=SLOWEST
    )
    yield {
        **line,
        "p50": round(percentile(beside, 0.5), 1),
        "slowest": round(max(beside), 1),
        "sweep_outlasted_them": still,
    }
    broken = [
        result.invariant.code
        for result in invariants.check(now=timezone.now(), late=LATER)
        if result.count
    ]
    yield {
        **figure("what did not hold afterwards", left + len(broken), "cases", bar=0),
        "broken": broken,
    }


def one_question() -> Pause:
    order = services.submit("bench-ask", by=User.objects.get(username="bench"))
    assert order.latest_run is not None
    advance(order.latest_run.pk, budget=60)
    return Pause.objects.select_related("run__thread", "checkpoint").get(run=order.latest_run)


def copies(first: Pause, count: int, *, deadline: dt.datetime | None) -> list[Any]:
    """So many questions like the first one, each on a thread of its own; gives their keys."""
    made: list[Any] = []
    for begin in range(0, count, AT_ONCE):
        made += _copies(first, range(begin, min(begin + AT_ONCE, count)), deadline)
    return made


@transaction.atomic
def _copies(first: Pause, numbers: range, deadline: dt.datetime | None) -> list[Any]:
    now, run, state = timezone.now(), first.run, store.load(first.checkpoint)
    entry = Entry(
        status=CheckpointStatus.PENDING_INPUT,
        node_id=first.step,
        loop_num=1,
        completed_nodes=1,
        total_nodes=2,
        metadata={},
    )
    threads = [
        Thread(owner_id=run.thread.owner_id, title=f"Due {number}", step_balance=0)
        for number in numbers
    ]
    Thread.objects.bulk_create(threads)
    runs = [
        Run(
            thread=thread,
            definition_id=run.definition_id,
            status="paused",
            due_at=now,
            queue=run.queue,
        )
        for thread in threads
    ]
    Run.objects.bulk_create(runs)
    heads = [
        store.build(run.thread_id, run.pk, state, replace(entry), parent=None, before=None)
        for run in runs
    ]
    Checkpoint.objects.bulk_create(heads)
    for thread, head in zip(threads, heads, strict=True):
        thread.head_id = head.pk
    Thread.objects.bulk_update(threads, ["head"])
    pauses = []
    for number, copied, head in zip(numbers, runs, heads, strict=True):
        same = {
            field.attname: getattr(first, field.attname) for field in Pause._meta.concrete_fields
        }
        same |= {"id": ids.new(), "run_id": copied.pk, "checkpoint_id": head.pk, "opened_at": now}
        pauses.append(Pause(**{**same, **_rules(OUTCOMES[number % len(OUTCOMES)], deadline)}))
    Pause.objects.bulk_create(pauses)
    return [pause.pk for pause in pauses]


def _rules(outcome: str, deadline: dt.datetime | None) -> dict[str, Any]:
    if deadline is None:
        return {}
    review: dict[str, Any] = {"deadline": {"after": "PT1H", "outcome": outcome}}
    stages = []
    if outcome == "escalate":
        review["escalation"] = [{"after": "PT1H", "users": ["bench"]}]
        stages = [deadline.isoformat()]
    times = {
        "times": {"reminders": [], "stages": stages},
        "deadline_at": deadline,
        "extendable_until": deadline,
        "next_at": deadline,
    }
    return {
        "review": review,
        "panel_id": reviewer_index.keep(review),
        "opened_at": deadline - dt.timedelta(hours=1),
        **times,
    }  # type: ignore[arg-type]  # a Review as it is frozen


def sweep(found: list[float]) -> None:
    """As `hitl.tasks.fire_deadlines`, one task after the other; notes the seconds of each batch."""
    try:
        while True:
            began = time.monotonic()
            count = outcomes.fire_due(now=timezone.now())
            found.append(time.monotonic() - began)
            if count < outcomes.BATCH:
                return
    finally:
        connection.close()


def answers(keys: list[Any]) -> list[float]:
    """Milliseconds that each answer takes, one after the other."""
    user, taken = User.objects.get(username="bench"), []
    for key in keys:
        began = time.perf_counter()
        hitl.decide(key, Answer("approve", Via.COMMAND), by=user)
        taken.append(1000 * (time.perf_counter() - began))
    assert Pause.objects.filter(pk__in=keys).exclude(status=PauseStatus.ANSWERED).count() == 0
    return taken
