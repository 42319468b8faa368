"""`manage.py invariants`: silent over every story the product can tell, and by name over each kind
of damage.
"""

from __future__ import annotations

import datetime as dt
import json

import pytest
from django.core.management import CommandError
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints.models import Checkpoint, Thread
from hitl.decisions import services
from hitl.models import Via
from hitl.operations import invariants
from runs import services as runs
from runs.models import Run
from runs.workflows.base import Go
from tests.conftest import drive, fresh
from tests.worlds import steps
from tests.worlds.histories.whole_story import answer, broken, command
from tests.worlds.histories.whole_story import finished as finished
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db
DEEP = {
    "ledger_rewritten",
    "vote_rewritten",
    "approved_by_nobody",
    "done_for_nobody",
    "called_for_nobody",
    "edited_at_a_stop",
    "left_without_its_question",
    "answered_from_outside_unasked",
    "counted_from_outside",
    "brought_unasked",
    "judged_unseen",
    "stepped_around_unrecorded",
    "ran_changed_code_unsaid",
}


# Every story leaves it whole


def test_an_empty_database_is_whole(db):
    assert broken() == {}


@pytest.mark.both_databases
def test_an_order_is_whole_at_each_of_its_stops(make_order, ana):
    order = make_order()
    assert broken() == {}
    drive(order)
    assert broken() == {}
    for action in ("revise", "approve", "skip_review"):
        answer(order, ana, action, "x")
        assert broken() == {}
        drive(order)
        assert broken() == {}
    assert fresh(order).status == "completed"


def test_orders_without_pauses_and_of_other_people_are_whole(make_order, zoe):
    drive(make_order("writing-quick"))
    drive(make_order(by=zoe, team=None))
    assert broken() == {}


@pytest.mark.parametrize("after", [0, 1])
def test_a_cancelled_order_is_whole(make_order, ana, after):
    order = make_order()
    if after:
        drive(order)
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    assert broken() == {}


def test_a_cancellation_while_a_step_works_leaves_it_whole(make_order, ana):
    order = make_order()
    steps.HOOKS["planning"] = lambda: services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    drive(order)
    assert fresh(order).latest_run.status == "cancelled"
    assert broken() == {}


@pytest.mark.parametrize("template", ["writing-fail", "writing-crash", "writing-unserialisable"])
def test_a_failed_and_retried_order_is_whole(make_order, ana, template):
    order = make_order(template)
    for _ in range(3):
        assert drive(order).status == "failed"
        assert broken() == {}
        runs.retry(order.pk, by=ana)
        assert broken() == {}


def test_a_taken_back_run_is_whole(make_order):
    from tests.runs.accidents.losses import lose_a_worker

    order = make_order()
    lose_a_worker(order)
    assert broken() == {}
    drive(order)
    assert broken() == {}


@pytest.mark.parametrize(
    "stops",
    [
        {"interrupt_before": ["planning"]},
        {"interrupt_before": ["execute", "review"]},
        {"interrupt_after": ["execute", "review", "finish"]},
    ],
    ids=["first", "before", "after"],
)
def test_an_order_with_interrupts_is_whole(make_order, ana, stops):
    order = drive(make_order("writing-quick", **stops))
    while (
        fresh(order).status == "paused"
        and fresh(order).thread.head.next_step == ""
        and fresh(order).thread.head.node_id != "finish"
    ):
        assert broken() == {}
        answer(order, ana)
        assert broken() == {}
        drive(order)
    assert broken() == {}


def test_a_step_that_goes_to_itself_is_whole_also_with_a_stop_before_each_loop(order_that, ana):
    order = order_that(
        lambda state, context: Go(to="execute" if context.loop_num < 3 else "finish")
    )
    Run.objects.update(interrupt_before=["execute"])
    drive(order)
    for _ in range(3):
        assert broken() == {}
        answer(order, ana)
        drive(order)
    assert fresh(order).status == "completed"
    assert broken() == {}


