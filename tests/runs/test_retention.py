"""Keeping and dropping under real runs: every promise still holds, whatever was dropped, also while
a run is at work.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
from io import StringIO
from unittest.mock import patch

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints import store
from checkpoints.models import Blob, Checkpoint, Chore, Chunk, Event, Thread
from checkpoints.retention import housekeeping
from checkpoints.retention import rules as keeping
from checkpoints.retention.jobs import claim
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import definitions, tasks
from runs import retention as runs_keeping
from runs import services as runs
from runs.engine.advance import advance
from runs.models import Pause, Run
from runs.services import forks
from runs.services.forks import NothingToFork
from runs.workflows.base import Go
from tests.conftest import drive, fresh, pause_of
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.runs.engine.children.crews import ASKING, crew, sub, work_off
from tests.worlds.histories.whole_story import broken
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

__all__ = ["crew"]
pytestmark = pytest.mark.django_db(transaction=True)
BOTH = pytest.mark.both_databases

LONG_AGO = dt.timedelta(hours=1)


def prune(*, days=0.0, now=None):
    """Drop all that may go; `days` from now."""
    for kind in (Blob, Chunk):
        kind.objects.update(touched_at=timezone.now() - LONG_AGO)
    Chore.objects.update(busy_until=timezone.now() - LONG_AGO)
    return runs_keeping.prune(now=now or timezone.now() + dt.timedelta(days=days))


def looping(times):
    return lambda state, context: Go(
        update={"n": context.loop_num, "pad": "x" * 300},
        to="execute" if context.loop_num < times else None,
    )


def keep(template, **retention):
    definitions.edit_template(template, retention=retention)


def answer(order, by, action="approve", feedback=""):
    services.decide(pause_of(order).pk, Answer(action, Via.PAGE, feedback=feedback), by=by)
    return drive(order)


def test_every_promise_holds_at_each_stop_of_an_order_that_keeps_next_to_nothing(
    make_order, ana, settings
):
    """F25, C4: dropped after each step, with old events going too."""
    keep("writing", count=1, days=0.5)
    order = drive(make_order())
    for action in ("revise", "approve", "revise", "approve", "approve"):
        prune(days=1)
        assert broken() == {}
        order = answer(order, ana, action, "x")
        assert broken() == {}
    prune(days=1)
    assert broken() == {}
    assert order.status == "completed" and state_of(order)["finished"]
    thread = Thread.objects.get()
    assert thread.first_seq == thread.last_seq, "all of the log but its last event is old"
    for pause in Pause.objects.select_related("checkpoint"):
        assert store.load(pause.checkpoint), "what a question was asked in stays"
    assert (
        Checkpoint.objects.filter(parent__in=Pause.objects.values("checkpoint")).count()
        == Pause.objects.count()
    ), "and each answer"


@BOTH
def test_a_live_run_loses_old_checkpoints_but_none_of_its_log(order_that):
    order = order_that(looping(30))
    keep("anything", count=3, days=0.5)
    for _ in range(12):
        advance(order.latest_run_id, budget=0)
    events = Event.objects.count()
    prune(days=1)
    assert Event.objects.count() == events
    assert Checkpoint.objects.count() == 2, "the first and the head"
    assert broken() == {}
    order = drive(order)
    assert order.status == "completed" and state_of(order)["n"] == 30
    assert broken() == {}


def test_a_failed_run_can_still_be_retried_and_a_fork_still_has_its_origin(order_that, ana):
    order = drive(order_that(looping(8)))
    origin = Checkpoint.objects.filter(node_id="execute", loop_num=4).get()
    runs.fork(origin.pk, by=ana, reason="again")
    drive(order)
    keep("anything", count=1)
    prune()
    assert Checkpoint.objects.filter(pk=origin.pk).exists()
    assert broken() == {}
    runs.fork(origin.pk, by=ana, reason="once more")
    assert drive(order).status == "completed"
    prune()
    assert broken() == {}


def test_an_order_of_one_template_is_kept_by_its_own_policy(make_order):
    """S2-8, C4: completed runs do not pile up; per template, and by its newest version, also of
    orders that were made before the edit.
    """
    short, long = drive(make_order("writing-quick")), drive(make_order("writing-fail"))
    keep("writing-quick", count=1)
    prune()
    count = {
        order.pk: Checkpoint.objects.filter(thread=order.thread).count() for order in (short, long)
    }
    assert count == {short.pk: 2, long.pk: 3}


def test_the_settings_hold_where_a_template_says_nothing(make_order, settings):
    settings.WAYSTATION_KEEP_COUNT = 2
    order = drive(make_order("writing-quick"))
    keep("writing-quick", days=1)
    prune()
    assert Checkpoint.objects.filter(thread=order.thread).count() == 3
    settings.WAYSTATION_KEEP_COUNT = settings.WAYSTATION_KEEP_DAYS = (
        settings.WAYSTATION_KEEP_CHUNK_HOURS
    ) = 0
    assert runs_keeping.usual() == keeping.RetentionPolicy()


def test_patches_that_were_shown_stay(make_order, ana):
    order = answer(drive(make_order()), ana)
    digest = pause_of(order).patch_digest
    keep("writing", count=1)
    unused = store.put_blob(b"unused")
    prune()
    assert store.get_blob(digest)
    assert not Blob.objects.filter(pk=unused).exists()


@BOTH
def test_a_fork_of_what_was_just_dropped_says_so(order_that, ana, monkeypatch):
    """The row went between the look and the write: FK violations become a sentence."""
    from django.db import IntegrityError

    order = drive(order_that(looping(3)))
    gone = Checkpoint.objects.filter(node_id="execute", loop_num=2).get()

    def too_late(*args, **kwargs):
        raise IntegrityError

    monkeypatch.setattr(forks, "begin_fork", too_late)
    keep("anything", count=1)
    prune()
    with pytest.raises(NothingToFork, match="was dropped just now"):
        runs.fork(gone.pk, by=ana, reason="x")
    assert order


# while a run is at work, on a database that several use at once


@BOTH
def test_a_run_at_work_and_dropping_do_not_disturb_each_other(order_that, file_database):
    """Both databases: the run gets to its end with the state of one that nobody disturbed, and
    nothing that is kept is damaged.
    """
    order = order_that(looping(60))
    keep("anything", count=1)
    done = threading.Event()

    def work():
        try:
            while advance(order.latest_run_id, budget=0.02):
                pass
        finally:
            done.set()

    def drop():
        rounds = 0
        while not done.is_set() or not rounds:
            prune()
            rounds += 1
        return rounds

    results = at_once(work, drop)
    assert results[0] is None and isinstance(results[1], int), results
    order = fresh(order)
    assert order.status == "completed" and state_of(order)["n"] == 60
    for checkpoint in Checkpoint.objects.all():
        store.load(checkpoint)
    assert broken() == {}


@BOTH
def test_two_at_once_drop_once(order_that, file_database):
    drive(order_that(looping(30)))
    keep("anything", count=1)
    Chore.objects.update(busy_until=timezone.now() - LONG_AGO)
    now = timezone.now()
    rules, every = runs_keeping.rules(), dt.timedelta(days=1)
    claim("warm", now=now)
    tallies = at_once(*[lambda: housekeeping.tend(rules, seconds=60, every=every, now=now)] * 3)
    assert sorted(tally.rows["checkpoints"] for tally in tallies) == [0, 0, 31]
    assert broken() == {}


# the sweep and the command


@BOTH
def test_the_sweep_does_it_when_it_is_due_and_costs_one_query_when_it_is_not(
    order_that, settings, monkeypatch
):
    monkeypatch.setattr(runs_keeping, "SWEEP_SHARE", 60)  # one sweep does the whole round
    drive(order_that(looping(20)))
    keep("anything", count=1)
    tasks.sweep()
    assert Checkpoint.objects.count() == 2
    with CaptureQueriesContext(
        connection,
    ) as asked:
        runs_keeping.tend(now=timezone.now())
    assert len(asked) == 1
    settings.WAYSTATION_KEEP_HOURS = 0
    with CaptureQueriesContext(connection) as asked:
        runs_keeping.tend(now=timezone.now())
    assert len(asked) == 0


@BOTH
def test_queries_do_not_grow_with_what_is_kept(order_that):
    """A thread that has nothing to drop costs the same, however long."""
    counts = []
    for times in (3, 40):
        drive(order_that(looping(times)))
        Chore.objects.update(due_at=timezone.now() - LONG_AGO, busy_until=timezone.now() - LONG_AGO)
        prune()
        Chore.objects.update(due_at=timezone.now() - LONG_AGO, busy_until=timezone.now() - LONG_AGO)
        with CaptureQueriesContext(connection) as asked:
            runs_keeping.prune(now=timezone.now())
        counts.append(len(asked) / Thread.objects.count())
    assert counts[1] <= counts[0]


def command(*words):
    out = StringIO()
    call_command("prune", *words, stdout=out)
    return out.getvalue()


def test_the_command_prints_rows_and_bytes_and_a_dry_run_drops_nothing(order_that):
    drive(order_that(looping(20)))
    keep("anything", count=1)
    before = Checkpoint.objects.count()
    said = json.loads(command("--dry-run", "--json"))
    assert Checkpoint.objects.count() == before
    assert said["dry_run"] and said["dropped"]["checkpoints"]["rows"] == before - 2
    assert "Nothing was dropped: this was a dry run." in command("--dry-run")
    done = json.loads(command("--json"))
    assert done["dropped"]["checkpoints"] == said["dropped"]["checkpoints"] and done["rebased"] == 1
    assert Checkpoint.objects.count() == 2
    assert "checkpoints" in command()


def test_the_command_gives_way_to_another(db):
    assert claim(housekeeping.NAME, now=timezone.now())
    for words in ([], ["--dry-run"]):
        with pytest.raises(CommandError, match="at this moment"):
            command(*words)
    assert not Run.objects.exists()


# what a client that comes back is told


def test_a_client_that_comes_back_too_late_is_told_over_rest(make_order, ana, api):
    """P9: an honest line under the last number that is gone, then the rest."""
    order = drive(make_order("writing-quick"))
    keep("writing-quick", days=0.5)
    prune(days=1)
    told = api(ana).get(f"/api/v1/threads/{order.thread.shown_id}/events?after=2").json()["results"]
    last = Thread.objects.get().last_seq
    assert [one["seq"] for one in told] == [last - 1, last]
    assert told[0]["data"]["dropped_to"] == last - 1


def test_the_page_says_what_is_kept_how_often_and_that_the_log_begins_later(make_order, ana, page):
    order = drive(make_order("writing-quick"))
    address = f"/work-orders/{order.shown_id}/"
    text = page.get(address).content.decode()
    assert "After every step" in text and "no finished step runs again" in text
    assert "The beginning of this log was dropped" not in text
    keep("writing-quick", days=0.5)
    prune(days=1)
    assert "The beginning of this log was dropped" in page.get(address).content.decode()


# threads that rest


def tend():
    """A round, as the sweep does it; gives the threads that were looked at."""
    Chore.objects.update(busy_until=timezone.now() - LONG_AGO, due_at=timezone.now() - LONG_AGO)
    with patch.object(housekeeping, "_visit", wraps=housekeeping._visit) as visit:
        housekeeping.tend(runs_keeping.rules(), seconds=60, every=LONG_AGO, now=timezone.now())
    return {call.args[1] for call in visit.call_args_list}


def test_an_order_that_is_done_rests_and_one_that_waits_is_looked_at(make_order, ana, settings):
    """Issue 20: the round goes to threads of which something may go."""
    settings.WAYSTATION_KEEP_DAYS = 5
    done, waits = drive(make_order("writing-quick")), drive(make_order())
    assert tend() == {done.thread_id, waits.thread_id}
    assert tend() == {waits.thread_id}
    while waits.status == "paused":
        waits = answer(waits, ana)
    assert tend() == {waits.thread_id}
    assert tend() == set()
    keep("writing-quick", days=3)
    assert tend() == {done.thread_id, waits.thread_id}, "a policy is another now"
    settings.WAYSTATION_KEEP_COUNT = 7
    assert tend() == {done.thread_id, waits.thread_id}
    assert tend() == set() and broken() == {}


def test_a_child_runs_thread_rests_only_when_all_above_it_are_done(crew, settings, ana):
    settings.WAYSTATION_KEEP_DAYS = 5
    order = crew([sub("a"), sub("b", **ASKING)], parallel=True)
    work_off()
    child = Run.objects.get(child_name="a")
    assert child.status == "completed"
    tend()
    assert child.thread_id in tend()
    runs.cancel(order.pk, by=ana)
    tend()
    assert tend() == set()


def test_a_thread_that_no_run_wrote_to_is_looked_at_each_time(ana):
    """A program of somebody's own may write to it, without a log."""
    thread = Thread.objects.create(owner=ana)
    tend()
    assert tend() == {thread.pk}
