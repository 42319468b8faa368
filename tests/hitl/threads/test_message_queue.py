"""A message that comes while a run is alive: refused, queued or interrupting, as the thread says;
begun exactly once, in order.
"""

from __future__ import annotations

import datetime as dt
import uuid
from functools import partial

import psycopg
import pytest
from django.db import OperationalError
from django.utils import timezone, translation

from checkpoints.events import log
from checkpoints.models import EventKind, Thread, WhenBusy
from hitl.decisions import services
from hitl.models import Via
from hitl.threads import erasure, messages
from runs import tasks
from runs.engine.advance import advance
from runs.models import Pause, QueuedTurn, Run, StepTemplate
from runs.states import CANCELLED, COMPLETED
from runs.threads import message_queue, turns
from runs.threads.turns import ThreadBusy, Turn
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.worlds.histories.whole_story import broken
from tests.worlds.talking_threads import FAIL, drive, state_of, texts, thread

pytestmark = pytest.mark.django_db

__all__ = ["thread"]


def say(thread, words, by, **more):
    return messages.say(
        thread.pk, Turn(template="talk", input={"input": words}, **more), by=by, via=Via.REST
    )


def busy(thread, how):
    Thread.objects.filter(pk=thread.pk).update(when_busy=how)
    return thread


def settle(thread):
    """What workers and the sweep do, until nothing is left to do."""
    while True:
        live = Run.objects.live().filter(thread=thread).first()
        if live is not None and live.status != "paused":
            drive(live)
        elif message_queue.begin_next(thread.pk) is None:
            return


def inputs(thread):
    return [run.input["input"] for run in Run.objects.filter(thread=thread).order_by("pk")]


@pytest.mark.both_databases
def test_queued_messages_say_their_place_and_begin_in_order_each_once(thread, ana):
    busy(thread, WhenBusy.QUEUE)
    assert say(thread, "one", ana).how == "started"
    said = [say(thread, words, ana) for words in ("two", "three")]
    assert [(one.how, one.place, one.run.status) for one in said] == [
        ("queued", 1, "pending"),
        ("queued", 2, "pending"),
    ]
    settle(thread)
    assert inputs(thread) == ["one", "two", "three"]
    assert {one.status for one in QueuedTurn.objects.all()} == {QueuedTurn.Status.BEGUN}
    assert [one.run.input["input"] for one in QueuedTurn.objects.order_by("pk")] == ["two", "three"]


def test_a_message_does_not_overtake_those_that_wait(thread, ana):
    """The run has ended, and nobody has looked at the line yet."""
    busy(thread, WhenBusy.QUEUE)
    drive(say(thread, "one", ana).run)
    message_queue.put(thread.pk, Turn(input={"input": "two"}), by=ana)
    said = say(thread, "three", ana)
    assert (said.how, said.place, said.run.input["input"]) == ("queued", 1, "two")
    settle(thread)
    assert inputs(thread) == ["one", "two", "three"]


def test_a_run_that_fails_or_is_cancelled_lets_the_next_begin(thread, ana):
    busy(thread, WhenBusy.QUEUE)
    FAIL.add("step1")
    first = say(thread, "one", ana).run
    say(thread, "two", ana)
    drive(first)
    FAIL.clear()
    second = message_queue.begin_next(thread.pk)
    assert second is not None
    say(thread, "three", ana)
    messages.cancel(second.pk, by=ana, via=Via.REST)
    settle(thread)
    assert inputs(thread) == ["one", "two", "three"]
    assert list(Run.objects.order_by("pk").values_list("status", flat=True)) == [
        "failed",
        "cancelled",
        "completed",
    ]


def test_a_question_is_answered_before_the_line_goes_on(thread, ana):
    busy(thread, WhenBusy.QUEUE)
    run = messages.say(
        thread.pk, Turn(template="talk-pausing", input={"input": "one"}), by=ana, via=Via.REST
    ).run
    say(thread, "later", ana)
    drive(run)
    assert message_queue.begin_next(thread.pk) is None
    assert say(thread, "APPROVE", ana).how == "answered"
    settle(thread)
    assert inputs(thread) == ["one", "later"]


def test_a_message_that_waits_can_be_withdrawn_until_it_has_begun(thread, ana, zoe):
    busy(thread, WhenBusy.QUEUE)
    say(thread, "one", ana)
    turn = say(thread, "two", ana).queued
    with pytest.raises(services.NotFound):
        messages.withdraw(thread.pk, turn.pk, by=zoe)
    assert messages.withdraw(thread.pk, turn.pk, by=ana).status == "withdrawn"
    with pytest.raises(message_queue.NotWaiting):
        messages.withdraw(thread.pk, turn.pk, by=ana)
    settle(thread)
    assert inputs(thread) == ["one"]


