"""Answers to several questions at once, against all else that may happen to these questions at the
same moment: nobody waits in a circle, and all of the set counts, or none.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from hitl.decisions import services
from hitl.decisions.services import AlreadyAnswered, Answer
from hitl.models import Decision, Via
from runs import definitions
from runs import services as runs
from runs.engine import locks
from runs.models import Pause, WorkOrder
from runs.services import PauseClosed, pauses
from runs.states import RunEnded
from tests.conftest import fresh
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.killed import moments
from tests.worlds.histories.whole_story import broken

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("file_database"),
    pytest.mark.both_databases,
]
NAMES = ["first", "second", "third"]
REVIEW = {"deadline": {"after": "PT1H", "outcome": "expire"}}
TOLD = (AlreadyAnswered, PauseClosed, RunEnded)
"""What a loser hears; a deadlock is none of it."""
MINUTE = dt.timedelta(minutes=1)
APPROVE = Answer("approve", Via.REST)


@pytest.fixture
def asking(templates, ana, team):
    """An order whose three child runs ask, each with a deadline."""
    moments.load()
    ask = {"pause_after": True, "pause_phase": "asking", "review": REVIEW}
    subs = [
        {"step_type": "execute", "name": name, "step_template_slug": "model-work", **ask}
        for name in NAMES
    ]
    definitions.edit_step_template(
        "race", title="Crew", config={"parallel": True, "into": "parts"}, sub_steps=subs
    )
    crew = {"step_type": "execute", "name": "crew", "step_template_slug": "race"}
    finish = {"step_type": "deliver", "name": "finish", "step_template_slug": "model-end"}
    definitions.edit_template("race", title="race", needs_repository=False, steps=[crew, finish])
    order = moments.make("race", by=ana, team=team)
    moments.work_off()
    yield fresh(order)
    assert broken(deep=False) == {}


@pytest.fixture
def meet(monkeypatch):
    """Does jobs at once, each of which stops behind the first question that it closed until all
    others have closed one too, or cannot: whoever holds one and wants another's then meets it.
    """
    closing = pauses.close_pause

    def make(*jobs: Callable[[], Any]) -> list[Any]:
        met, here = threading.Barrier(len(jobs)), threading.local()

        def close(*args: Any, **more: Any) -> None:
            closing(*args, **more)
            if not hasattr(here, "stopped"):
                here.stopped = True
                try:
                    met.wait(0.3)
                except threading.BrokenBarrierError:
                    return

        monkeypatch.setattr(pauses, "close_pause", close)
        ends = at_once(*jobs)
        wrong = [end for end in ends if isinstance(end, Exception) and not isinstance(end, TOLD)]
        assert wrong == []
        return ends

    return make


def asked() -> list[Pause]:
    return list(Pause.objects.open().answerable().order_by("pk"))


def together(questions: Sequence[Pause], by) -> Callable[[], Any]:
    return partial(services.decide_all, [(pause.pk, APPROVE) for pause in questions], by=by)


def test_sets_of_answers_in_two_orders_meet(asking, meet, ana, ben):
    questions = asked()
    assert len(questions) == len(NAMES)
    ends = meet(together(questions, ana), together(questions[::-1], ben))
    assert sum(isinstance(end, AlreadyAnswered) for end in ends) == 1
    assert Decision.objects.count() == len(NAMES)


@pytest.mark.parametrize("action", ["approve", "cancel"])
def test_a_set_of_answers_meets_single_ones(asking, meet, ana, ben, action):
    questions = asked()
    single = Answer(action, Via.REST)
    meet(
        together(questions, ana),
        *[partial(services.decide, pause.pk, single, by=ben) for pause in questions[1:]],
    )
    answered = Decision.objects.values_list("decided_by__username", flat=True)
    assert sorted(answered) in (["ana"] * 3, ["ben"], ["ben"] * 2)


def test_a_set_of_answers_meets_a_deadline(asking, meet, ana):
    questions = asked()
    late = questions[-1]
    assert late.deadline_at is not None
    meet(
        together(questions, ana),
        partial(runs.expire, late, now=late.deadline_at),
    )
    late.refresh_from_db()
    assert Decision.objects.count() == (0 if late.status == "expired" else 3)


def test_a_set_of_answers_meets_a_cancellation(asking, meet, ana, ben):
    meet(
        together(asked(), ben),
        partial(services.cancel_order, asking.pk, by=ana, via=Via.REST),
    )
    assert Decision.objects.count() in {0, 3}
    assert fresh(asking).status == "failed"


def test_a_cancellation_takes_the_questions_below_in_the_order_of_their_keys(asking, ana):
    """As a set of answers does, whatever the order in which the table has them."""
    if connection.vendor != "postgresql":
        return  # a writer holds everything there
    first, *others = asked()
    free = Pause.objects.filter(pk__in=[pause.pk for pause in others])
    assert first.deadline_at is not None
    free.change(deadline_at=first.deadline_at - MINUTE)  # an index by deadlines has them first
    cancel = threading.Thread(target=partial(cancelled, asking, ana))
    with transaction.atomic():
        locks.take(Pause.objects.filter(pk=first.pk), "pk")
        cancel.start()
        until_somebody_waits()
        assert len(free.select_for_update(nowait=True, no_key=True)) == len(others)
    cancel.join(10)
    assert fresh(asking).status == "failed"


def cancelled(order: WorkOrder, by) -> None:
    services.cancel_order(order.pk, by=by, via=Via.REST)
    connection.close()


def until_somebody_waits() -> None:
    with connection.cursor() as cursor:
        for _ in range(10_000):
            cursor.execute("SELECT COUNT(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone() != (0,):
                return
    raise AssertionError("nobody waits")
