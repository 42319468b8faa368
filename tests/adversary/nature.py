"""What nobody does, and happens all the same."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from django.utils import timezone

from checkpoints.store.prepared_queries import PreparedValues
from hitl.decisions.deadlines import outcomes
from hitl.wait_gate import early_answers
from runs.engine.advance import advance
from runs.models import Pause, QueuedTurn, Run
from runs.threads import message_queue
from tests.adversary.still import STILL as STILL
from tests.adversary.world import (
    World,
)

_due = PreparedValues(
    lambda now: (
        Run.objects.filter(status="pending", due_at__lte=now).order_by("pk").values_list("pk")[:1]
    ),
    dt.datetime,
)


def settle(world: World, *, steps: int = 40) -> None:
    """Workers take what is due as far as it goes."""
    for _ in range(steps):
        due = _due.get(timezone.now())
        if not due:
            return
        advance(due[0][0], budget=60)


def work_a_little(world: World) -> None:
    """A worker takes one step of the newest run that is due."""
    due = (
        Run.objects.filter(status="pending", due_at__lte=timezone.now())
        .order_by("-pk")
        .values_list("pk", flat=True)
        .first()
    )
    if due is not None:
        advance(due, budget=0)


def sweep(world: World) -> None:
    """What beat has done from time to time: deadlines, early answers, messages whose turn has come,
    mail.
    """
    now = timezone.now()
    outcomes.fire_due(now=now)
    early_answers.sweep(now=now)
    for thread in QueuedTurn.objects.waiting().values_list("thread", flat=True).distinct():
        message_queue.begin_next(thread)
    world.collect_links()


def time_passes(world: World) -> None:
    """Every deadline of an open question lies behind us, and so does the time for second thoughts.

    The sweep is yet to come.
    """
    past = timezone.now() - dt.timedelta(minutes=1)
    Pause.objects.open().filter(deadline_at__gt=past).update(deadline_at=past, next_at=past)
    Run.objects.filter(status="pending", due_at__gt=past).update(due_at=past)


NATURE: dict[str, Callable[[World], None]] = {
    "settle": settle,
    "work": work_a_little,
    "sweep": sweep,
    "time": time_passes,
}
"""What nobody does, and happens all the same."""
