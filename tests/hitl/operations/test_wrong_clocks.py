"""A host whose clock is wrong, as one process of it sees the world: what it writes and compares
goes by the database's clock.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
from itertools import pairwise
from typing import Any

import pytest
from celery import current_app as app
from django.conf import settings
from django.contrib.auth.models import Permission
from django.db import connection
from django.db.models import F
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.models import Blob, Chore, Event
from checkpoints.retention import garbage, jobs
from hitl.decisions import claims as hitl_claims
from hitl.decisions import presence
from hitl.models import ApiToken
from hitl.tasks import fire_deadlines
from runs import tasks
from runs.engine.advance import advance
from runs.engine.workers import clocks
from runs.models import HostClock, Pause, Run
from runs.states import PENDING, RUNNING
from runs.workflows import timing
from tests.conftest import fresh, pause_of
from tests.databases.moved_clock import wrong as wrong
from tests.worlds import lost_worker, steps
from tests.worlds.deadlines import asked as asked
from tests.worlds.histories.whole_story import broken
from tests.worlds.mailing import relay
from tests.worlds.outsiders import link_to

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

OFF = pytest.mark.parametrize("ahead", [25, -3600])
NEAR = dt.timedelta(seconds=2)


def database_now():
    with connection.cursor() as cursor:
        cursor.execute(clock.ASKED)
        return cursor.fetchone()[0]


@OFF
def test_runs_and_questions_go_by_the_databases_clock(wrong, make_order, asked, ahead):
    """P3, P8.

    A worker at +25 s took healthy runs away, and its deadlines fired early; one that is behind took
    nothing up that was due.
    """
    wrong(ahead)
    order = make_order()
    assert lost_worker.claim(order.latest_run_id, now=clock.read())
    lease = Run.objects.values_list("lease_until", flat=True)
    Run.objects.filter(pk=order.latest_run_id).move(
        {RUNNING}, PENDING, lease_owner="", lease_until=None
    )
    until = []
    steps.HOOKS["planning"] = lambda: until.append(
        lease.get(pk=order.latest_run_id) - database_now()
    )
    advance(order.latest_run_id, budget=60)
    steps.HOOKS.clear()
    assert abs(until[0] - dt.timedelta(seconds=settings.WAYSTATION_LEASE_SECONDS)) < NEAR
    assert fresh(order).status == "paused"
    question = pause_of(asked(deadline={"after": "PT1H"}))
    assert abs(question.deadline_at - database_now() - dt.timedelta(hours=1)) < NEAR
    tasks.sweep()
    fire_deadlines()
    assert pause_of(order).status == "open" and Pause.objects.get(pk=question.pk).status == "open"
    wrong(ahead, passed=3600 - 5)
    fire_deadlines()
    assert Pause.objects.get(pk=question.pk).status == "open"
    wrong(ahead, passed=3600 + 1)
    fire_deadlines()
    question.refresh_from_db()
    assert question.status == "expired"
    assert Pause.objects.filter(pk=question.pk, closed_at__gte=F("deadline_at")).exists()
    assert set(broken()) <= {"not_announced"}  # nobody did that here


@OFF
def test_a_lost_run_is_taken_back_when_its_lease_has_ended_and_not_before(wrong, make_order, ahead):
    """P3."""
    wrong(ahead)
    order = make_order()
    assert lost_worker.claim(order.latest_run_id, now=clock.read())
    wrong(ahead, passed=settings.WAYSTATION_LEASE_SECONDS - 2)
    tasks.sweep()
    assert fresh(order).status == "running"
    wrong(ahead, passed=settings.WAYSTATION_LEASE_SECONDS + 1)
    tasks.sweep()
    assert (fresh(order).status, fresh(order).latest_run.lost_attempts) == ("pending", 1)


@OFF
@pytest.mark.usefixtures("reachable")
def test_tokens_links_claims_and_presence_end_when_they_should(
    wrong, paused, ana, ben, settings, ahead
):
    """F2, F3: made by one host and used on another, or on the same one once its clock was
    set.
    """
    settings.WAYSTATION_LINK_DAYS = 600 / 86400
    wrong(ahead)
    relay()
    link = link_to("ana@example.org")
    _, secret = ApiToken.make(ben, name="test", expires_at=clock.now() + dt.timedelta(seconds=600))
    pause = pause_of(paused)
    hitl_claims.claim(pause.pk, by=ana)
    presence.note(pause.pk, by=ana, writing=True, now=clock.now())

    def standing():
        program = APIClient()
        program.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
        there = presence.look(pause.pk, by=ben, now=clock.now())
        return (
            program.get("/api/v1/work-orders").status_code,
            Client().get(link).status_code,
            [one["name"] for one in there],
        )

    wrong(0)
    assert standing() == (200, 200, ["Ana Ruiz"])
    wrong(ahead, passed=5)
    assert standing() == (200, 200, ["Ana Ruiz"])
    wrong(-ahead, passed=540)
    assert standing() == (200, 200, [])
    wrong(ahead, passed=601)
    assert standing() == (401, 410, [])


ERROR = 100
"""Milliseconds by which hosts may differ that have read the database's clock: two readings, each
with the time that it took.
"""


def test_a_key_made_later_is_the_higher_one_whichever_host_made_it(wrong):
    """P3: a retry on another host had a lower key than the run before it, so that one stayed the
    order's latest run.
    """
    made = []
    for ahead in (3600, 0, -3600, 25, -25):
        wrong(ahead)
        clock.now()
        made.append(ids.new().int >> 80)  # milliseconds
    assert all(later > earlier - ERROR for earlier, later in pairwise(made))


def test_a_blob_of_a_host_that_is_behind_is_not_collected_while_its_commit_is_under_way(wrong):
    """P2: what a host an hour behind had just put counted as old, and went before the row that
    refers to it was there.
    """
    wrong(-3600)
    Blob.objects.create(digest="d" * 64, size=1, content=b"x")
    wrong(0)
    assert not garbage.unmarked(Blob, since=clock.now()).exists()


def test_a_worker_whose_clock_is_off_says_so_until_it_is_set(wrong, zoe, caplog, monkeypatch):
    zoe.user_permissions.add(Permission.objects.get(codename="view_run"))
    operator = Client()
    operator.force_login(zoe)

    def page():
        monkeypatch.setattr(clocks, "_noted_at", None)
        clocks.note()
        return operator.get("/operations/").content.decode()

    monkeypatch.setattr(clock, "_said_at", None)
    for ahead, words in {25: "25.0 s ahead", -3600: "3600.0 s behind"}.items():
        wrong(ahead)
        assert words in page()
    wrong(1.5)
    assert "clock is off" not in page()
    assert not HostClock.objects.exists()
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told[0].startswith("This host's clock is 25.0 s ahead of the database's.")
    assert len(told) == 1  # once in a while, not at each look


def test_a_clock_that_is_set_while_the_process_runs_is_seen_at_once(wrong):
    """The monotonic clock goes on: what it says, and the last look at the database's clock, are
    enough.
    """
    wrong(0)
    before = clock.now()
    wrong(3600, new=False)
    assert abs(clock.now() - before) < NEAR
    assert clock.ahead() == pytest.approx(3600, abs=1)


def test_orders_of_beat_that_piled_up_are_carried_out_once(monkeypatch):
    """P12: they do not expire, since that would be by the clock of who takes them; a database that
    was set back holds nothing up.
    """
    assert [jobs.begin_round("round test", apart=5) for _ in range(3)] == [True, False, False]
    Chore.objects.filter(pk="round test").update(due_at=clock.now() + dt.timedelta(hours=1))
    assert jobs.begin_round("round test", apart=5)
    done = []
    monkeypatch.setattr(tasks, "_sweep", lambda: done.append(1))
    for _ in range(3):
        task = tasks.sweep
        task.push_request(called_directly=False, is_eager=False)
        try:
            task()
        finally:
            task.pop_request()
    assert done == [1]
    assert "expires" not in str(settings.CELERY_BEAT_SCHEDULE)
    assert [
        name
        for name, task in app.tasks.items()
        if name.startswith(("runs.", "hitl.")) and task.expires
    ] == []


def test_a_lease_that_ends_too_late_is_named(make_order):
    """P3: nobody would miss its worker for an hour."""
    order = make_order()
    Run.objects.update(
        status="running", lease_owner="gone:1", lease_until=clock.now() + dt.timedelta(hours=1)
    )
    assert broken()["lease_too_long"] == [order.latest_run.shown_id]


def test_beat_goes_on_when_its_clock_is_set_back(monkeypatch):
    """P3: by Celery's own schedules it sent no sweep for an hour; what was lost or due stayed so
    all the time.
    """
    entries: list[dict[str, Any]] = list(settings.CELERY_BEAT_SCHEDULE.values())
    schedules = {entry["task"]: entry["schedule"] for entry in entries}
    began = {task: schedule.now() for task, schedule in schedules.items()}
    ticks, at = time.monotonic(), timezone.now() - dt.timedelta(hours=1)
    monkeypatch.setattr(time, "monotonic", lambda: ticks + 301)
    monkeypatch.setattr(timezone, "now", lambda: at)
    monkeypatch.setattr(app, "now", lambda: at)
    assert [
        task for task, schedule in schedules.items() if not schedule.is_due(began[task]).is_due
    ] == []


def test_keys_are_of_the_databases_time_after_the_hosts_clock_was_set_back(monkeypatch):
    """P3: keys stayed an hour ahead all the while, so a run's newest checkpoint was not its last by
    key.
    """
    real = time.time_ns
    before = real() // 1_000_000
    monkeypatch.setattr(time, "time_ns", lambda: real() + 3_600 * 10**9)
    monkeypatch.setattr(clock, "offset", lambda: dt.timedelta(hours=-1))
    ahead = [ids.new() for _ in range(3)]
    monkeypatch.setattr(time, "time_ns", lambda: real() - 25 * 10**9)
    monkeypatch.setattr(clock, "offset", lambda: dt.timedelta(seconds=25))
    behind = [ids.new() for _ in range(3)]
    for keys in (ahead, behind):
        assert keys == sorted(keys) and all(0 <= (key.int >> 80) - before < 10_000 for key in keys)
    assert ahead[-1] < behind[0] and all(key.version == 7 for key in [*ahead, *behind])


@pytest.mark.django_db(transaction=True)
def test_a_process_knows_the_time_from_its_first_connection_on(monkeypatch):
    """P3: the first keys of a process whose clock is off, made before it had asked for the time,
    were of another time.
    """
    monkeypatch.setattr(clock, "_last", None)
    connection.close()
    connection.ensure_connection()
    assert clock._last is not None


@OFF
def test_whatever_is_made_is_dated_by_the_databases_clock(wrong, make_order, ana, ahead):
    """`auto_now_add` asked the host: a checkpoint of an hour ahead was "made" after the answer to
    it, an import's rows after the import; an entry of the books was dated so too (`timing`).
    """
    wrong(ahead)
    order = make_order()
    advance(order.latest_run_id, budget=60)
    pause, run = pause_of(order), order.latest_run
    token, _ = ApiToken.make(ana, name="new")
    made = [pause.checkpoint, run, order, order.thread, token, run.definition]
    dated = [
        timing.now(),
        *(one.created_at for one in made),
        *Event.objects.filter(run_id=run.pk).values_list("at", flat=True),
    ]
    assert [at for at in dated if abs(at - database_now()) > NEAR] == []


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_wrong_passwords_count_at_every_host_alike(wrong, ana, ben, settings, ahead):
    """A host that was an hour off knew of none of the others' failures, and threw them away when it
    counted its own.
    """
    settings.WAYSTATION_LOGIN_FAILURES = settings.AXES_FAILURE_LIMIT = 4

    def log_in(name, password, at):
        return (
            Client(REMOTE_ADDR=at)
            .post("/login", {"username": name, "password": password})
            .status_code
        )

    def guess(name, at):
        return [log_in(name, "wrong", at) for _ in range(4)]

    wrong(0)
    assert guess("ana", "192.0.2.1") == [200, 200, 200, 429]
    wrong(ahead)
    assert guess("ben", "192.0.2.2") == [200, 200, 200, 429]
    assert log_in("ana", "ana's long password", "192.0.2.1") == 429
    wrong(0)
    assert log_in("ben", "ben's long password", "192.0.2.2") == 429
    assert log_in("ana", "ana's long password", "192.0.2.1") == 429
    wrong(0, passed=15 * 60 + 5)
    assert log_in("ana", "ana's long password", "192.0.2.1") == 302
