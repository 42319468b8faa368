"""A step that sleeps: the run is a row that is due later, and holds nothing until then."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.urls import reverse

from checkpoints.database import clock
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import services as runs
from runs import tasks
from runs.engine.advance import advance
from runs.engine.recovery import lost_runs
from runs.models import Run
from runs.workflows import Ask, Report, Sleep, wait_for_event
from runs.workflows.base import Go
from tests.conftest import drive, fresh, log_lines, pause_of
from tests.worlds import steps
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db

HOUR = dt.timedelta(hours=1)


def asleep(order):
    """Drive the order until it sleeps; give its run."""
    assert advance(order.latest_run_id, budget=60) == []
    return fresh(order).latest_run


def let_an_hour_pass():
    Run.objects.update(due_at=clock.now() - dt.timedelta(minutes=1))


def test_a_step_sleeps_as_a_row_that_is_due_later_and_holds_nothing(order_that):
    """P2: no lease, no message, no worker; the sweep wakes the run once its time has come.

    P3: it was not lost, however late it is due.
    """
    before = clock.now()
    order = order_that(lambda state, context: Sleep(for_=HOUR, update={"plan": "slept"}))
    run = asleep(order)
    assert (run.status, run.lease_owner, run.lease_until) == ("pending", "", None)
    assert before + HOUR <= run.due_at <= clock.now() + HOUR
    now, patience = clock.now(), dt.timedelta(seconds=5)
    assert lost_runs.due_again(now=now, patience=patience) == {}
    assert advance(run.pk, budget=60) == []  # a message that comes too early finds nothing due
    assert fresh(order).latest_run.epoch == run.epoch
    checkpoints = order.thread.checkpoints.count()
    assert lost_runs.take_back(now=now + 2 * HOUR) == []
    assert order.thread.checkpoints.count() == checkpoints
    assert fresh(order).latest_run.due_at == run.due_at
    woken = lost_runs.due_again(now=now + HOUR + 2 * patience, patience=patience)
    assert list(woken) == [(run.pk, run.queue)]
    let_an_hour_pass()
    order = drive(order)
    assert (order.status, state_of(order)["plan"]) == ("completed", "slept")
    assert [step for step, _ in steps.CALLS] == ["planning", "finish"]


@pytest.mark.parametrize("wait", [dt.timedelta(seconds=20), HOUR])
def test_a_worker_leaves_a_hint_for_a_time_that_is_near(order_that, monkeypatch, wait):
    """P7: a far one is the sweep's alone, so that whoever waits long costs no memory. A hint that
    comes twice, or too early, finds nothing to do.
    """
    hints = []
    monkeypatch.setattr(tasks, "_nudge_later", lambda *hint: hints.append(hint))
    order = order_that(lambda state, context: Sleep(for_=wait))
    tasks.take_up(str(order.latest_run_id))
    run = fresh(order).latest_run
    assert hints == ([(run.pk, "steps", run.due_at)] if wait < HOUR else [])
    tasks.take_up(str(run.pk))
    assert fresh(order).latest_run.epoch == run.epoch


def test_the_retry_of_a_failed_step_and_a_short_deadline_get_hints_too(order_that, monkeypatch):
    hints: list[Any] = []
    looks: list[Any] = []
    monkeypatch.setattr(tasks, "_nudge_later", lambda *hint: hints.append(hint))
    monkeypatch.setattr(tasks, "_look_later", looks.append)

    def fail_once(state, context):
        if not hints:
            raise RuntimeError("not yet")
        return wait_for_event("paid", to="finish", within=dt.timedelta(seconds=9))

    order = order_that(fail_once, retry={"attempts": 2, "base": 1, "cap": 1})
    tasks.take_up(str(order.latest_run_id))
    run = fresh(order).latest_run
    [(key, queue, at)] = hints
    assert (key, queue) == (run.pk, "steps") and at >= run.due_at
    assert at - run.due_at < dt.timedelta(seconds=1)
    let_an_hour_pass()
    tasks.take_up(str(run.pk))
    assert looks == [pause_of(order).next_at]


def test_a_step_sleeps_until_a_time_and_a_past_one_is_no_wait(order_that):
    """The time may be of any zone, and the sleeping step may say which step follows."""
    until = dt.datetime(2030, 3, 27, 2, 30, tzinfo=dt.timezone(HOUR))
    assert asleep(order_that(lambda state, context: Sleep(until=until))).due_at == until
    past = order_that(lambda state, context: Sleep(until=clock.now() - HOUR, to="finish"))
    assert drive(past).status == "completed"


def test_a_sleeping_order_says_until_when_and_for_what(order_that, client, ana):
    order = order_that(lambda state, context: Sleep(for_=HOUR, reason="The bank <needs> a day"))
    run = asleep(order)
    client.force_login(ana)
    page = client.get(reverse("hitl:order", args=[order.pk])).content.decode()
    assert "Sleeping until" in page
    assert "The bank &lt;needs&gt; a day" in page
    assert "Waiting for a worker" not in page
    assert any(text.startswith("Sleeps until ") for text in log_lines(order))
    until = run.due_at.isoformat().replace("+00:00", "Z")
    for path in (f"work-orders/{order.shown_id}", f"runs/{run.shown_id}"):
        assert client.get(f"/api/v1/{path}").json()["sleeping_until"] == until, path
    assert fresh(order).phase == "sleeping"
    let_an_hour_pass()
    assert fresh(order).sleeping_until is None
    assert fresh(order).phase == "reviewing"


def test_a_sleeping_run_is_cancelled_like_any_other(order_that, ana):
    order = order_that(lambda state, context: Sleep(for_=HOUR))
    asleep(order)
    runs.cancel(order.pk, by=ana)
    let_an_hour_pass()
    assert drive(order).latest_run.status == "cancelled"
    assert [step for step, _ in steps.CALLS] == ["planning"]


def test_a_run_that_is_suspended_asks_in_place_of_sleeping(order_that, ana):
    """A person's wish to stop comes first: the next step waits for that person, not for a time."""

    def suspended(state, context):
        runs.suspend(order.pk, by=ana)
        return Sleep(for_=HOUR)

    order = order_that(suspended)
    assert drive(order).phase == "suspended"
    assert pause_of(order).question == "Suspended by Ana Ruiz"


