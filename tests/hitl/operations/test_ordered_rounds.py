"""Beat's look: one statement asks which rounds have something to do, and those alone are ordered.

Whatever a round does something about is made here, and the look must order that round: one that it
passes over would wait for ever.
"""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from checkpoints.database import clock
from checkpoints.models import Chore
from checkpoints.retention import jobs
from extensions.mail_replies import tasks as replies
from hitl import tasks as answers
from hitl.models import EarlyAnswer, IdempotencyKey, Presence
from hitl.models.outbound import Delivery
from project.celery import app
from runs import rounds, tasks, turn_tasks
from runs.engine.workers import clocks
from runs.git import housekeeping
from runs.models import Pause, Place, QueuedTurn, Run, Schedule, WorkLimit
from tests.conftest import drive, pause_of
from tests.databases.undone import undone

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

MINUTE = dt.timedelta(minutes=1)
DEADLINES, EARLY = answers.fire_deadlines.name, answers.take_early_answers.name
NEWS, SWEEP = answers.announce.name, tasks.sweep.name
SCHEDULES = turn_tasks.start_scheduled.name


@pytest.fixture(autouse=True)
def kept(tmp_path, settings):
    """The round of keeping is over for today, and so is that of this machine's folders."""
    settings.WAYSTATION_DATA = str(tmp_path)
    Chore.objects.create(pk="keeping", busy_until=clock.now(), due_at=clock.now() + 60 * MINUTE)
    housekeeping.tend(now=clock.now())
    app.loader.import_default_modules()


@pytest.fixture
def ordered(monkeypatch):
    """The names of the rounds that one look orders."""

    def look():
        names: list[str] = []
        monkeypatch.setattr(tasks, "_order", names.append)
        tasks.order_rounds()
        return names

    return look


@pytest.fixture
def asked(make_order):
    """An order that waits for a person, of whom nobody needs to be told any more."""
    order = drive(make_order())
    answers.announce()
    Delivery.objects.all().delete()
    return order


def lost(order):
    Run.objects.filter(pk=order.latest_run_id).update(
        status="running", lease_owner="gone:1", lease_until=clock.now() - MINUTE
    )


def overdue(order):
    late = dt.timedelta(seconds=settings.WAYSTATION_PATIENCE_SECONDS + 1)
    Run.objects.filter(pk=order.latest_run_id).update(status="pending", due_at=clock.now() - late)


def waits_for_a_place(order):
    limit = WorkLimit.objects.create(template="any")
    Place.objects.create(run=order.latest_run, limit=limit, key="any", since=clock.now())


def waits_for_its_turn(order):
    order.latest_run.pauses.update(status="cancelled", closed_at=clock.now(), told=2)
    Run.objects.filter(pk=order.latest_run_id).update(
        status="completed", ended_at=clock.now(), end_told=True
    )
    QueuedTurn.objects.create(thread=order.thread, by=order.created_by)


def keeping_is_due(order):
    Chore.objects.filter(pk="keeping").update(due_at=clock.now() - MINUTE)


def nothing_was_ever_kept(order):
    Chore.objects.all().delete()


def deadline(order):
    Pause.objects.update(next_at=clock.now() - MINUTE)


def untold(order):
    Pause.objects.update(told=0)


def unsent(order):
    Delivery.objects.create(
        pause=pause_of(order),
        occasion="asked",
        channel="email",
        place="user:1",
        next_at=clock.now() - MINUTE,
        made_at=clock.now(),
    )


def sender_died(order):
    unsent(order)
    Delivery.objects.update(
        status="sending", next_at=clock.now() + MINUTE, lease_until=clock.now() - MINUTE
    )


def left_the_page(order):
    Presence.objects.create(
        pause=pause_of(order), person=order.created_by, until=clock.now() - MINUTE
    )


def old_key(order):
    age = dt.timedelta(hours=settings.WAYSTATION_IDEMPOTENCY_HOURS) + MINUTE
    IdempotencyKey.objects.create(
        user=order.created_by, key="k", request_digest="d", made_at=clock.now() - age
    )


def early(order, **fields):
    EarlyAnswer.objects.create(
        thread=order.thread,
        run=order.latest_run,
        event={},
        by=order.created_by,
        via="rest",
        node_id="planning",
        received_at=clock.now(),
        expires_at=clock.now() + MINUTE,
        **{"changed_at": clock.now(), **fields},
    )


def giver_died(order):
    early(order, status="taking", pause=pause_of(order), changed_at=clock.now() - MINUTE)