def test_what_cannot_begin_any_more_is_refused_in_the_log_and_the_next_takes_its_place(
    thread, ana, ben
):
    busy(thread, WhenBusy.QUEUE)
    drive(say(thread, "one", ana).run)
    message_queue.put(thread.pk, Turn(input={"input": "two"}), by=ben)
    message_queue.put(thread.pk, Turn(input={"input": "three"}), by=ana)
    ben.groups.clear()
    run = message_queue.begin_next(thread.pk)
    assert run is not None and run.input["input"] == "three"
    refused = QueuedTurn.objects.get(status="refused")
    assert "takes no part" in refused.words
    assert any(
        "was not taken" in event.data.get("message", "") for event in log.after(thread.pk, 0)
    )


def test_a_message_whose_template_cannot_run_here_any_more_is_refused_too(thread, ana):
    """Its words are kept, so they are English."""
    busy(thread, WhenBusy.QUEUE)
    drive(say(thread, "one", ana).run)
    message_queue.put(thread.pk, Turn(input={"input": "two"}), by=ana)
    StepTemplate.objects.update(function="shop.closed")
    with translation.override("de"):
        assert message_queue.begin_next(thread.pk) is None
    assert "cannot run on this server" in QueuedTurn.objects.get(status="refused").words


def test_a_message_whose_rows_others_hold_for_a_moment_waits_and_begins_later(
    thread, ana, monkeypatch
):
    busy(thread, WhenBusy.QUEUE)
    drive(say(thread, "one", ana).run)
    waiting = message_queue.put(thread.pk, Turn(input={"input": "two"}), by=ana)

    def deadlock(*args, **more):
        raise OperationalError("deadlock detected") from psycopg.errors.DeadlockDetected()

    with monkeypatch.context() as patched:
        patched.setattr(turns, "take_turn", deadlock)
        assert message_queue.begin_next(thread.pk) is None
    waiting.refresh_from_db()
    assert (waiting.status, waiting.words) == (QueuedTurn.Status.WAITING, "")
    settle(thread)
    assert inputs(thread) == ["one", "two"]


def test_an_interrupting_message_ends_the_run_and_keeps_what_was_said_so_far(thread, ana):
    busy(thread, WhenBusy.INTERRUPT)
    first = say(thread, "Tell me a long story", ana).run
    Run.objects.filter(pk=first.pk).update(
        status="running",
        epoch=1,
        lease_owner="x",
        lease_until=timezone.now() + dt.timedelta(minutes=1),
    )
    step = {"step": "step1", "loop_num": 1}
    log.append(thread.pk, first.pk, [(EventKind.STEP_STARTED, step)])
    log.append(
        thread.pk,
        first.pk,
        [
            (EventKind.STREAMING_CHUNK, {**step, "content": words})
            for words in ("Once upon", " a time")
        ],
    )
    said = say(thread, "Shorter", ana)
    assert (said.how, said.interrupted.pk, said.run.input["input"]) == (
        "interrupted",
        first.pk,
        "Shorter",
    )
    first.refresh_from_db()
    assert first.status == CANCELLED
    kept = state_of(thread)["messages"]
    assert [(one["role"], one["content"]) for one in kept] == [
        ("user", "Tell me a long story"),
        ("assistant", "Once upon a time"),
    ]
    assert kept[1]["interrupted"] is True
    drive(said.run)
    assert texts(state_of(thread))[:2] == ["Tell me a long story", "Once upon a time"]


def test_a_question_that_was_left_alone_is_closed_by_an_interruption(thread, ana):
    busy(thread, WhenBusy.INTERRUPT)
    run = drive(
        messages.say(
            thread.pk, Turn(template="talk-pausing", input={"input": "one"}), by=ana, via=Via.REST
        ).run
    )
    assert run.status == "paused"
    turn = Turn(template="talk", input={"input": "Never mind"})
    said = messages.say(thread.pk, turn, by=ana, via=Via.REST, auto_resume_pending=False)
    assert said.how == "interrupted"
    assert not Pause.objects.open().exists()
    assert drive(said.run).status == COMPLETED


@pytest.mark.both_databases
def test_a_crash_between_waiting_and_beginning_is_made_good_by_the_sweep(thread, ana, monkeypatch):
    busy(thread, WhenBusy.QUEUE)
    drive(say(thread, "one", ana).run)
    message_queue.put(thread.pk, Turn(input={"input": "two"}), by=ana)  # and nobody looked
    late = timezone.now() + dt.timedelta(minutes=5)
    assert "queued_but_not_begun" in broken(now=late, deep=False)
    sent: list[uuid.UUID] = []
    monkeypatch.setattr(tasks, "send_next_turn", sent.append)
    tasks.sweep()
    assert sent == [thread.pk]
    settle(thread)
    assert inputs(thread) == ["one", "two"]


