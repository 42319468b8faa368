"""The database goes away inside the calls of a step: no step has failed, and its run goes on
(P3).
"""

from __future__ import annotations

import psycopg
import pytest
from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from checkpoints.store import StoreUnavailable
from runs import services, tasks
from runs.engine.recovery import lost_runs
from runs.engine.workers import lease
from runs.models import Run
from runs.workflows.base import Done, Go
from tests.conftest import drive, fresh, log_lines
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]
ONE = pytest.mark.one_database


def cut():
    """As a session that the server ends."""
    raise OperationalError(
        "server closed the connection unexpectedly"
    ) from psycopg.OperationalError()


def due(order):
    Run.objects.filter(pk=order.latest_run_id).update(due_at=timezone.now())
    return order


CALLS = {
    "log": lambda context: context.log("at work"),
    "once": lambda context: context.once("k", lambda: 1),
    "check": lambda context: context.check(),
    "stream": lambda context: (context.stream("some words"), context.log("then")),
    "emit": lambda context: context.emit("log", {"message": "x", "level": "info"}),
    "keep": lambda context: context.keep("notes", "text"),
    "artifact": lambda context: context.artifact("notes.txt", b"text"),
    "recorded": lambda context: context.recorded(["k"]),
    "halting": lambda context: context.halting(),
}
HANDFUL = ["log", "once"]
"""Calls that lose their connection on SQLite, too; all of them do on PostgreSQL."""


@pytest.mark.parametrize(
    "call",
    [*HANDFUL, *(pytest.param(one, marks=ONE) for one in CALLS if one not in HANDFUL)],
)
def test_a_connection_lost_inside_a_call_of_the_sdk_fails_no_step(order_that, call):
    """8 of 8 runs ended for good with `step_error` when their session died inside `context.log`."""
    lose = [True]

    def execute(run, sql, params, many, context):
        return cut() if lose and lose.pop() else run(sql, params, many, context)

    def step(state, context):
        if not lose:
            return Go(update={"done": True}, to=None)
        with connection.execute_wrapper(execute):
            CALLS[call](context)
        return Done()

    order = order_that(step)
    tasks.advance_run(str(order.latest_run_id))
    run = fresh(order).latest_run
    assert (run.status, run.failure_code, run.lost_attempts, run.lease_owner) == (
        "pending",
        "",
        1,
        "",
    )
    assert "The database was away while this step worked" in log_lines(order)[-1]
    assert state_of(drive(due(order)))["done"] is True
    assert Run.objects.get().lost_attempts == 0


def test_an_effect_under_once_is_recorded_after_an_outage_that_is_longer_than_a_lease(
    order_that, monkeypatch, settings
):
    """The full disk of `make chaos`: the process gave up after a lease, though nobody could take
    the run meanwhile, and did it again.
    """
    effects: list[str] = []
    commits = [cut, cut, cut]
    commit = BaseDatabaseWrapper.commit

    def charge():
        effects.append("charged")
        settings.WAYSTATION_LEASE_SECONDS = 0
        monkeypatch.setattr(
            BaseDatabaseWrapper,
            "commit",
            lambda wrapper: commits.pop()() if commits else commit(wrapper),
        )

    def step(state, context):
        context.once("charge", charge)
        return Go(update={"done": True}, to=None)

    order = order_that(step)
    tasks.advance_run(str(order.latest_run_id))
    settings.WAYSTATION_LEASE_SECONDS = 30
    assert (effects, commits) == (["charged"], [])
    assert state_of(drive(due(order)))["done"] is True
    assert effects == ["charged"]


@pytest.mark.parametrize("when", ["before its commit", "after its commit"])
def test_an_effect_under_once_is_recorded_though_the_connection_is_lost_after_it(
    order_that, monkeypatch, when
):
    """The effect had happened, its record was lost with the session, and the step's next try did it
    again (S0-63, P4).
    """
    effects: list[str] = []
    lose = [True]
    commit = BaseDatabaseWrapper.commit

    def committing(wrapper):
        if not (effects and lose):
            return commit(wrapper)
        lose.clear()
        if when == "after its commit":
            commit(wrapper)
        return cut()

    def charge():
        effects.append("charged")
        return 7

    def step(state, context):
        context.once("charge", charge, tell=lambda value: ("log", {"message": f"paid {value}"}))
        return Go(update={"done": True}, to=None)

    order = order_that(step)
    monkeypatch.setattr(BaseDatabaseWrapper, "commit", committing)
    tasks.advance_run(str(order.latest_run_id))
    assert (effects, lose) == (["charged"], [])
    assert state_of(drive(due(order)))["done"] is True
    assert [said for said in log_lines(order) if said == "paid 7"] == ["paid 7"]
    assert Run.objects.get().lost_attempts == 0


def test_a_step_that_always_brings_the_database_down_is_an_incident_in_the_end(
    order_that, settings
):
    settings.WAYSTATION_LOST_ATTEMPTS = 3
    order = order_that(lambda state, context: cut())
    for _ in range(3):
        tasks.advance_run(str(due(order).latest_run_id))
    assert fresh(order).latest_run.status == "running"  # its lease runs out, and the sweep says so
    lost_runs.take_back(now=timezone.now(), everything=True)
    run = fresh(order).latest_run
    assert (run.status, run.failure_code) == ("failed", "incident")


def test_a_store_that_is_away_inside_a_step_fails_no_step_and_counts_nothing(order_that):
    away = [True]

    def step(state, context):
        if away and away.pop():
            raise StoreUnavailable("The store is away.")
        return Go(update={"done": True}, to=None)

    order = order_that(step)
    tasks.advance_run(str(order.latest_run_id))
    run = fresh(order).latest_run
    assert (run.status, run.lost_attempts) == ("pending", 0)
    assert state_of(drive(due(order)))["done"] is True


@pytest.mark.parametrize("how", ["cancelled", "taken over"])
def test_once_has_no_effect_for_a_run_that_is_no_longer_its_workers(order_that, ana, how):
    """P6: effects ran after a cancel had answered 200, and on a replaced worker beside its
    successor.
    """
    effects: list[str] = []

    def step(state, context):
        assert context.fence == Run.objects.get().epoch
        if how == "cancelled":
            services.cancel(order.pk, by=ana)
        else:
            Run.objects.update(epoch=context.fence + 1)
        context.once("charge", lambda: effects.append("charged"))
        return Done()

    order = order_that(step)
    tasks.advance_run(str(order.latest_run_id))
    assert effects == []
    assert fresh(order).latest_run.failure_code in {"", "cancelled_by_user"}
    assert lease.owner()
