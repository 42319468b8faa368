"""A checkpoint whose stored bytes were changed: an incident that names what happened, and a retry
from the last good ancestor (C24).
"""

from __future__ import annotations

import pytest
from django.utils import timezone

from checkpoints import store
from checkpoints.models import Checkpoint, CheckpointStatus, Memo
from checkpoints.store import rows as rows_of_checkpoints
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.operations import invariants
from runs import services as runs
from runs.engine.advance import advance
from runs.models import Run
from runs.threads import turns
from runs.workflows.base import Go, StepFailed
from tests.checkpoints.store.damaged_rows import damage
from tests.conftest import drive, fresh, kinds, log_lines, pause_of
from tests.databases.whole import rows
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db

WRONG = '{"set":{"n":99},"unset":[]}'


def broken():
    return [
        result.invariant.code
        for result in invariants.check(now=timezone.now(), deep=True)
        if result.count
    ]


def head_of(order):
    head = fresh(order).thread.head
    assert head is not None
    return head


def stepwise(order, count):
    """Take so many steps, each in a time slice of its own."""
    for _ in range(count):
        advance(order.latest_run_id, budget=0)
    return head_of(order)


def looping(times):
    return lambda state, context: Go(
        update={"n": state.get("n", 0) + 1}, to="execute" if context.loop_num < times else None
    )


def test_the_run_stops_as_an_incident_that_names_both_checkpoints_and_what_would_be_repeated(
    order_that,
):
    """Never a silent fresh start, and never a silent step back either."""
    order = order_that(looping(4))
    good = stepwise(order, 2)
    bad = stepwise(order, 1)
    damage(bad, WRONG)
    order = drive(order)
    run = order.latest_run
    assert (run.status, run.failure_code) == ("failed", "incident")
    assert bad.shown_id in run.error and good.shown_id in run.error
    assert "execute would run again" in run.error
    assert run.error in log_lines(order)
    assert kinds(order)[-2:] == ["run_failed", "checkpoint_created"]
    assert broken() == []


def test_a_retry_goes_on_from_there_and_the_damaged_row_stays(order_that, ana):
    order = order_that(looping(4))
    good = stepwise(order, 2)
    bad = stepwise(order, 1)
    damage(bad, WRONG)
    drive(order)
    incident = head_of(order)
    assert (incident.parent_id, incident.is_snapshot, incident.status) == (
        bad.pk,
        True,
        CheckpointStatus.FAILED,
    )
    assert store.load(incident) == store.load(Checkpoint.objects.get(pk=good.pk))
    runs.retry(order.pk, by=ana)
    order = drive(order)
    assert order.status == "completed"
    assert state_of(order)["n"] == 4, "as if nothing had happened: the lost round ran again"
    with pytest.raises(store.CheckpointDamaged):
        store.load(Checkpoint.objects.get(pk=bad.pk))
    assert broken() == []


def test_the_step_that_runs_again_has_the_key_that_it_had(order_that, ana):
    """P4: so what it recorded with once is not done again."""
    charged: list[str] = []

    def charge(key):
        charged.append(key)
        return 1

    def charges(state, context):
        if context.loop_num == 2:
            context.once("charge", lambda: charge(context.key))
        return Go(update={"n": context.loop_num}, to="execute" if context.loop_num < 3 else None)

    order = order_that(charges)
    stepwise(order, 2)
    damage(stepwise(order, 1), WRONG)
    drive(order)
    runs.retry(order.pk, by=ana)
    assert drive(order).status == "completed"
    assert len(charged) == 1 and Memo.objects.count() == 1