@pytest.mark.both_databases
def test_a_line_is_bounded_and_goes_with_its_thread(thread, ana, monkeypatch):
    monkeypatch.setattr(message_queue, "LONGEST", 2)
    busy(thread, WhenBusy.QUEUE)
    say(thread, "one", ana)
    say(thread, "two", ana)
    say(thread, "three", ana)
    with pytest.raises(message_queue.QueueFull):
        say(thread, "four", ana)
    settle(thread)
    erasure.erase(thread.pk, by="root", reason="asked for")
    assert not QueuedTurn.objects.exists()


def test_a_work_orders_thread_has_no_line(paused, ana):
    Thread.objects.update(when_busy=WhenBusy.QUEUE)
    with pytest.raises(ThreadBusy):
        messages.say(
            paused.thread_id,
            Turn(input={"input": "x"}),
            by=ana,
            via=Via.REST,
            auto_resume_pending=False,
        )
    assert not QueuedTurn.objects.exists()


# Races


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_many_who_begin_the_next_at_once_begin_one(thread, ana):
    busy(thread, WhenBusy.QUEUE)
    drive(say(thread, "one", ana).run)
    for words in ("two", "three"):
        message_queue.put(thread.pk, Turn(input={"input": words}), by=ana)
    found = at_once(*[partial(message_queue.begin_next, thread.pk)] * 4)
    assert [one.input["input"] for one in found if one is not None] == ["two"]
    settle(thread)
    assert inputs(thread) == ["one", "two", "three"]


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_messages_that_come_as_the_run_ends_are_each_begun_once(thread, ana):
    """Keeper and opener commit before they look, so one of them sees both."""
    busy(thread, WhenBusy.QUEUE)
    run = say(thread, "one", ana).run
    jobs = [partial(say, thread, words, ana) for words in ("two", "three")]
    found = at_once(partial(advance, run.pk, budget=60), *jobs)
    assert not [one for one in found if isinstance(one, Exception)]
    settle(thread)
    assert sorted(inputs(thread)) == ["one", "three", "two"]


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_of_withdrawing_and_beginning_one_wins(thread, ana):
    busy(thread, WhenBusy.QUEUE)
    drive(say(thread, "one", ana).run)
    turn = message_queue.put(thread.pk, Turn(input={"input": "two"}), by=ana)
    begun, withdrawn = at_once(
        partial(message_queue.begin_next, thread.pk),
        partial(messages.withdraw, thread.pk, turn.pk, by=ana),
    )
    turn.refresh_from_db()
    assert (
        (begun is not None)
        == (turn.status == "begun")
        == isinstance(withdrawn, message_queue.NotWaiting)
    )


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_two_interruptions_at_once_leave_one_run_alive_and_lose_no_message(thread, ana):
    busy(thread, WhenBusy.INTERRUPT)
    say(thread, "one", ana)
    found = at_once(*[partial(say, thread, words, ana) for words in ("two", "three")])
    assert not [one for one in found if isinstance(one, Exception)]
    assert Run.objects.live().filter(thread=thread).count() == 1
    settle(thread)
    assert sorted(inputs(thread)) == ["one", "three", "two"]


# REST


def test_over_rest_the_answer_says_what_became_of_the_message(thread, api, ana):
    api = api(ana)
    path = f"/api/v1/threads/{thread.shown_id}"
    assert api.get(path).json()["when_busy"] == "refuse"
    assert api.patch(path, {"when_busy": "never"}, format="json").status_code == 400
    assert api.patch(path, {"when_busy": "queue"}, format="json").json()["when_busy"] == "queue"
    started = api.post(f"{path}/runs", {"template": "talk", "input": "one"}, format="json")
    assert (started.status_code, started.json()["how"]) == (201, "started")
    waits = api.post(f"{path}/runs", {"input": "two"}, format="json")
    assert (waits.status_code, waits.json()["how"], waits.json()["queued"]["place"]) == (
        202,
        "queued",
        1,
    )
    assert waits.json()["run"]["id"] == started.json()["run"]["id"]
    [line] = api.get(f"{path}/queue").json()["results"]
    assert (line["input"], line["place"], line["by"]) == ({"input": "two"}, 1, "ana")
    assert api.delete(f"{path}/queue/{line['id']}").json()["status"] == "withdrawn"
    again = api.delete(f"{path}/queue/{line['id']}")
    assert (again.status_code, again.json()["code"]) == (409, "not_waiting")
    api.patch(path, {"when_busy": "interrupt"}, format="json")
    third = api.post(f"{path}/runs", {"input": "three"}, format="json")
    assert (third.status_code, third.json()["how"]) == (201, "interrupted")
    assert third.json()["interrupted_run_id"] == started.json()["run"]["id"]
    api.patch(path, {"when_busy": "refuse"}, format="json")
    refused = api.post(f"{path}/runs", {"input": "four"}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "run_live")
