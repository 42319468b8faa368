"""What a run may write: a warning at four fifths, a clear stop at the limit (F26)."""

from __future__ import annotations

import pytest
from django.utils import timezone

from checkpoints.models import Checkpoint
from hitl.operations import invariants
from runs import definitions
from runs import services as runs
from runs.workflows.base import Commit, Go
from tests.conftest import drive, fresh, log_lines
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db


def writing(times, size=1000):
    """Each round writes about so many bytes."""
    return lambda state, context: Go(
        update={"text": str(context.loop_num) * size},
        to="execute" if context.loop_num < times else None,
    )


def with_budget(order_that, function, budget, **template):
    order = order_that(function)
    runs.cancel(order.pk, by=order.created_by)
    definitions.edit_template("anything", size_budget=budget, **template)
    return fresh(runs.submit("anything", by=order.created_by, team=order.thread.team))


def warnings(order):
    return [words for words in log_lines(order) if "bytes of checkpoints that it may" in words]


def test_a_run_within_its_budget_hears_nothing(order_that):
    order = drive(with_budget(order_that, writing(3), 100_000))
    assert order.status == "completed" and warnings(order) == []


def test_a_step_that_gets_no_checkpoint_does_not_warn_anew(order_that):
    """Before, each of them told the warning of the last one that had got one."""

    def rounds(state, context):
        update = {"text": str(context.loop_num) * 5000} if context.loop_num < 3 else {}
        return Go(update=update, to={1: "execute", 2: "planning"}.get(context.loop_num))

    order = drive(with_budget(order_that, rounds, 12_000, frequency="loops"))
    assert order.status == "completed"
    assert len(warnings(order)) == 1


def test_a_run_is_warned_once_and_then_stopped_with_its_state_kept(order_that):
    order = drive(with_budget(order_that, writing(50), 20_000))
    run = order.latest_run
    assert (run.status, run.failure_code) == ("failed", "size_budget")
    assert "its budget is 20,000" in run.error and "The state before this step is kept" in run.error
    assert len(warnings(order)) == 1
    done = Checkpoint.objects.get(children=order.thread.head)
    assert 16_000 < done.metadata["bytes"] <= 20_000
    written: list[int] = [
        checkpoint.size for checkpoint in Checkpoint.objects.filter(run_id=run.pk)
    ]
    assert sum(written) < 21_000
    assert state_of(order)["text"] == str(done.loop_num) * 1000
    assert not [
        result for result in invariants.check(now=timezone.now(), deep=True) if result.count
    ]


def test_a_retry_counts_anew(order_that, ana):
    order = drive(with_budget(order_that, writing(50), 20_000))
    before = state_of(order)["text"]
    runs.retry(order.pk, by=ana)
    order = drive(order)
    assert order.latest_run.failure_code == "size_budget"
    assert state_of(order)["text"] != before, "it came further"


def test_chunks_and_bundles_count(order_that):
    commit = Commit(sha="a" * 40, base="b" * 40, bundle=b"x" * 30_000)
    order = drive(with_budget(order_that, lambda state, context: Go(commit=commit), 20_000))
    assert order.latest_run.failure_code == "size_budget"


def test_the_setting_holds_where_the_template_says_nothing(order_that, settings):
    settings.WAYSTATION_RUN_BYTES = 20_000
    assert drive(order_that(writing(50))).latest_run.failure_code == "size_budget"
    settings.WAYSTATION_RUN_BYTES = 0
    assert drive(order_that(writing(50))).status == "completed"
