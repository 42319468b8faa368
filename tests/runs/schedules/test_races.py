"""Several sweeps at once, a sweep that dies, a person who is quicker: at most one order each."""

from __future__ import annotations

from functools import partial

import pytest

from runs.models import Occurrence, Schedule, WorkOrder
from runs.schedules import keeping
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.killed import moments as crash
from tests.runs.schedules.scheduled import HOUR, MINUTE, NOON, history, sweep_at
from tests.runs.schedules.scheduled import scheduled as scheduled

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("file_database"),
    pytest.mark.both_databases,
]


@pytest.mark.parametrize("overlap", ["skip", "queue", "allow"])
def test_of_four_sweeps_at_once_each_occurrence_starts_one_order(scheduled, overlap):
    """P8, F11: with two beats, and a round that takes longer than its time."""
    rules = {"catch_up": "all", "overlap": overlap}
    schedules = [scheduled(cron="*/20 * * * *", **rules) for _ in range(3)]
    now = NOON + HOUR
    results = at_once(*[partial(sweep_at, now)] * 4)
    assert [error for error in results if isinstance(error, Exception)] == []
    sweep_at(now + MINUTE)
    each = {
        "skip": ["started", "skipped", "skipped"],
        "queue": ["started", "due", "due"],
        "allow": ["started"] * 3,
    }
    for schedule in schedules:
        assert [status for _, status, _ in history(schedule)] == each[overlap]
    started = Occurrence.objects.filter(status="started")
    assert WorkOrder.objects.count() == started.count() == len({row.order_id for row in started})


def test_a_sweep_may_die_at_any_moment_and_each_occurrence_starts_once(scheduled):
    """P8: between the row of an occurrence and its order too; what it did not commit the next
    sweep does, and what it did the next one does not.

    Moments are the sides of its commits: a transaction that is broken off anywhere leaves nothing.
    """
    moment, ends = 0, set()
    while True:
        moment += 1
        schedule = scheduled(cron="*/30 * * * *", catch_up="all", overlap="allow")
        before = WorkOrder.objects.count()
        now = NOON + HOUR
        with crash.killing(moment, statements=False) as moments:
            sweep_at(now)
        sweep_at(now)
        schedule.refresh_from_db()
        made = WorkOrder.objects.count() - before
        ends.add((made, tuple(history(schedule)), schedule.cursor, schedule.next_at))
        Schedule.objects.update(enabled=False)
        if not moments.dead:
            break
    assert ends == {
        (2, (("12:30", "started", 1), ("13:00", "started", 1)), NOON + HOUR, NOON + 90 * MINUTE)
    }
    assert moment > 5


def test_who_switches_it_off_and_a_sweep_agree(scheduled):
    """Either the order was made before, or it is not made."""
    for _ in range(4):
        schedule = scheduled()
        before = WorkOrder.objects.count()
        off = partial(keeping.change, Schedule.objects.get(pk=schedule.pk), enabled=False)
        results = at_once(off, partial(sweep_at, NOON + HOUR))
        assert [error for error in results if isinstance(error, Exception)] == []
        schedule.refresh_from_db()
        assert (schedule.enabled, schedule.next_at) == (False, None)
        statuses = [status for _, status, _ in history(schedule)]
        assert statuses in ([], ["started"], ["skipped"])
        assert WorkOrder.objects.count() - before == statuses.count("started")
        sweep_at(NOON + 2 * HOUR)
        assert len(history(schedule)) == len(statuses)


def test_who_changes_a_title_does_not_switch_on_what_was_stopped_meanwhile(scheduled):
    """Before, a sweep that had stopped it since its page was read was undone."""
    schedule = scheduled()
    Schedule.objects.update(enabled=False, stopped_because="The right is gone.", next_at=None)
    keeping.change(schedule, title="New")
    schedule.refresh_from_db()
    assert (schedule.title, schedule.enabled, schedule.next_at) == ("New", False, None)
    assert schedule.stopped_because == "The right is gone."
