"""Deadlines of several questions in one transaction: all of a batch, or each alone."""

from __future__ import annotations

from functools import partial

import psycopg
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints.database import locks
from checkpoints.models import Checkpoint, Event
from hitl.decisions import services
from hitl.decisions.deadlines import outcomes, reminding, together
from hitl.decisions.services import Answer
from hitl.ledger import chain
from hitl.models import Decision, Via
from runs.models import Pause
from runs.services import pauses
from runs.services import together as runs_together
from tests.conftest import fresh, kinds, pause_of
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.killed import moments as crash
from tests.worlds.deadlines import asked as asked
from tests.worlds.deadlines import at, updates
from tests.worlds.histories.whole_story import broken

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
FOUR = {"after": "PT4H"}
ENDS = ("expire", "cancel", "approve")


@pytest.fixture(autouse=True)
def one_batch(monkeypatch):
    """However slow the machine."""
    monkeypatch.setattr(together, "DRAFTING", 60.0)


@pytest.fixture
def due(asked):
    """Six questions, two for each end, and the moment at which all are due."""
    orders = [asked(deadline={**FOUR, "outcome": end}) for end in (*ENDS, *ENDS)]
    return orders, at(pause_of(orders[-1]), 4)


def statuses(orders):
    return [fresh(order).latest_run.status for order in orders]


def check_whole(orders):
    """Logs without a gap, ledgers in order, every invariant."""
    for order in orders:
        numbers = Event.objects.filter(thread=order.thread_id).order_by("seq")
        found = list(numbers.values_list("seq", flat=True))
        assert found == list(range(1, len(found) + 1))
        thread = fresh(order).thread
        assert thread.last_seq == found[-1]
        ended = Checkpoint.objects.filter(thread=thread).order_by("-created_at", "-pk").first()
        assert thread.head_id == ended.pk
    crash.check_ledgers()
    assert broken(deep=False) == {}


def test_a_batch_is_one_transaction_and_writes_what_each_alone_would(due, asked, monkeypatch):
    """P8, P9: events, decisions and ends are the same, kind by kind."""
    orders, now = due
    with CaptureQueriesContext(connection) as queries:
        assert outcomes.fire_due(now=now) == 6
    assert statuses(orders) == ["expired", "cancelled", "pending"] * 2
    if connection.vendor == "postgresql":
        closed = [one for one in queries if one["sql"].startswith('UPDATE "runs_pause"')]
        assert len(closed) == len(ENDS)
        assert sum("hitl_decision" in one["sql"] for one in queries) == 1
    check_whole(orders)
    alone = [asked(deadline={**FOUR, "outcome": end}) for end in ENDS]
    monkeypatch.setattr(together, "act", lambda pauses, now: set())
    assert outcomes.fire_due(now=at(pause_of(alone[-1]), 4)) == 3
    assert [kinds(order) for order in alone] == [kinds(order) for order in orders[:3]]
    check_whole(alone)


@pytest.mark.django_db(transaction=True)
def test_nothing_is_done_twice_or_early(file_database, due):
    """P8."""
    orders, now = due
    early = at(pause_of(orders[0]), 3.99)
    assert outcomes.fire_due(now=early) == 0
    assert {type(one) for one in at_once(*[partial(outcomes.fire_due, now=now)] * 4)} == {int}
    assert statuses(orders) == ["expired", "cancelled", "pending"] * 2
    assert Decision.objects.count() == 4
    check_whole(orders)


@pytest.mark.parametrize("moment", ["while it is made", "before it is written"])
def test_who_answers_meanwhile_wins_and_the_others_end_all_the_same(due, ana, monkeypatch, moment):
    """P1: no lock is held while a batch is made, so the person does not wait for it."""
    orders, now = due
    first = pause_of(orders[0])
    said: list[object] = []

    def answer():
        if not said:
            said.append(services.decide(first.pk, Answer("approve", Via.PAGE), by=ana))

    # the answer comes after the questions were read; the deadline is in the tests' future
    free = locks.free
    if moment == "while it is made":
        apart = runs_together.apart

        def read(pauses):
            found = apart(pauses)
            answer()
            return found

        monkeypatch.setattr(runs_together, "apart", read)
    else:

        def looked(model, keys):
            found = free(model, keys)
            seen = list(Pause.objects.due(now=now).answerable().filter(pk__in=found))
            answer()
            monkeypatch.setattr(together, "act", partial(_acted_on, seen, together.act))
            return found

        monkeypatch.setattr(locks, "free", looked)
    outcomes.fire_due(now=now)
    assert statuses(orders) == [
        "pending",
        "cancelled",
        "pending",
        *["expired", "cancelled", "pending"],
    ]
    assert Decision.objects.get(pause=first).decided_by == ana
    assert kinds(orders[0]).count("run_expired") == 0
    assert Decision.objects.count() == 5
    check_whole(orders)


