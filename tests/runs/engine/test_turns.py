"""Whose first step a worker takes: priorities, teams that take turns, and nothing that starves."""

from __future__ import annotations

import datetime as dt

import pytest
from django.contrib.auth.models import Permission, User
from django.db import IntegrityError, transaction
from django.utils import timezone

from checkpoints.models import Thread
from runs import services, tasks, urgency
from runs.definitions import rights
from runs.engine import advance as loop
from runs.engine import places, record
from runs.models import Place, Run, WorkLimit, WorkOrder
from runs.services import priorities, resubmit
from runs.states import RunEnded
from runs.urgency import SHARE, STEP, Urgency
from runs.workflows.base import Done, Go
from tests.conftest import drive, fresh, log_lines
from tests.databases.whole import file_database as file_database
from tests.worlds.people import group, person
from tests.worlds.scripted_step import order_that as order_that

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("file_database")]


def may_raise(user: User) -> User:
    user.user_permissions.add(Permission.objects.get(codename="raise_priority"))
    return User.objects.get(pk=user.pk)


@pytest.fixture
def boss(db):
    return may_raise(person("boss"))


@pytest.fixture
def broker(monkeypatch):
    """Messages as the broker keeps them: by urgency, then in the order in which they came."""
    messages: list[tuple[int, int, str]] = []
    monkeypatch.setattr(tasks, "_broken_until", 0.0)
    monkeypatch.setattr(tasks._sender, "give", lambda job: job() or True)
    monkeypatch.setattr(
        tasks.advance_run,
        "apply_async",
        lambda arguments, queue, priority: messages.append((priority, len(messages), arguments[0])),
    )
    return messages


@pytest.fixture
def ordered(order_that, broker):
    """`ordered(by, team=…, priority=…)`: an order that waits for a worker."""
    order_that(lambda state, context: Go())
    Run.objects.update(status="cancelled", ended_at=timezone.now())
    broker.clear()
    return lambda by, **fields: services.submit("anything", by=by, **fields)


def work(broker, steps=100):
    """One worker takes messages until none is left; gives the orders in which they began."""
    for _ in range(steps):
        if not broker:
            break
        message = min(broker)
        broker.remove(message)
        tasks.advance_run(message[2])
    begun = Run.objects.filter(started_at__isnull=False).exclude(status="cancelled")
    return [run.work_order for run in begun.order_by("started_at").select_related("work_order")]


def read(order):
    """Its run, as a worker reads it before the claim."""
    held = loop._read(order.latest_run_id)
    assert held is not None
    return held


def older(order, minutes):
    """It has waited for so much longer."""
    since = timezone.now() - dt.timedelta(minutes=minutes)
    Run.objects.filter(work_order=order).update(created_at=since, due_at=since)


def test_of_one_team_higher_priorities_begin_first_and_equal_ones_by_age(
    ordered, broker, ana, boss
):
    low = ordered(ana, priority=-3)
    first, second = ordered(ana), ordered(ana)
    high = services.submit("anything", by=boss, priority=2)
    priorities.change(second.pk, 1, by=boss)
    assert work(broker) == [high, second, first, low]
    assert Run.objects.filter(status="pending").count() == 0


def test_what_waited_for_longer_than_a_priority_is_worth_begins_before_it(
    ordered, broker, ana, ben, boss
):
    """Work with a low priority begins one day, however much higher work comes."""
    low = ordered(ana, priority=-2)
    higher = [ordered(ana), ordered(ben)]
    assert urgency.goes_before(low.latest_run_id)
    older(low, minutes=2 * STEP.seconds / 60 + 1)
    assert work(broker)[0] == low
    assert set(work(broker)) == {low, *higher}


def test_raised_work_does_not_keep_other_teams_waiting_for_ever(ordered, broker, ana, boss):
    old = ordered(ana)
    raised = ordered(boss, priority=3)
    assert urgency.goes_before(old.latest_run_id).run_id == raised.latest_run_id
    older(old, minutes=31)
    assert urgency.goes_before(raised.latest_run_id).run_id == old.latest_run_id


def test_teams_take_turns_with_one_worker_too(ordered, broker, ana, ben, monkeypatch):
    """A thousand orders of one team do not delay another's first: here, of more than are seen."""
    monkeypatch.setattr(urgency, "LINE", 5)
    platform = group("platform")
    ana.groups.add(platform)
    theirs = [ordered(ana, team=platform) for _ in range(SHARE + 5)]
    assert work(broker, steps=1) == theirs[:1]
    first, second = ordered(ben), ordered(ben)
    began = work(broker)
    assert began.index(first) == 1
    assert began.index(second) <= 3
    assert [order for order in began if order in theirs] == theirs


def test_behind_a_thousand_orders_of_one_team_the_first_of_another_is_next(
    ordered, broker, ana, ben, django_assert_max_num_queries
):
    model = ordered(ana).latest_run
    Run.objects.filter(pk=model.pk).update(started_at=timezone.now())  # it had its turn just now
    threads = Thread.objects.bulk_create([Thread(owner=ana) for _ in range(1000)])
    Run.objects.bulk_create(
        [
            Run(thread=thread, definition=model.definition, due_at=timezone.now())
            for thread in threads
        ]
    )
    some = Run.objects.filter(thread=threads[500]).get()
    first = ordered(ben)
    with django_assert_max_num_queries(10):
        assert urgency.goes_before(some.pk).run_id == first.latest_run_id


