"""Runs that commit at the same moment commit in one statement, and none of them notices the others.

PostgreSQL only: SQLite has one writer.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import DataError, OperationalError, connection, transaction
from django.utils import timezone

from checkpoints import store
from checkpoints.models import Event
from hitl.decisions import services
from hitl.models import Via
from runs import services as runs
from runs.engine import record
from runs.engine.advance import _read, advance
from runs.engine.commit import group, statements
from runs.models import Run, WorkOrder
from runs.states import LeaseLost
from runs.workflows.base import Done, Go
from tests.conftest import fresh, kinds
from tests.servers.stack import until
from tests.worlds import lost_worker

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.fixture
def sizes(monkeypatch):
    """How many writes each statement for several took in."""
    seen = []
    several = statements.several

    def counted(writes):
        seen.append(len(writes))
        return several(writes)

    monkeypatch.setattr(statements, "several", counted)
    return seen


def together_with(*jobs):
    """Do jobs so that their commits meet: nobody leads before all wait. Gives what each came to."""
    assert connection.vendor == "postgresql"
    committer = group._committer
    committer._led = True

    def run(job):
        try:
            return job()
        except (Exception, KilledHere) as error:  # noqa: BLE001  # the test looks at it
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(jobs)) as pool:
        done = [pool.submit(run, job) for job in jobs]
        try:
            until(lambda: len(committer._waiting) == len(jobs), what="all of them waiting")
        finally:
            committer._hand_over()
        return [one.result() for one in done]


class KilledHere(BaseException):
    """The end of a thread in the middle of its statement."""


@pytest.fixture
def held(make_order):
    """Runs that this worker has claimed, at their first step."""

    def make(count):
        found = [_read(make_order("writing-quick").latest_run_id) for _ in range(count)]
        assert all(one and record.claim(one) for one in found)
        return found

    return make


def going(one, **update):
    return lambda: record.go(one, Go(update=update, to="execute"), stay=True)


def head_of(one):
    head = fresh(WorkOrder.objects.get(latest_run=one.run.pk)).thread.head
    assert head is not None
    return head


def check_log(one):
    numbers = (
        Event.objects.filter(thread=one.run.thread_id).order_by("seq").values_list("seq", flat=True)
    )
    assert list(numbers) == list(
        range(1, fresh(WorkOrder.objects.get(latest_run=one.run.pk)).thread.last_seq + 1)
    )


def went(one, **update):
    """Its step is committed as a whole, once."""
    head = head_of(one)
    check_log(one)
    order = WorkOrder.objects.get(latest_run=one.run.pk)
    assert kinds(order)[-4:] == ["step_completed", "checkpoint_created", "step_started", "log"]
    assert kinds(order).count("step_completed") == 1
    return (
        head.node_id,
        head.next_step,
        store.load(head).items() >= update.items(),
        one.progress.head.pk == head.pk,
    ) == (
        "planning",
        "execute",
        True,
        True,
    )


def test_steps_of_several_runs_are_one_statement(held, sizes):
    """Each run has its own state, numbers and words, also ones that an array's text must escape."""
    one, two, three = held(3)
    texts = ['{"a": "b\\\\c"}, {NULL}', "é \u2028 \\ ' \"", ""]
    done = together_with(
        *(going(run, text=text) for run, text in zip((one, two, three), texts, strict=True))
    )
    assert done == [None, None, None]
    assert sizes == [3]
    assert all(went(run, text=text) for run, text in zip((one, two, three), texts, strict=True))
    assert [advance(run.run.pk, budget=60) for run in (one, two, three)] == [[], [], []]


def test_a_lost_lease_among_them_fails_nobody_else(held, sizes):
    """P4, F11: the fence of each run is its own."""
    one, lost, two = held(3)
    Run.objects.filter(pk=lost.run.pk).update(epoch=lost.epoch + 1)
    done = together_with(going(one), going(lost), going(two))
    assert [type(end) for end in done] == [type(None), LeaseLost, type(None)]
    assert sizes == [3]
    assert went(one)
    assert went(two)
    assert head_of(lost).node_id == ""
    check_log(lost)


def test_a_cancelled_run_among_them_is_not_written_to(held, ana):
    """P6."""
    one, cancelled = held(2)
    services.cancel_order(cancelled.run.work_order_id, by=ana, via=Via.PAGE)
    done = together_with(going(one), going(cancelled))
    assert [type(end) for end in done] == [type(None), LeaseLost]
    assert kinds(WorkOrder.objects.get(latest_run=cancelled.run.pk))[-2:] == [
        "run_cancelled",
        "checkpoint_created",
    ]


