"""Parents and children at the same moment, with real threads and connections: nobody waits in a
circle, nothing is counted twice.
"""

from __future__ import annotations

import operator
from functools import partial, reduce

import pytest
from django.db import connection

from hitl.decisions import services
from hitl.decisions.services import AlreadyAnswered, Answer
from hitl.models import Via
from runs import definitions
from runs.engine.advance import advance
from runs.models import Pause, Run, WorkOrder
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

NAMES = [f"child {number}" for number in range(6)]


@pytest.fixture
def family(templates, ana, team):
    """An order that waits for six children; `asks` of them stop at a question."""
    moments.load()

    def make(*, asks: int = 0) -> WorkOrder:
        ask = {"pause_after": True, "pause_phase": "asking"}
        subs = [
            {
                "step_type": "execute",
                "name": name,
                "step_template_slug": "model-work",
                **(ask if place < asks else {}),
            }
            for place, name in enumerate(NAMES)
        ]
        definitions.edit_step_template(
            "race", title="Crew", config={"parallel": True, "into": "parts"}, sub_steps=subs
        )
        crew = {"step_type": "execute", "name": "crew", "step_template_slug": "race"}
        finish = {"step_type": "deliver", "name": "finish", "step_template_slug": "model-end"}
        definitions.edit_template(
            "race", title="race", needs_repository=False, steps=[crew, finish]
        )
        order = moments.make("race", by=ana, team=team)
        advance(order.latest_run.pk, budget=60)
        return fresh(order)

    yield make
    assert broken(deep=False) == {}


def children(order: WorkOrder) -> list[Run]:
    return list(Run.objects.filter(parent=order.latest_run).order_by("pk"))


def test_all_children_end_at_once_and_the_last_one_wakes_the_parent(family):
    """P3, P4: whichever is last by the database's reckoning, exactly one of them says so."""
    order = family()
    woken = at_once(*[partial(advance, child.pk, budget=60) for child in children(order)])
    assert reduce(operator.iadd, woken, []) == [(order.latest_run_id, "steps")]
    assert Run.objects.get(pk=order.latest_run_id).status == "pending"
    joined = at_once(*[partial(advance, order.latest_run_id, budget=60)] * 3)
    assert fresh(order).status == "completed"
    assert joined.count([]) == 3


def quietly(operation):
    """A loser is told; any other error (a deadlock among them) is one of the test."""
    try:
        return operation()
    except (RunEnded, AlreadyAnswered) as told:
        return told


@pytest.mark.parametrize("_turn", range(4))
def test_an_order_is_cancelled_while_its_children_end_and_are_answered(family, ana, ben, _turn):
    """F23, F8: no question stays open, no child lives on."""
    order = family(asks=3)
    for child in children(order)[:3]:
        advance(child.pk, budget=60)
    pauses = list(Pause.objects.open())
    assert len(pauses) == 3
    answers = [
        partial(services.decide, pause.pk, Answer("approve", Via.REST), by=ben) for pause in pauses
    ]
    ends = [partial(advance, child.pk, budget=60) for child in children(order)[3:]]
    cancels = [partial(services.cancel_order, order.pk, by=ana, via=Via.REST)]
    at_once(*[partial(quietly, one) for one in [*answers, *cancels, *ends]])
    moments.work_off()
    assert fresh(order).status == "failed"
    assert not Run.objects.live().exists()
    assert not Pause.objects.open().exists()
    connection.close()


def test_several_children_fail_at_once_and_the_parent_fails_once(family, ana):
    order = family(asks=6)
    for child in children(order):
        advance(child.pk, budget=60)
    pauses = list(Pause.objects.open())
    at_once(
        *[
            partial(quietly, partial(services.decide, pause.pk, Answer("cancel", Via.REST), by=ana))
            for pause in pauses
        ]
    )
    moments.work_off()
    order = fresh(order)
    assert (order.latest_run.status, order.latest_run.failure_code) == ("failed", "child_failed")
    assert not Run.objects.live().exists()