def test_members_of_a_team_have_one_turn_together(ordered, broker, ana, ben, monkeypatch):
    platform = group("platform")
    for member in (ana, ben):
        member.groups.add(platform)
    a, b = ordered(ana, team=platform), ordered(ben, team=platform)
    alone = ordered(person("cleo"))
    assert work(broker) == [a, alone, b]


def test_a_team_whose_worker_was_killed_has_nothing_at_work(ordered, broker, ana, ben):
    """F12: counted from leases that hold."""
    lost, waiting, other = ordered(ana), ordered(ana), ordered(ben)
    held = read(lost)
    record.claim(held)
    Run.objects.update(started_at=None)
    assert urgency.goes_before(waiting.latest_run_id).run_id == other.latest_run_id
    Run.objects.filter(work_order=lost).update(lease_until=timezone.now() - dt.timedelta(seconds=1))
    assert urgency.goes_before(waiting.latest_run_id) is None


def test_who_goes_first_and_cannot_be_taken_up_keeps_nobody_waiting(
    ordered, broker, ana, boss, monkeypatch
):
    """P12: one row never ends a round."""
    raised, other = ordered(boss, priority=1), ordered(ana)
    real = loop.advance

    def broken(run_id, *, budget):
        if run_id == raised.latest_run_id:
            raise RuntimeError("its row is damaged")
        return real(run_id, budget=budget)

    monkeypatch.setattr(tasks, "advance", broken)
    tasks.advance_run(str(other.latest_run_id))
    assert fresh(other).status == "completed"
    assert fresh(raised).status == "pending"


def test_begun_work_and_a_message_too_many_ask_for_no_turn(ordered, broker, ana, boss):
    begun = ordered(ana)
    Run.objects.filter(work_order=begun).update(epoch=1, started_at=timezone.now())
    ordered(boss, priority=5)
    assert urgency.goes_before(begun.latest_run_id) is None
    drive(begun)
    assert urgency.goes_before(begun.latest_run_id) is None


def test_messages_and_the_sweep_tell_raised_and_lowered_work_apart(ordered, broker, ana, boss):
    low, normal = ordered(ana, priority=-1), ordered(ana)
    raised = ordered(boss, priority=1)
    urgencies = {run: how for how, _, run in broker}
    assert [urgencies[str(order.latest_run_id)] for order in (low, normal, raised)] == [
        Urgency.CROWDED,
        Urgency.NEW,
        Urgency.RAISED,
    ]
    found = [run for run, _ in urgency.in_order(Run.objects.filter(status="pending"), most=10)]
    assert found[0] == raised.latest_run_id
    assert set(found) == {order.latest_run_id for order in (low, normal, raised)}


def test_with_one_place_under_a_limit_teams_take_turns_and_priorities_count(
    ordered, broker, ana, ben, boss
):
    """Before, with one place everybody waited behind the whole burst of one team."""
    WorkLimit.objects.create(template="anything", most=1)
    burst = [ordered(ana) for _ in range(3)]
    other, raised = ordered(ben), ordered(boss, priority=1)
    held = read(burst[0])
    assert places.claim(held)
    for order in (*burst[1:], other, raised):
        waiting = read(order)
        assert not places.claim(waiting)
    record.done(held, Done())
    assert [run for run, _ in places.let_go(held)] == [raised.latest_run_id]
    services.cancel(raised.pk, by=boss)
    key = Place.objects.filter(run=other.latest_run).get().key
    assert [run for run, _ in places.offer([key])] == [other.latest_run_id]


def test_requesters_lower_and_holders_of_the_right_raise(ordered, ana, ben, boss):
    order = ordered(ana, priority=-2)
    with pytest.raises(rights.Forbidden) as refused:
        ordered(ana, priority=1)
    assert refused.value.code == "priority_not_allowed"
    with pytest.raises(services.InputInvalid):
        ordered(boss, priority=11)
    for by, wanted in ((ana, 1), (ben, -3)):
        with pytest.raises(rights.Forbidden):
            priorities.change(order.pk, wanted, by=by)
    assert priorities.change(order.pk, 4, by=boss).priority == 4
    assert "boss changed the priority from -2 to 4" in log_lines(order)
    assert priorities.change(order.pk, -10, by=ana).priority == -10
    drive(order)
    with pytest.raises(RunEnded):
        priorities.change(order.pk, 0, by=ana)


def test_an_order_that_is_asked_for_again_keeps_what_its_asker_may_give(ordered, ana, boss):
    order = ordered(ana)
    priorities.change(order.pk, 4, by=boss)
    services.cancel(order.pk, by=ana)
    assert resubmit.again(order.pk, by=ana).priority == 0


def test_the_database_keeps_priorities_in_their_range(ordered, ana):
    order = ordered(ana)
    for wrong in (-11, 11):
        with pytest.raises(IntegrityError), transaction.atomic():
            WorkOrder.objects.filter(pk=order.pk).update(priority=wrong)