def test_a_suspension_stops_its_own_run_only(held, ana):
    """F22: whether somebody wants one is asked of each run."""
    one, wanted = held(2)
    runs.suspend(wanted.run.work_order_id, by=ana)
    done = together_with(going(one), going(wanted))
    assert [type(end) for end in done] == [type(None), record.Suspended]
    assert went(one)
    assert head_of(wanted).node_id == ""


def test_who_holds_one_row_holds_up_that_run_only(held, sizes):
    """The statement waits for no lock, so it is part of no circle; the run whose row is held waits
    by itself.
    """
    one, locked, other = held(3)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            Run.objects.filter(pk=locked.run.pk).update(reason="")
            ends = pool.submit(together_with, going(one), going(locked), going(other))
            until(
                lambda: seen_by_others(one) and seen_by_others(other),
                what="the two that nobody holds",
            )
            assert not ends.done()
        assert ends.result(30) == [None, None, None]
    assert sizes == [3]
    assert all(went(run) for run in (one, locked, other))


def seen_by_others(one):
    return Event.objects.filter(thread=one.run.thread_id, kind="step_completed").exists()


def test_a_row_that_the_database_refuses_fails_its_own_run_only(held, sizes):
    """A name longer than its column: the statement for all is taken back, then each is written
    alone.
    """
    one, bad, two = held(3)
    done = together_with(
        going(one), lambda: record.go(bad, Go(to="x" * 101), stay=True), going(two)
    )
    assert [type(end) for end in done] == [type(None), DataError, type(None)]
    assert sizes == [3]
    assert went(one)
    assert went(two)
    assert head_of(bad).node_id == ""


def test_of_two_claims_of_one_run_one_wins(make_order):
    """F0, F13: also where one process gets the same message twice at the same moment."""
    run_id, other = make_order().latest_run_id, make_order().latest_run_id
    found = [_read(run_id), _read(run_id), _read(other)]
    assert all(found)
    done = together_with(*((lambda one=one: record.claim(one)) for one in found))
    assert sorted(done[:2]) == [False, True]
    assert done[2]
    assert kinds(WorkOrder.objects.get(latest_run=run_id)).count("run_started") == 1


def test_writes_of_different_kinds_go_apart(held, sizes):
    """Steps that go on with steps that go on, ends with ends."""
    one, two, three, four = held(4)
    done = together_with(
        going(one),
        lambda: record.done(two, Done()),
        going(three),
        lambda: record.done(four, Done()),
    )
    assert done == [None] * 4
    assert sizes == [2, 2]
    assert set(Run.objects.values_list("status", flat=True)) == {"running", "completed"}
    assert went(one)
    assert went(three)


def test_where_the_connection_broke_nothing_is_written_twice(held, monkeypatch):
    """P4: nobody knows whether it was committed, so each is told so and the sweep decides."""
    several = statements.several

    def broken(writes):
        several(writes)
        connection.connection.close()
        raise OperationalError("the connection was lost")

    monkeypatch.setattr(statements, "several", broken)
    found = held(3)
    done = together_with(*(going(one) for one in found))
    assert [type(end) for end in done] == [OperationalError] * 3
    for one in found:
        assert kinds(WorkOrder.objects.get(latest_run=one.run.pk)).count("step_completed") == 1
        check_log(one)


def test_a_leader_that_dies_takes_nobody_along(held, monkeypatch):
    def dying(writes):
        raise KilledHere

    monkeypatch.setattr(statements, "several", dying)
    one, two, three = held(3)
    done = together_with(going(one), going(two), going(three))
    assert sorted(type(end).__name__ for end in done) == ["KilledHere", "NoneType", "NoneType"]
    assert not group._committer._led
    monkeypatch.undo()
    assert record.claim(
        _read_again(next(run for run, end in zip((one, two, three), done, strict=True) if end))
    )


def _read_again(one):
    """The run of a worker that died, taken back."""
    Run.objects.filter(pk=one.run.pk).update(
        status="pending", lease_owner="", lease_until=None, due_at=timezone.now()
    )
    found = _read(one.run.pk)
    assert found is not None
    return found


def test_a_lone_write_waits_for_nobody(make_order, sizes):
    """At once when idle: no timer, and the statement for one."""
    order = make_order("writing-quick")
    assert advance(order.latest_run_id, budget=60) == []
    assert fresh(order).status == "completed"
    assert sizes == []
    assert not lost_worker.claim(order.latest_run_id, now=timezone.now())