def test_a_damaged_snapshot_spoils_all_that_builds_on_it_and_the_one_before_it_is_found(
    order_that, monkeypatch, ana
):
    order = order_that(looping(9))
    good = stepwise(order, 3)
    monkeypatch.setattr(rows_of_checkpoints, "SNAPSHOT_EVERY", 0)
    snapshot = stepwise(order, 1)
    monkeypatch.setattr(rows_of_checkpoints, "SNAPSHOT_EVERY", 20)
    stepwise(order, 3)
    assert snapshot.is_snapshot
    damage(snapshot, '{"state":{}}')
    order = drive(order)
    assert good.shown_id in order.latest_run.error
    runs.retry(order.pk, by=ana)
    assert state_of(drive(order))["n"] == 9
    assert broken() == []


def test_a_damaged_answer_asks_again(paused, ana):
    services.decide(pause_of(paused).pk, Answer("approve", Via.PAGE), by=ana)
    damage(head_of(paused), '{"set":{},"unset":["drafts"]}')
    order = drive(paused)
    assert order.latest_run.failure_code == "incident"
    assert "its question is asked again" in order.latest_run.error
    runs.retry(order.pk, by=ana)
    order = drive(order)
    assert pause_of(order).phase == "awaiting_plan_approval"
    assert broken() == []


def test_damage_in_a_retry_falls_back_into_the_run_that_it_retries(make_order, ana):
    order = drive(make_order("writing-fail"))
    runs.retry(order.pk, by=ana)
    damage(head_of(order), '{"state":{}}')
    Checkpoint.objects.filter(pk=head_of(order).pk).update(is_snapshot=True, depth=0)
    order = drive(order)
    assert order.latest_run.failure_code == "incident"
    runs.retry(order.pk, by=ana)
    assert fresh(order).latest_run.failure_code == ""


def test_damage_found_by_a_retry_is_an_incident_first_and_the_next_retry_goes_on_from_the_last_good_one(
    order_that, ana
):
    """C24: also where the head was damaged after its run had failed."""

    def fails_at_first(state, context):
        if context.loop_num == 3 and not Run.objects.filter(failure_code="incident").exists():
            raise StepFailed("not yet")
        return looping(4)(state, context)

    order = drive(order_that(fails_at_first))
    bad = head_of(order)
    assert (order.status, bad.status) == ("failed", "failed")
    damage(bad, WRONG)
    with pytest.raises(store.CheckpointDamaged, match="retry once more"):
        runs.retry(order.pk, by=ana)
    run = fresh(order).latest_run
    assert (run.pk, run.failure_code) == (order.latest_run_id, "incident")
    assert bad.shown_id in run.error
    assert kinds(order)[-2:] == ["log", "checkpoint_created"]
    assert broken() == []
    runs.retry(order.pk, by=ana)
    order = drive(order)
    assert (order.status, state_of(order)["n"]) == ("completed", 4)
    assert Checkpoint.objects.filter(pk=bad.pk).exists()


def test_where_no_ancestor_is_good_nothing_is_made_up(make_order, ana):
    """C24: the head stays what it is, and a retry says why it cannot be."""
    order = make_order("writing-quick")
    damage(head_of(order), '{"state":{}}')
    order = drive(order)
    assert (order.status, order.latest_run.failure_code) == ("failed", "checkpoint_damaged")
    before = rows()
    with pytest.raises(store.CheckpointDamaged):
        runs.retry(order.pk, by=ana)
    assert rows() == before


def test_new_input_is_never_lost_by_falling_back_behind_it(templates, ana):
    """The next turn's first checkpoint holds the input: what came before it is not where that turn
    stood.
    """
    thread = turns.open_thread(by=ana)
    first = turns.invoke(thread.pk, turns.Turn(template="writing-quick", input={"turn": 1}), by=ana)
    while advance(first.pk, budget=60):
        pass
    second = turns.invoke(thread.pk, turns.Turn(input={"turn": 2}), by=ana)
    thread.refresh_from_db()
    damage(thread.head, '{"set":{},"unset":["turn"]}')
    advance(second.pk, budget=60)
    assert Run.objects.get(pk=second.pk).failure_code == "checkpoint_damaged"