def schedule(order):
    order.created_by.user_permissions.add(Permission.objects.get(codename="add_schedule"))
    Schedule.objects.create(
        name="Nightly",
        owner=order.created_by,
        template=order.template.slug,
        cron="0 2 * * *",
        cursor=clock.now(),
        next_at=clock.now() - MINUTE,
    )


DUE = {
    lost: SWEEP,
    overdue: SWEEP,
    waits_for_a_place: SWEEP,
    waits_for_its_turn: SWEEP,
    keeping_is_due: SWEEP,
    nothing_was_ever_kept: SWEEP,
    deadline: DEADLINES,
    untold: NEWS,
    unsent: NEWS,
    sender_died: NEWS,
    left_the_page: NEWS,
    old_key: NEWS,
    early: EARLY,
    giver_died: EARLY,
    schedule: SCHEDULES,
}


def test_whatever_a_round_does_something_about_orders_that_round(asked, ordered, subtests):
    """P3, P8: at the very next look."""
    assert ordered() == []
    for happens, name in DUE.items():
        with subtests.test(happens.__name__), undone():
            happens(asked)
            assert ordered() == [name]


def test_each_round_is_the_looks_or_has_an_entry_of_beats_or_is_ordered_by_another():
    entries = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    every = {name for name, task in app.tasks.items() if isinstance(task, rounds.Round)}
    assert entries == {tasks.order_rounds.name, answers.anchor_ledgers.name}
    # the mailbox has an entry where one is set, which is not here
    others = {answers.deliver.name, replies.read_mailbox.name}
    assert every - entries - set(rounds.looked_for()) == others
    assert set(rounds.looked_for()) == {SWEEP, DEADLINES, NEWS, EARLY, SCHEDULES}


def test_a_look_comes_as_often_as_each_round_did():
    """P8: at most one sweep late."""
    entry: dict[str, Any] = settings.CELERY_BEAT_SCHEDULE["rounds"]
    assert entry["schedule"].seconds == settings.WAYSTATION_SWEEP_SECONDS
    assert {rounds._every(name) for name in rounds.looked_for()} == {
        settings.WAYSTATION_SWEEP_SECONDS
    }


def test_while_nothing_is_due_a_look_is_one_statement_whatever_waits(asked, ordered):
    """P7: at most half a statement a second, with five seconds from look to look."""
    clocks.note()
    with CaptureQueriesContext(connection) as one:
        assert ordered() == []
    assert len(one) == 1


def test_each_question_of_the_look_is_answered_by_an_index(asked, ordered):
    """A look must cost the same with a hundred thousand runs."""
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    plans = [
        rows.order_by().values("pk")[:1].explain()
        for due in rounds.looked_for().values()
        for rows in due()
    ]
    scanned = [plan for plan in plans if "Seq Scan" in plan]
    assert scanned == []


def test_two_beats_order_a_round_twice_and_it_begins_once(asked, monkeypatch):
    deadline(asked)
    fired, task = [], answers.fire_deadlines
    monkeypatch.setattr(answers, "_fired", lambda: fired.append(1))

    def order(name):
        assert name == task.name
        task.push_request(called_directly=False, is_eager=False)
        try:
            task()
        finally:
            task.pop_request()

    monkeypatch.setattr(tasks, "_order", order)
    monkeypatch.setattr(rounds, "check_connection", lambda: None)
    tasks.order_rounds()
    tasks.order_rounds()
    assert fired == [1]


def test_where_the_database_cannot_say_every_round_is_ordered(ordered, monkeypatch, caplog):
    """P12: a table that is locked holds up the rounds of no other one."""

    def fail(_):
        raise OperationalError("canceling statement due to lock timeout")

    monkeypatch.setattr(rounds, "_ask", fail)
    assert ordered() == sorted(rounds.looked_for())
    assert "could not ask which rounds have something to do" in caplog.text


def test_a_look_whose_messages_are_lost_orders_again_at_the_next_one(asked, ordered):
    """P3: and so does a beat that began anew."""
    overdue(asked)
    assert [ordered(), ordered()] == [[SWEEP], [SWEEP]]
    assert jobs.begin_round(f"round {uuid.uuid4()}"[:40], apart=5)


def test_the_look_mends_its_process_after_the_broker_was_away(ordered, monkeypatch):
    monkeypatch.setattr(tasks, "_broken_until", float("inf"))
    ordered()
    assert tasks._broken_until == 0.0


def test_the_look_sees_to_the_folders_of_its_machine(ordered, monkeypatch):
    """They are no rows; each machine looks after its own."""
    seen = []
    monkeypatch.setattr(housekeeping, "tend", lambda *, now: seen.append(now))
    ordered()
    assert len(seen) == 1
