"""Two real workers: one stands still past its lease (SIGSTOP) and comes back.

What it wanted to write is refused.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest
from django.utils import timezone

from runs.engine.recovery import lost_runs
from runs.models import Run
from tests.conftest import fresh, kinds
from tests.databases.whole import file_database as file_database
from tests.databases.whole import rows
from tests.killed import moments
from tests.programs.begun import Begun
from tests.servers.stack import until
from tests.worlds.scripted_step import state_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("file_database")]

WORKER = """
import sys, uuid, django
django.setup()
from tests.killed import moments as crash
from runs.engine.advance import advance
print(advance(uuid.UUID(sys.argv[1]), budget=60))
"""


@pytest.fixture
def worker() -> Iterator[Callable[..., Begun]]:
    """`worker(order)`: a process that has taken the order's run and stands still in the middle of
    its first step.
    """
    started: list[Begun] = []

    def start(order) -> Begun:
        environment = moments.child_environment(
            DJANGO_SETTINGS_MODULE="project.settings", WAYSTATION_LEASE_SECONDS="1"
        )
        arguments = ["-c", WORKER, str(order.latest_run_id)]
        process = Begun(*arguments, environment=environment)
        started.append(process)
        until(process.stands_still, what="a worker in the middle of its step")
        return process

    yield start
    for process in started:
        process.end()


@pytest.fixture
def order(templates, ana, team):
    moments.load()
    return moments.make("frozen", by=ana, team=team)


def go_on(process: Begun) -> str:
    """Continue a worker and wait for its end; gives what it logged."""
    os.kill(process.pid, signal.SIGCONT)
    ended = process.ended(within=30)
    assert (ended.returncode, ended.stdout.strip()) == (0, "[]"), ended.stderr
    return ended.stderr


def given_up(order) -> None:
    """The lease runs out by itself, and a sweep takes the run back."""
    until(
        lambda: lost_runs.take_back(now=timezone.now()) == [(order.latest_run_id, "steps")],
        seconds=10,
        what="the end of the lease",
    )


@pytest.mark.both_databases
def test_a_frozen_worker_that_comes_back_while_its_heir_works_changes_nothing(order, worker):
    """P4, F11: now the run is `running` again, and only the epoch tells the two apart; the lease of
    the heir is not touched either.
    """
    first = worker(order)
    given_up(order)
    second = worker(order)
    before = rows()
    assert "was cancelled or taken over" in go_on(first)
    assert rows() == before
    go_on(second)
    assert state_of(order)["process"] == second.pid
    check_once(order)


def test_a_frozen_worker_whose_run_nobody_took_goes_on(order, worker):
    """A pause of the machine is no reason to throw work away: the epoch is still its own."""
    first = worker(order)
    until(
        lambda: Run.objects.lost(now=timezone.now()).exists(),
        seconds=10,
        what="the end of the lease",
    )
    go_on(first)
    assert (fresh(order).status, Run.objects.get().epoch) == ("completed", 1)
    check_once(order)


def check_once(order) -> None:
    assert fresh(order).status == "completed"
    assert [key.split("/")[1:] for key in state_of(order)["results"]] == [
        ["do", "1"],
        ["finish", "1"],
    ]
    assert [checkpoint.node_id for checkpoint in moments.check_thread(fresh(order))] == [
        "",
        "do",
        "finish",
    ]
    assert kinds(order).count("step_completed") == 2