def _acted_on(seen, act, pauses, *, now):
    return act(seen, now=now)


def test_one_that_is_damaged_holds_up_no_other(due, monkeypatch):
    orders, now = due
    broken = pause_of(orders[2])
    go_on = pauses._go_on

    def failing(pause, answer):
        if pause.pk == broken.pk:
            raise RuntimeError("its state cannot be read")
        go_on(pause, answer)

    monkeypatch.setattr(pauses, "_go_on", failing)
    assert outcomes.fire_due(now=now) == 6
    wanted = ["expired", "cancelled", "paused", "expired", "cancelled", "pending"]
    assert statuses(orders) == wanted
    broken.refresh_from_db()
    assert broken.next_at == now + outcomes.AGAIN
    monkeypatch.undo()
    check_whole([order for order in orders if order is not orders[2]])
    outcomes.fire_due(now=now + outcomes.AGAIN)
    assert fresh(orders[2]).latest_run.status == "pending"


def test_where_the_ledger_cannot_be_written_nothing_of_a_batch_is(due, monkeypatch):
    orders, now = due
    monkeypatch.setattr(
        chain, "append_all", lambda decisions: (_ for _ in ()).throw(RuntimeError("full"))
    )
    read = list(Pause.objects.due(now=now).answerable())
    assert together.act(read, now=now) == set()
    assert statuses(orders) == ["paused"] * 6
    assert Pause.objects.open().count() == 6 and not Decision.objects.exists()


def test_rules_that_do_not_act_together_act_alone(asked, zoe):
    """An escalation, and a question with none beside it."""
    stages = [{"after": "PT6H", "users": ["zoe"]}]
    order = asked(deadline={**FOUR, "outcome": "escalate"}, escalation=stages)
    other = asked(deadline=FOUR)
    assert outcomes.fire_due(now=at(pause_of(other), 4)) == 2
    assert statuses([order, other]) == ["paused", "expired"]
    assert pause_of(order).stage == 1


@pytest.mark.one_database
@pytest.mark.django_db(transaction=True)
def test_a_question_that_is_answered_moved_or_held_meanwhile_is_reminded_of_by_nobody(
    asked, ana, monkeypatch
):
    """The others of its batch are. What is held is dealt with alone."""
    orders = [asked(reminders=["PT1H"]) for _ in range(4)]
    answered, moved, held, free = orders
    now, drafted = at(pause_of(free), 1), reminding._drafted

    with psycopg.connect(connection.connection.info.dsn) as other:

        def meanwhile(pause, *more):
            found = drafted(pause, *more)
            if pause.run.thread_id == free.thread_id:
                services.decide(pause_of(answered).pk, Answer("approve", Via.PAGE), by=ana)
                Pause.objects.filter(pk=pause_of(moved).pk).update(reminded=1, next_at=None)
                lock = "SELECT 1 FROM checkpoints_thread WHERE id = %s FOR UPDATE"
                other.execute(lock, [held.thread_id])
            return found

        monkeypatch.setattr(reminding, "_drafted", meanwhile)
        keys = [pause_of(order).pk for order in orders]
        pauses = [Pause.objects.answerable().get(pk=key) for key in keys]
        done = reminding.act_together(pauses, now=now, asked=reminding.People())
        other.rollback()
    assert done == {keys[-1]}
    assert [len(updates(order)) for order in orders] == [0, 0, 0, 1]
    monkeypatch.undo()
    assert outcomes.fire_due(now=now) == 1
    assert [len(updates(order)) for order in orders] == [0, 0, 1, 1]
