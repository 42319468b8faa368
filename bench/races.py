"""`make bench ARGS=races`: twenty people at all doors of one question at once, a thousand questions
(P1, P2, F0).

`make bench ARGS="races RACE_PAUSES=100"` races for fewer; `RACE_CLIENTS` says how many people. The
first line is the summary. The clients are threads of this process, each with a connection of its
own; doors and checks are those of `tests/matrix/races/doors.py`.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.contrib.auth.models import Group
from django.utils import timezone

from bench.workload import figure
from hitl.operations import invariants
from runs import services
from runs.engine.advance import advance
from runs.models import WorkOrder
from tests.matrix.races.doors import DOORS, Racer, Tally, ask, one_question, people, race

PAUSES = int(os.environ.get("RACE_PAUSES", "1000"))
LATE = dt.timedelta(days=1)
"""No worker picks up here what was answered."""
CLIENTS = int(os.environ.get("RACE_CLIENTS", "20"))


def measure() -> Iterator[dict[str, Any]]:
    logging.getLogger("django.request").setLevel(logging.ERROR)  # nearly every answer is a 409
    racers, tally = people(CLIENTS), Tally()
    names = list(DOORS)
    began = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        for turn in range(PAUSES):
            doors = one_question(names[(turn + place) % len(names)] for place in range(CLIENTS))
            race(
                ask(waiting(racers[0]), racers),
                doors,
                racers[: len(doors)],
                lambda *jobs: together(pool, jobs),
                tally,
            )
    seconds = time.monotonic() - began
    broken = [
        result.invariant.code
        for result in invariants.check(now=timezone.now(), late=LATE, deep=True)
        if result.count
    ]
    outcomes = Counter[str]()
    for name, count in tally.counts.items():
        outcomes[name.rpartition(": ")[2]] += count
    line = figure(
        f"{CLIENTS} clients × {PAUSES} pauses: what did not hold",
        len(tally.wrong) + len(broken),
        "cases",
        bar=0,
    )
    yield {
        **line,
        "seconds": round(seconds),
        "outcomes": dict(outcomes),
        "wrong": tally.wrong[:20],
        "broken": broken,
    }
    for name in names:
        counts = {kind: tally.counts[f"{name}: {kind}"] for kind in ("first", "done after", "told")}
        yield {**figure(f"{name}: was first", counts["first"], "times"), "outcomes": counts}


def waiting(racer: Racer) -> WorkOrder:
    order = services.submit("bench-ask", by=racer.user, team=Group.objects.get(name="racers"))
    assert order.latest_run is not None
    advance(order.latest_run.pk, budget=60)
    return order


def together(pool: ThreadPoolExecutor, jobs: tuple[Callable[[], Any], ...]) -> list[Any]:
    """All at the same moment, each in a thread that keeps its connection."""
    start = threading.Barrier(len(jobs))

    def run(job: Callable[[], Any]) -> Any:
        start.wait(30)
        try:
            return job()
        except Exception as error:  # noqa: BLE001  # the race looks at what each job ended with
            return error

    return list(pool.map(run, jobs))
