"""What a step costs the database: counted, so that no change makes it dearer unseen."""

from __future__ import annotations

import pytest
from django.db import connection

from hitl import services
from hitl.models import Via
from runs import services as runs
from runs.engine.advance import advance
from runs.workflows.base import Ask, Go, Report
from tests.anything import order_that as order_that
from tests.conftest import fresh, pause_of

pytestmark = pytest.mark.django_db(transaction=True)


PAUSE, RESUME = 4, 40
"""Statements; of an answer those that look up who may give it are most."""


class Counter:
    """Counts statements. Only SQLite's BEGIN comes this way (PostgreSQL's goes with the first statement), so it is left out."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def __call__(self, execute, sql, params, many, context):
        if not sql.startswith("BEGIN"):
            self.statements.append(sql)
        return execute(sql, params, many, context)


def cost_of(order) -> int:
    counter = Counter()
    with connection.execute_wrapper(counter):
        assert advance(order.latest_run.pk, budget=60) == []
    return len(counter.statements)


def looping(times):
    return lambda state, context: Go(update={"text": "x" * 1024, "n": context.loop_num}, to="execute" if context.loop_num < times else None)


def test_a_step_is_one_statement_and_a_run_at_most_four_more(order_that):
    """On SQLite, which has no data-modifying CTE, the same writes are a transaction of six, without a round trip."""
    a_step = 1 if connection.vendor == "postgresql" else 6
    short, long = cost_of(order_that(looping(1))), cost_of(order_that(looping(11)))
    assert (long - short) / 10 <= a_step
    assert short - 3 * a_step <= 4 * a_step  # three steps: planning, execute, finish


def test_a_paused_run_is_claimed_by_nobody_and_costs_one_statement_to_find_out(make_order):
    order = make_order()
    advance(order.latest_run.pk, budget=60)
    assert cost_of(order) == 1


def test_suspending_costs_the_hot_path_nothing(order_that, ana):
    order = order_that(looping(3))
    runs.suspend(order.pk, by=ana)
    advance(order.latest_run.pk, budget=60)
    order.latest_run.refresh_from_db()
    assert order.latest_run.status == "paused"


def statements_of(act) -> int:
    counter = Counter()
    with connection.execute_wrapper(counter):
        act()
    return len(counter.statements)


def test_a_pause_costs_no_more_than_a_few_statements_beside_its_step(order_that):
    """S4-68: an insert, in the step's own commit. `make bench ARGS=pause_resume` has it in milliseconds (bar: 5 of 100)."""
    asking = order_that(lambda state, context: Ask(question="Well?", ways={"approve": "finish"}, report=Report(content="x")))
    pausing = cost_of(asking)
    going = cost_of(order_that(looping(1)))
    assert fresh(asking).status == "paused"
    assert pausing <= going + PAUSE


def test_a_resume_is_a_handful_of_statements_until_the_run_may_be_taken_up(order_that, ana):
    """S4-69: however long the history. `make bench ARGS=pause_resume` has it in milliseconds, to the next step's body (bar: 8 of 100)."""

    def resuming(loops: int) -> int:
        order = order_that(lambda state, context: ask(state, context, loops))
        advance(order.latest_run.pk, budget=60)
        pause = pause_of(order)
        return statements_of(lambda: services.decide(pause.pk, action="approve", by=ana, via=Via.PAGE))

    def ask(state, context, loops):
        if context.loop_num < loops:
            return Go(update={"n": context.loop_num}, to="execute")
        return Ask(question="Well?", ways={"approve": "finish"}, report=Report(content="x"))

    short, long = resuming(1), resuming(30)
    assert short <= RESUME and long <= short + 1
