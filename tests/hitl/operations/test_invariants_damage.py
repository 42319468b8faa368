"""Each kind of damage to the database has its name among the invariants."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import Checkpoint, Event, Thread
from hitl.models import Decision, Ledger
from hitl.operations.invariants import INVARIANTS
from runs import services as runs
from runs.engine.advance import advance
from runs.models import Pause, Run, Schedule, WorkOrder
from tests.conftest import drive, fresh, pause_of
from tests.databases.undone import undone
from tests.runs.engine.children.crews import crew as crew
from tests.runs.engine.children.crews import kids
from tests.runs.engine.children.crews import many as many
from tests.runs.schedules.scheduled import scheduled as scheduled
from tests.runs.schedules.scheduled import sweep_at
from tests.worlds.deadlines import asked as asked
from tests.worlds.histories.whole_story import answer, broken
from tests.worlds.histories.whole_story import finished as finished
from tests.worlds.scripted_step import order_that as order_that

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


UNIQUE = {"decision_one_per_pause", "run_one_live_per_thread"}
"""Constraints that are indexes."""


def head_of(order):
    return Checkpoint.objects.get(pk=fresh(order).thread.head.pk)


def parent_of(order):
    return Checkpoint.objects.get(children=head_of(order))


def copy(row, **changes):
    """Insert a row once more, with changes."""
    for name, value in {"pk": ids.new(), **changes}.items():
        setattr(row, name, value)
    row._state.adding = True
    row.save(force_insert=True)
    return row


def forbidden(constraint, act):
    with (
        pytest.raises(IntegrityError, match=f"{constraint}|UNIQUE constraint failed"),
        transaction.atomic(),
    ):
        act()


@pytest.fixture
def lost(db):
    """`lost(table, name)`: a constraint, or a unique index, that somebody took out of the
    database.
    """
    sqlite = connection.vendor == "sqlite"

    def take(table, name):
        connection.check_constraints()  # PostgreSQL changes no table whose rows it has yet to check
        with connection.cursor() as cursor:
            if name in UNIQUE:
                cursor.execute(f"DROP INDEX {name}")
            elif sqlite:
                cursor.execute("PRAGMA ignore_check_constraints = ON")
            else:
                cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")

    yield take
    if sqlite:
        connection.cursor().execute("PRAGMA ignore_check_constraints = OFF")


def test_two_decisions_on_a_pause_are_forbidden(finished, lost):
    decision = Decision.objects.first()
    pause, again = decision.pause.shown_id, {"position": 99}
    forbidden("decision_one_per_pause", lambda: copy(decision, **again))
    lost("hitl_decision", "decision_one_per_pause")
    copy(decision, **again)
    assert broken()["decided_twice"] == [pause]


def test_a_decided_pause_that_is_open(paused, ana):
    decision = answer(paused, ana)
    Pause.objects.update(status="open", closed_at=None)
    shown = decision.pause.shown_id
    found = broken()
    assert found["decided_but_open"] == [shown]
    assert found["question_of_working_run"] == [shown]


@pytest.mark.usefixtures("unguarded")
def test_an_answered_pause_without_its_decision(paused, ana):
    answer(paused, ana)
    Decision.objects.all().delete()
    shown = Pause.objects.get().shown_id
    found = broken()
    assert found["answered_by_nobody"] == [shown]
    assert (
        found["ledger_with_gaps"]
        == found["ledger_tip_is_another"]
        == [f"team:{paused.thread.team_id}"]
    )
    assert found["went_on_unasked"] == [head_of(paused).shown_id]


def test_a_decided_run_that_still_waits(paused, ana):
    decision = answer(paused, ana)
    Run.objects.update(status="paused")
    found = broken()
    assert found["decided_but_not_moved"] == [decision.shown_id]
    assert found["paused_without_question"] == [paused.latest_run.shown_id]
    assert found["end_without_result"] == [paused.shown_id]


def test_a_cancelled_question_whose_run_goes_on(paused, ana):
    decision = answer(paused, ana, "cancel")
    Run.objects.update(status="pending", error="", ended_at=None)
    assert broken() == {"decided_but_not_moved": [decision.shown_id]}


def test_a_decision_without_its_checkpoint(paused, ana):
    decision = answer(paused, ana)
    head = head_of(paused)
    Thread.objects.update(head=head.parent_id)
    head.delete()
    assert broken() == {"decided_without_checkpoint": [decision.shown_id]}


def test_a_run_that_nobody_picks_up(make_order):
    order = make_order()
    Run.objects.update(due_at=timezone.now() - dt.timedelta(seconds=90))
    assert broken() == {"not_picked_up": [order.latest_run.shown_id]}
    assert broken(late=dt.timedelta(seconds=120)) == {}


def test_a_run_of_a_lost_worker(make_order):
    order = make_order()
    Run.objects.update(
        status="running",
        lease_owner="gone:1",
        lease_until=timezone.now() - dt.timedelta(seconds=90),
    )
    assert broken() == {"not_taken_back": [order.latest_run.shown_id]}
    assert broken(late=dt.timedelta(seconds=120)) == {}


def test_a_schedule_that_nobody_looks_at(scheduled):
    schedule = scheduled()
    due = timezone.now() - dt.timedelta(seconds=90)
    Schedule.objects.update(cursor=due, next_at=due)
    assert broken() == {"schedule_not_looked_at": [schedule.shown_id]}
    assert broken(late=dt.timedelta(seconds=120)) == {}
    # one round mends it, and what is switched off is not to be looked at
    assert sweep_at(timezone.now()) == 1
    assert broken() == {}
    Schedule.objects.update(enabled=False, next_at=due)
    assert broken() == {}


def test_an_order_whose_latest_run_is_another(make_order, ana):
    order, other = make_order("writing-fail"), make_order()
    drive(order)
    older = order.latest_run_id
    runs.retry(order.pk, by=ana)
    for run in (older, None, other.latest_run_id):
        WorkOrder.objects.filter(pk=order.pk).update(latest_run=run)
        assert broken() == {
            "latest_run_is_another": [order.shown_id],
            "head_of_another_run": [order.shown_id],
        }, run


def test_a_step_that_was_done_twice(finished):
    first = Checkpoint.objects.filter(node_id="planning", status="pending_input").earliest("id")
    copy(first)
    run = finished.latest_run.shown_id
    found = broken()
    assert found["step_done_twice"] == found["history_forks"] == [run]
    assert found["step_untold"] == [finished.thread.shown_id]


def test_a_history_that_forks(paused):
    parent = parent_of(paused)
    copy(head_of(paused), status="active", node_id="odd", parent=parent)
    assert broken() == {"history_forks": [paused.latest_run.shown_id]}


def test_two_live_runs_on_a_thread_are_forbidden(paused, lost):
    forbidden("run_one_live_per_thread", lambda: copy(fresh(paused).latest_run))
    lost("runs_run", "run_one_live_per_thread")
    copy(fresh(paused).latest_run)
    assert broken()["two_live_runs"] == [paused.thread.shown_id]


def test_a_lease_of_a_run_that_is_not_at_work_is_forbidden(paused, lost):
    def take() -> None:
        Run.objects.update(lease_owner="somebody")

    with pytest.raises(IntegrityError), transaction.atomic():
        take()
    lost("runs_run", "run_lease_only_while_running")
    take()
    assert broken() == {"lease_without_work": [paused.latest_run.shown_id]}


def test_a_question_that_expired_before_its_time_is_forbidden(asked, lost):
    order = asked(deadline={"after": "PT4H", "outcome": "cancel"})
    pause = pause_of(order)

    def expire() -> None:
        Pause.objects.update(status="expired", closed_at=timezone.now())

    with pytest.raises(IntegrityError), transaction.atomic():
        expire()
    lost("runs_pause", "pause_expired_not_early")
    expire()
    assert broken()["expired_early"] == [pause.shown_id]


def test_child_runs_that_nobody_counts_starts_or_ends(many):
    order = many(3, at_once=1)
    advance(order.latest_run_id, budget=60)
    parents, shown = Run.objects.filter(pk=order.latest_run_id), order.latest_run.shown_id
    waiting = parents.values("status", "awaited", "error", "ended_at").get()
    [child] = kids(order).values()
    first = Run.objects.filter(pk=child.pk)
    assert broken() == {}
    parents.update(awaited=4)
    assert broken() == {"children_miscounted": [shown]}
    first.update(status="completed", ended_at=timezone.now())
    parents.update(awaited=2)
    assert broken()["children_forgotten"] == [shown]
    first.update(status="pending", ended_at=None)
    parents.update(status="failed", awaited=0, error="x", ended_at=timezone.now())
    assert broken()["child_outlives_parent"] == [child.shown_id]
    parents.update(**waiting)
    assert broken() == {}


def test_no_invariant_is_without_a_damage_that_it_names():
    """Seven had none."""
    tests = "".join(file.read_text() for file in Path(__file__).parents[2].rglob("*.py"))
    assert [one.code for one in INVARIANTS if f'"{one.code}"' not in tests] == []


def test_a_completed_order_whose_head_does_not_say_so(finished):
    for status in ("active", "failed"):
        Checkpoint.objects.filter(pk=head_of(finished).pk).update(status=status)
        assert broken()["end_without_result"] == [finished.shown_id], status


def test_a_paused_run_without_a_question(paused):
    Pause.objects.update(status="cancelled", closed_at=timezone.now())
    assert broken() == {"paused_without_question": [paused.latest_run.shown_id]}


def test_two_open_questions_of_a_run_are_forbidden(paused):
    forbidden("pause_one_open_per_run", lambda: copy(pause_of(paused)))


def test_a_question_of_a_run_that_is_at_work(paused):
    Run.objects.update(status="pending")
    assert broken() == {"question_of_working_run": [pause_of(paused).shown_id]}


def test_a_question_of_a_run_that_has_ended(paused):
    """F23."""
    Run.objects.update(status="failed", ended_at=timezone.now())
    assert broken() == {"question_of_ended_run": [pause_of(paused).shown_id]}


def test_a_head_that_was_put_back(paused):
    Thread.objects.update(head=parent_of(paused))
    assert broken() == {
        "question_is_not_the_head": [pause_of(paused).shown_id],
        "head_is_old": [paused.thread.shown_id],
        "end_without_result": [paused.shown_id],
    }


def test_a_head_of_another_thread(paused, make_order):
    """On PostgreSQL a foreign key forbids it."""
    other = make_order()

    def take() -> None:
        Thread.objects.filter(pk=other.thread_id).update(head=head_of(paused))
        connection.check_constraints()

    if connection.vendor == "postgresql":
        return forbidden("thread_head_is_its_own", take)
    take()
    assert broken() == {
        "head_of_another_thread": [other.thread.shown_id],
        "head_of_another_run": [other.shown_id],
    }


def test_a_thread_that_lost_its_head(paused):
    Thread.objects.update(head=None)
    found = broken()
    assert found["head_of_another_run"] == [paused.shown_id]
    assert found["question_is_not_the_head"] == [pause_of(paused).shown_id]


def test_work_that_went_on_after_a_cancelled_question(paused, ana):
    answer(paused, ana, "cancel")
    head = head_of(paused)
    again = copy(head_of(paused), status="active", parent=head)
    Thread.objects.update(head=again)
    assert broken() == {"went_on_cancelled": [again.shown_id]}


@pytest.mark.usefixtures("unguarded")
def test_a_cancellation_that_was_taken_for_an_approval(paused, ana):
    answer(paused, ana)
    Decision.objects.update(action="cancel")
    found = broken()
    assert found["went_on_unasked"] == [head_of(paused).shown_id]
    assert (
        found["ledger_rewritten"]
        == found["decided_but_not_moved"]
        == [Decision.objects.get().shown_id]
    )


def add_event(order, kind):
    Thread.objects.filter(pk=order.thread_id).update(last_seq=F("last_seq") + 1)
    seq = Thread.objects.get(pk=order.thread_id).last_seq
    return Event.objects.create(
        thread_id=order.thread_id,
        run_id=order.latest_run_id,
        seq=seq,
        kind=kind,
        data={"step": "execute"},
    )


def test_a_step_that_works_while_its_run_is_paused(paused):
    add_event(paused, "log")
    assert broken() == {}
    add_event(paused, "step_started")
    assert broken() == {"worked_while_paused": [paused.latest_run.shown_id]}


@pytest.mark.parametrize("action", ["approve", "cancel"])
def test_a_step_that_works_after_its_runs_end(paused, ana, action):
    for _ in range(3):
        if fresh(paused).status == "paused":
            answer(paused, ana, action)
            drive(paused)
    assert broken() == {}
    add_event(paused, "step_started")
    assert broken() == {"worked_after_end": [paused.latest_run.shown_id]}


def test_a_question_that_was_changed_after_its_answer(paused, ana):
    decision = answer(paused, ana)
    for change in ({"content_digest": "0" * 64}, {"revision": 7}):
        with undone():
            Pause.objects.update(**change)
            assert broken() == {
                "decided_on_other_content": [decision.shown_id],
                "approved_by_nobody": [head_of(paused).shown_id],
            }, change


def test_a_lease_of_a_paused_run_is_forbidden(paused):
    act = Run.objects.filter(pk=paused.latest_run_id).update
    with pytest.raises(IntegrityError, match="run_lease_only_while_running"), transaction.atomic():
        act(lease_owner="me:1")


def test_a_log_with_a_gap(paused, make_order):
    drive(make_order())
    log = Event.objects.filter(thread=paused.thread_id)
    for gone in (log.filter(seq=1), log.filter(seq=3), log.filter(seq=paused.thread.last_seq), log):
        with undone():
            gone.delete()
            assert broken()["log_with_gaps"] == [paused.thread.shown_id]
    Thread.objects.filter(pk=paused.thread_id).update(last_seq=F("last_seq") + 1)
    assert broken()["log_with_gaps"] == [paused.thread.shown_id]


def test_an_event_that_was_renumbered(paused):
    Event.objects.filter(seq=1).update(seq=paused.thread.last_seq + 1)
    assert broken()["log_with_gaps"] == [paused.thread.shown_id]


def test_a_step_that_nobody_was_told_of(paused):
    Event.objects.filter(kind="step_completed").update(kind="log")
    assert broken() == {"step_untold": [paused.thread.shown_id]}


@pytest.mark.usefixtures("unguarded")
def test_a_decision_that_was_rewritten(finished, zoe):
    """P11."""
    decision = Decision.objects.order_by("position")[1]
    values = {
        "feedback": "No",
        "action": "skip",
        "via": "rest",
        "decided_by": zoe,
        "decided_at": timezone.now(),
    }
    for field, value in values.items():
        with undone():
            Decision.objects.filter(pk=decision.pk).update(**{field: value})
            found = broken()
            assert found.pop("ledger_rewritten") == [decision.shown_id], field
            # what was done for it no longer has it
            assert set(found) <= ({"approved_by_nobody"} if field == "action" else set()), field


@pytest.mark.usefixtures("unguarded")
def test_a_rewritten_decision_with_a_digest_of_its_own_no_longer_fits_the_chain(finished):
    """P11."""
    decision, after = Decision.objects.order_by("position")[1:3]
    decision.feedback = "No"
    Decision.objects.filter(pk=decision.pk).update(feedback="No", digest=decision.compute_digest())
    assert broken() == {"ledger_unlinked": [after.shown_id]}


@pytest.mark.usefixtures("unguarded")
def test_the_newest_decision_rewritten_no_longer_fits_the_tip(finished):
    """P11."""
    decision = Decision.objects.latest("position")
    decision.feedback = "No"
    Decision.objects.filter(pk=decision.pk).update(feedback="No", digest=decision.compute_digest())
    assert broken() == {"ledger_tip_is_another": [decision.ledger_id]}


@pytest.mark.usefixtures("unguarded")
def test_a_decision_that_was_taken_out_of_the_chain(finished):
    """P11."""
    ledger = Ledger.objects.get()
    taken, after = Decision.objects.order_by("position")[1:3]
    taken.delete()
    found = broken()
    assert found["ledger_with_gaps"] == [ledger.name]
    assert found["ledger_unlinked"] == [after.shown_id]


@pytest.mark.usefixtures("unguarded")
def test_a_ledger_that_says_something_else_than_its_decisions(finished):
    ledger = Ledger.objects.get()
    for change in ({"length": 99}, {"tip": "0" * 64}):
        with undone():
            Ledger.objects.update(**change)
            assert list(broken().values()) == [[ledger.name]], change


@pytest.mark.usefixtures("unguarded")
def test_two_decisions_at_one_position_are_forbidden(finished):
    one, other = Decision.objects.order_by("position")[:2]
    forbidden(
        "decision_position_once",
        lambda: Decision.objects.filter(pk=other.pk).update(position=one.position),
    )
