"""How far a step is, by its own words: on the run's row while it works, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError

from checkpoints.events import live
from checkpoints.models import Checkpoint, Event
from runs.engine.context import progress as writing
from runs.engine.context import streaming
from runs.engine.context.progress import StepProgress
from runs.models import Run
from runs.workflows.base import Done, StepFailed
from tests.conftest import drive, fresh
from tests.doors.rest import ana_api as ana_api
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db


@pytest.fixture
def at_once(monkeypatch):
    """Who says something writes it: another thread sees no open transaction."""
    monkeypatch.setattr(streaming, "announce", lambda gathered: gathered._drain())


def told() -> Any:
    return Run.objects.get().progress_now


@pytest.mark.usefixtures("at_once")
def test_a_step_says_how_far_it_is_and_it_is_gone_when_the_step_ends(order_that, ana_api):
    seen = []

    def loads(state, context):
        for done in (1, 2):
            context.progress(done, 4, unit="rows")
            seen.append(told())
        order = Run.objects.get().work_order
        seen.append(ana_api.get(f"/api/v1/work-orders/{order.shown_id}").json()["progress"])
        run = Run.objects.get()
        seen.append(ana_api.get(f"/api/v1/runs/{run.shown_id}").json()["progress"])
        return Done()

    order = drive(order_that(loads))

    two = {"done": 2, "of": 4, "unit": "rows"}
    assert seen == [{"done": 1, "of": 4, "unit": "rows"}, two, two, two]
    assert (order.status, told(), Run.objects.get().progress) == ("completed", None, None)
    assert not Event.objects.filter(data__icontains="rows").exists()
    assert not any(
        "rows" in str(body) for body in Checkpoint.objects.values_list("body", flat=True)
    )


@pytest.mark.usefixtures("at_once")
def test_a_new_try_begins_without_what_the_one_before_said(order_that):
    seen = []

    def fails_once(state, context):
        seen.append(told())
        context.progress(9, 10)
        if len(seen) == 1:
            # as a crash leaves it: nobody takes anything back
            left = Run.objects.get().progress
            Run.objects.update(progress={**left, "epoch": left["epoch"] - 1})
            seen.append(told())
            raise StepFailed("once", code="flaky")
        return Done()

    order = drive(order_that(fails_once, retry={"attempts": 2, "base": 0.01, "cap": 0.01}))

    assert order.status in {"completed", "running", "pending"}
    assert set(seen) == {None}


def test_only_what_was_said_last_is_written_and_once_in_a_second(order_that, monkeypatch):
    written = []
    monkeypatch.setattr(StepProgress, "_write", lambda self, said: written.append(said))
    monkeypatch.setattr(streaming, "announce", lambda gathered: streaming._waiting.add(gathered))
    waits = []

    def loads(state, context):
        for done in range(10):
            context.progress(done, 10)
        (waiting,) = streaming._waiting
        waiting._drain()
        waits.append(waiting.due_in(waiting._written_at))
        context.progress(10, 10)
        waiting._drain()
        return Done()

    drive(order_that(loads))

    assert [said and said["done"] for said in written] == [9, 10, None]
    assert waits == [writing.EVERY]
    assert not streaming._waiting


@pytest.mark.usefixtures("at_once")
def test_no_step_fails_since_nobody_could_be_told(order_that, monkeypatch):
    def away(self, said):
        raise DatabaseError("the database is away")

    monkeypatch.setattr(StepProgress, "_write", away)

    def loads(state, context):
        context.progress(1)
        context.progress(2)
        return Done()

    assert drive(order_that(loads)).status == "completed"


@pytest.mark.parametrize("numbers", [(-1,), (float("nan"), 3), (1, float("inf")), ("1", 2)])
def test_what_is_no_number_fails_the_step_with_its_words(order_that, numbers):
    order = drive(order_that(lambda state, context: context.progress(*numbers)))

    assert fresh(order).status == "failed"
    assert "give numbers from 0 on" in order.latest_run.error


@pytest.mark.usefixtures("at_once")
def test_watchers_are_told_beside_the_log(order_that, monkeypatch):
    hints = []
    monkeypatch.setattr(live, "side_hint_on_commit", lambda *told: hints.append(told))
    order = drive(order_that(lambda state, context: context.progress(5, unit="pages") or Done()))

    run = order.latest_run.shown_id
    said = {"done": 5, "of": None, "unit": "pages"}
    assert hints == [
        (order.thread_id, "progress", {"run_id": run, "progress": said}),
        (order.thread_id, "progress", {"run_id": run, "progress": None}),
    ]


def test_hints_that_wait_for_their_turn_tell_what_was_said_last():
    one, other = (
        {"seq": 0, "events": [], "topics": ["progress"], "said": {"progress": number}}
        for number in (1, 2)
    )
    event = {"seq": 7, "events": [], "thread": "x"}

    assert live._joined(one, other)["said"] == {"progress": 2}
    assert live._joined(one, event) == {**event, "topics": ["progress"], "said": one["said"]}
