"""A host that fell silent in the middle of a transaction holds its rows, and nothing else: all
other work goes on (P3).
"""

from __future__ import annotations

import datetime as dt

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from checkpoints.database import addresses, locks
from checkpoints.models import Thread
from hitl import tasks as rounds
from hitl.decisions.deadlines import outcomes
from hitl.decisions.services import Answer, decide
from hitl.models import Via
from runs import env, services, tasks
from runs.engine.recovery import lost_runs
from runs.engine.workers import lease
from runs.models import Pause, Run
from tests.conftest import drive, pause_of
from tests.servers.stack import until
from tests.worlds import lost_worker
from tests.worlds.deadlines import asked as asked
from tests.worlds.deadlines import at

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.fixture
def silent():
    """`silent(statement, values, idle)`: a session of another host that says this in a transaction,
    and nothing more.
    """
    if connection.vendor != "postgresql":
        pytest.skip("on SQLite a writer holds the whole file, and its host is this one")
    sessions = []

    def hold(statement, values, *, idle=60.0, lock=0.0):
        url = "postgresql://host/x?prepare_threshold=3"
        patience = addresses.Patience(idle=idle, lock=lock)
        told = addresses.database(url, pool=0, patience=patience)["OPTIONS"]["options"]
        session = psycopg.connect(f"{connection.connection.info.dsn} options='{told}'")
        sessions.append(session)
        session.execute(statement, values)
        return session

    yield hold
    for session in sessions:
        session.close()


def lost(order):
    assert lost_worker.claim(order.latest_run_id, now=timezone.now())
    Run.objects.filter(pk=order.latest_run_id).update(
        lease_until=timezone.now() - dt.timedelta(hours=1)
    )
    return order


HOLDS = {
    "its run": "UPDATE runs_run SET epoch = epoch WHERE id = %(run)s",
    "its thread": "UPDATE checkpoints_thread SET last_seq = last_seq WHERE id = %(thread)s",
    "its question": "UPDATE runs_pause SET stage = stage WHERE run_id = %(run)s",
}


@pytest.mark.parametrize("what", ["its run", "its thread"])
def test_a_run_that_a_silent_host_holds_keeps_no_other_from_being_taken_back(
    make_order, silent, ana, what
):
    """The sweep's UPDATE waited for that row, for about two hours: no other run was taken back, and
    no order began.
    """
    here, there, third = lost(make_order()), lost(make_order()), make_order()
    session = silent(HOLDS[what], {"run": here.latest_run_id, "thread": here.thread_id}, idle=0.3)
    assert lost_runs.take_back(now=timezone.now()) == [(there.latest_run_id, "steps")]
    for order in (drive(there), drive(third), drive(services.submit("writing", by=ana))):
        decide(pause_of(order).pk, Answer("approve", Via.REST), by=ana)
    rows = ((Run, here.latest_run_id), (Thread, here.thread_id))
    until(
        lambda: all(locks.free(model, [key]) for model, key in rows),
        what="the server to end the session",
    )
    assert lost_runs.take_back(now=timezone.now()) == [(here.latest_run_id, "steps")]
    with pytest.raises(psycopg.Error):
        session.execute("SELECT 1")


def test_rounds_go_around_what_a_silent_host_holds(asked, silent, monkeypatch):
    """Deadlines, messages and housekeeping stood still behind one row that nobody let go."""
    monkeypatch.setattr(locks, "SECONDS", 0.1)
    orders = [asked(deadline={"after": "PT4H"}) for _ in range(2)]
    here = orders[0]
    silent(HOLDS["its question"], {"run": here.latest_run_id})
    outcomes.fire_due(now=at(pause_of(orders[1]), 5))
    assert [Pause.objects.get(run__work_order=order).status for order in orders] == [
        "open",
        "expired",
    ]
    silent("UPDATE checkpoints_chore SET epoch = epoch", {})
    rounds.announce()
    rounds.fire_deadlines()
    tasks.sweep()
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        # as the session began: commands and tests wait as long as it takes
        assert cursor.fetchone() == ("0",)


def test_a_worker_keeps_its_other_leases_while_a_silent_host_holds_one_of_its_runs(
    make_order, silent, monkeypatch
):
    """One statement renews all leases of a process: it waited for that row until the others had run
    out, and they were taken away.
    """
    monkeypatch.setattr(locks, "SECONDS", 0.1)
    here, there = make_order(), make_order()
    early = timezone.now()
    for order in (here, there):
        assert lost_worker.claim(order.latest_run_id, now=early)
    Run.objects.update(lease_owner=lease.owner(), lease_until=early)
    silent(HOLDS["its run"], {"run": here.latest_run_id})
    lease._renew([here.latest_run_id, there.latest_run_id])
    renewed = set(Run.objects.filter(lease_until__gt=early).values_list("pk", flat=True))
    assert renewed == {there.latest_run_id}


def test_sessions_of_a_silent_host_that_wait_for_each_other_do_not_hold_a_row_in_turn(
    make_order, silent
):
    """Each got the row when the one before it was ended, and held it for as long again: a decision
    was answered with 503 for eighteen seconds where the lease was nine.
    """
    here = make_order()
    row = {"run": here.latest_run_id}
    silent(HOLDS["its run"], row, idle=0.8)
    # this one had sent its statement when its host fell silent; the host asked for more patience
    with pytest.raises(psycopg.errors.LockNotAvailable):
        silent(HOLDS["its run"], row, idle=0.8, lock=10)
    until(lambda: locks.free(Run, [here.latest_run_id]), what="the server to end the session")


def test_each_session_knows_what_it_may_take():
    url = "postgresql://me:secret@db:5432/name"
    served = addresses.database(
        url, pool=0, patience=addresses.Patience(lock=10, statement=60, idle=20)
    )["OPTIONS"]
    assert {
        "connect_timeout": "5",
        "keepalives_idle": "10",
        "tcp_user_timeout": "20000",
    }.items() <= served.items()
    wanted = (
        "lock_timeout=10000",
        "statement_timeout=60000",
        "idle_in_transaction_session_timeout=20000",
        "tcp_user_timeout=20000",
    )
    assert all(f"-c {one}" in served["options"] for one in wanted)
    command = addresses.database(f"{url}?connect_timeout=30&options=-c%20work_mem%3D64MB", pool=0)[
        "OPTIONS"
    ]
    assert (command["connect_timeout"], command["options"].endswith(" -c work_mem=64MB")) == (
        "30",
        True,
    )
    assert "_timeout=1" not in command["options"].replace("user_timeout", "")
    # a pooler's sessions are everybody's
    assert "options" not in addresses.database(f"{url}?prepare_threshold=none", pool=0)["OPTIONS"]


@pytest.mark.parametrize(
    ("arguments", "serves"),
    [
        (["/x/bin/celery", "-A", "project", "worker"], True),
        (["/x/site-packages/daphne/__main__.py", "-p", "8000"], True),
        (["manage.py", "standalone", "--demo"], True),
        (["manage.py", "migrate"], False),
        (["manage.py"], False),
        (["/x/bin/pytest"], False),
    ],
)
def test_servers_and_workers_are_told_apart_from_commands(arguments, serves):
    assert env.serves(arguments) is serves