def test_a_suspended_order_is_whole(make_order, ana):
    order = make_order("writing-quick")
    steps.HOOKS["execute"] = lambda: runs.suspend(order.pk, by=ana)
    assert drive(order).status == "paused"
    assert broken() == {}
    steps.HOOKS.clear()
    answer(order, ana)
    drive(order)
    assert broken() == {}


@pytest.mark.parametrize("status", ["active", "pending_input", "cancelled"])
def test_a_fork_is_whole(paused, ana, status):
    answer(paused, ana)
    drive(paused)
    answer(paused, ana, "cancel")
    at = Checkpoint.objects.filter(status=status).order_by("id").first()
    services.fork(at.pk, by=ana, reason="another way")
    assert broken() == {}
    drive(paused)
    assert broken() == {}


# The command


@pytest.mark.both_databases
def test_a_whole_database_is_said_line_by_line(finished):
    code, text = command("--deep")
    lines = text.splitlines()
    assert code == 0
    assert len(lines) == len(invariants.INVARIANTS) + 1
    assert all(line.endswith(" ok") for line in lines[:-1])
    assert lines[-1] == f"All {len(invariants.INVARIANTS)} invariants hold."


def test_a_breach_is_named_with_its_rows_and_ends_with_one(paused):
    Thread.objects.update(last_seq=F("last_seq") + 1)
    code, text = command()
    assert code == 1
    [line] = [line for line in text.splitlines() if "BROKEN" in line]
    sentence = "(A thread's log holds each number from its first that is kept to its last, once.)"
    assert (
        " ".join(line.split()) == f"P9 log_with_gaps BROKEN 1: {paused.thread.shown_id} {sentence}"
    )
    assert text.splitlines()[-1].endswith("1 of them broken.")


def test_many_breaches_are_counted_and_twenty_are_shown(make_order):
    for _ in range(25):
        make_order()
    Thread.objects.update(last_seq=F("last_seq") + 1)
    code, text = command("--json")
    [found] = [row for row in json.loads(text)["invariants"] if not row["ok"]]
    assert (code, found["count"], len(found["ids"])) == (1, 25, 20)
    assert ": thr_" in command()[1] and ", … (" in command()[1]


def test_the_json_is_one_document(paused):
    code, text = command("--json")
    document = json.loads(text)
    assert (code, document["ok"], list(document)) == (0, True, ["ok", "checked_at", "invariants"])
    assert all(
        list(row) == ["code", "promise", "sentence", "ok", "count", "ids"]
        for row in document["invariants"]
    )
    deep = [row["code"] for row in json.loads(command("--json", "--deep")[1])["invariants"]]
    assert set(deep) - {row["code"] for row in document["invariants"]} == DEEP


def test_how_late_is_late_can_be_said(make_order):
    make_order()
    Run.objects.update(due_at=timezone.now() - dt.timedelta(seconds=90))
    assert command()[0] == 1
    assert command("--late", "300")[0] == 0
    with pytest.raises(CommandError, match="--late is a number"):
        command("--late", "-1")


@pytest.mark.both_databases
def test_it_reads_only_and_asks_as_often_for_many_orders_as_for_one(make_order, finished):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            assert broken() == {}
        assert not [
            query
            for query in captured.captured_queries
            if not query["sql"]
            .lstrip("( ")
            .upper()
            .startswith(("SELECT", "DECLARE", "FETCH", "CLOSE"))
        ]
        return len(captured)

    one = queries()
    for _ in range(5):
        drive(make_order())
    assert queries() == one <= len(invariants.INVARIANTS) + 9  # some read a second table


def test_every_invariant_has_a_name_of_its_own():
    codes = [invariant.code for invariant in invariants.INVARIANTS]
    assert len(set(codes)) == len(codes)
    assert all(invariant.broken.__name__ == invariant.code for invariant in invariants.INVARIANTS)