NONSENSE: list[tuple[Sleep, str]] = [
    (Sleep(), "sleep_invalid"),
    (Sleep(for_=HOUR, until=dt.datetime.now(dt.UTC)), "sleep_invalid"),
    (Sleep(until=dt.datetime(2030, 1, 1)), "sleep_invalid"),  # that is refused
    (Sleep(for_=dt.timedelta(days=9999)), "sleep_invalid"),
    (Sleep(until=dt.datetime.max.replace(tzinfo=dt.UTC)), "sleep_invalid"),
    (Sleep(for_=3600), "sleep_invalid"),  # type: ignore[arg-type]  # a number is refused
    (Sleep(for_=HOUR, reason=7), "sleep_invalid"),  # type: ignore[arg-type]  # as above
    (Sleep(for_=HOUR, to=""), "sleep_misplaced"),
]


def test_a_timer_that_makes_no_sense_fails_its_step_in_words(order_that):
    for sleep, code in NONSENSE:
        order = drive(order_that(lambda state, context, said=sleep: said))
        assert (order.status, order.latest_run.failure_code) == ("failed", code), sleep
        assert "Nothing of this step was recorded" in order.latest_run.error, sleep


def test_a_step_that_sleeps_where_its_template_pauses_asks_and_then_sleeps(order_that, ana):
    """It was refused, and the question or the wait had to be given up."""
    order = drive(
        order_that(
            lambda state, context: Sleep(for_=HOUR), pause_after=True, pause_phase="awaiting_text"
        )
    )
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    run = fresh(order).latest_run
    assert (run.status, fresh(order).phase) == ("pending", "sleeping")
    assert run.due_at - clock.now() > HOUR - dt.timedelta(minutes=1)


def test_a_step_asks_after_it_has_slept(order_that):
    """A reminder: sleep, look again, and only then ask a person."""

    def remind(state, context):
        if not state.get("waited"):
            return Sleep(for_=HOUR, to="execute", update={"waited": True})
        return Ask(
            question="Still open. Go on?", answers={"approve": "finish"}, report=Report(content="")
        )

    order = order_that(remind)
    asleep(order)
    let_an_hour_pass()
    order = drive(order)
    assert (order.status, pause_of(order).question) == ("paused", "Still open. Go on?")


def test_a_retry_after_a_failed_step_is_not_taken_for_a_timer(order_that):
    """The pause before another try is due later as well, and is no sleep."""
    tries = []

    def fails(state, context):
        tries.append(1)
        if len(tries) == 1:
            raise OSError("away")
        return Go()

    retry = {"attempts": 2, "base": 30.0, "cap": 30.0, "errors": ["*"]}
    order = order_that(fails, retry=retry)
    advance(order.latest_run_id, budget=60)
    order = fresh(order)
    assert (order.latest_run.status, order.sleeping_until) == ("pending", None)
