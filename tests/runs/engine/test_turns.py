"""What begins first: priorities, the share of each team, and nothing that starves."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.db import IntegrityError, transaction
from django.utils import timezone

from runs import services, tasks, urgency
from runs.definitions import rights
from runs.engine import advance as loop
from runs.engine import places, record
from runs.models import Place, Run, WorkLimit, WorkOrder
from runs.services import priorities, resubmit
from runs.states import RunEnded
from runs.urgency import SHARE, Urgency
from runs.workflows.base import Done, Go
from tests.conftest import drive, log_lines
from tests.worlds.people import group, person
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db


def may_raise(user: User) -> User:
    user.user_permissions.add(Permission.objects.get(codename="raise_priority"))
    return User.objects.get(pk=user.pk)


@pytest.fixture
def boss(db):
    return may_raise(person("boss"))


@pytest.fixture
def broker(sending_at_once, monkeypatch):
    """Messages as the broker keeps them: by urgency, then in the order in which they came."""
    messages: list[tuple[int, int, str]] = []
    monkeypatch.setattr(
        tasks.advance_run,
        "apply_async",
        lambda arguments, queue, priority: messages.append((priority, len(messages), arguments[0])),
    )
    return messages


@pytest.fixture
def ordered(order_that, broker, committing):
    """`ordered(by, team=…, priority=…)`: an order that waits for a worker."""
    order_that(lambda state, context: Go())
    Run.objects.update(status="cancelled", ended_at=timezone.now())
    broker.clear()

    def make(by, **fields):
        with committing():
            return services.submit("anything", by=by, **fields)

    return make


def read(order):
    """Its run, as a worker reads it before the claim."""
    held = loop._read(order.latest_run_id)
    assert held is not None
    return held


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


def test_what_has_waited_for_an_hour_goes_with_raised_work(ordered, ana):
    """Work with a low priority begins one day, however much higher work comes."""
    low = ordered(ana, priority=-10)
    pending = Run.objects.filter(status="pending")
    assert urgency.in_order(pending, most=10) == [(low.latest_run_id, Urgency.CROWDED)]
    pending.update(created_at=timezone.now() - urgency.AGED)
    assert urgency.in_order(pending, most=10) == [(low.latest_run_id, Urgency.RAISED)]


def test_the_first_order_of_a_team_goes_before_the_burst_of_another(ordered, broker, ana, ben):
    """Members of a team share its turn: a second member's order is one more of the same burst."""
    platform = group("platform")
    for member in (ana, ben):
        member.groups.add(platform)
    burst = [ordered(ana, team=platform) for _ in range(SHARE + 2)]
    burst.append(ordered(ben, team=platform))
    alone = ordered(ben)
    urgencies = {run: how for how, _, run in broker}
    assert [urgencies[str(order.latest_run_id)] for order in burst] == [
        *[Urgency.NEW] * SHARE,
        *[Urgency.CROWDED] * 3,
    ]
    assert urgencies[str(alone.latest_run_id)] == Urgency.NEW


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
    assert resubmit.ask_again(order.pk, by=ana).priority == 0


def test_the_database_keeps_priorities_in_their_range(ordered, ana):
    order = ordered(ana)
    for wrong in (-11, 11):
        with pytest.raises(IntegrityError), transaction.atomic():
            WorkOrder.objects.filter(pk=order.pk).update(priority=wrong)
