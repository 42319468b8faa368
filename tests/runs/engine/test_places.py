"""Limits: how many runs are at work at once, who waits, and whose turn it is."""

from __future__ import annotations

import datetime as dt

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from runs import services, tasks
from runs.engine import advance as loop
from runs.engine import places, record
from runs.engine.advance import advance
from runs.models import Beginning, Place, Run, WorkLimit, WorkOrder
from runs.workflows.base import Done, Go
from tests.conftest import drive, fresh, log_lines
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.worlds.people import group, person
from tests.worlds.scripted_step import DOES
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db


@pytest.fixture
def ordered(order_that):
    """`ordered(customer="x")`: an order that waits for a worker; its input is what is named."""

    def make(**values):
        return order_that(lambda state, context: Go(), order={"input": values} if values else None)

    return make


def limit(most=1, **fields):
    return WorkLimit.objects.create(**{"template": "anything", "most": most, **fields})


def begin(order):
    """A worker claims the order's run, and goes on holding it."""
    held = loop._read(order.latest_run.pk)
    assert held is not None
    return held if places.claim(held) else None


def waits_for(order):
    shown = WorkOrder.objects.shown().get(pk=order.pk)
    return getattr(shown, "waits_for")  # noqa: B009  # an annotation


def due(order):
    """Its time to ask again has come."""
    Run.objects.filter(work_order=order).update(due_at=timezone.now())


def test_the_one_too_many_waits_visibly_holds_nothing_and_goes_on_when_a_place_is_free(
    ordered, page, api, ana
):
    limit(2, name="crm")
    first, second, third = ordered(), ordered(), ordered()
    held = [begin(first), begin(second)]
    assert advance(third.latest_run.pk, budget=60) == []
    run = fresh(third).latest_run
    assert (run.status, run.lease_until, run.epoch, run.lost_attempts) == ("pending", None, 0, 0)
    words = "It waits for a place: 2 of 2 at work (crm)."
    assert waits_for(third) == words
    assert words in page.get(f"/work-orders/{third.shown_id}/").content.decode()
    assert api(ana).get(f"/api/v1/work-orders/{third.shown_id}").json()["waits_for"] == words
    assert log_lines(third) == [words]
    # the first pauses, ends, or its slice is over: who lets the place go says whose turn it is
    record.done(held[0], Done())
    assert places.let_go(held[0]) == [(run.pk, run.queue)]
    assert drive(third).status == "completed"
    assert waits_for(third) is None
    assert Place.objects.filter(run=run).count() == 0


def test_who_waits_gets_its_turn_from_the_worker_that_ends(order_that, ordered):
    """While the first works, the second asks and waits; the first's end names it."""
    limit(1)
    second = ordered()
    asked = []

    def work(state, context):
        asked.append(advance(second.latest_run.pk, budget=60))
        return Go()

    first = order_that(lambda state, context: Go())
    DOES["step"] = lambda state, context: work(state, context) if not asked else Go()
    woken = advance(first.latest_run.pk, budget=60)
    assert asked == [[]]
    assert fresh(first).status == "completed"
    assert woken == [(second.latest_run.pk, second.latest_run.queue)]
    assert drive(second).status == "completed"
    assert not Place.objects.exists()


def test_a_killed_worker_frees_its_place_with_its_lease_and_the_sweep_offers_it(
    ordered, monkeypatch
):
    """F12: rows of runs that crashed blocked all new work for ever."""
    limit(1)
    lost, waiting = ordered(), ordered()
    begin(lost)
    assert begin(waiting) is None
    assert places.sweep() == []
    Run.objects.filter(work_order=lost).update(lease_until=timezone.now() - dt.timedelta(seconds=1))
    sent = []
    monkeypatch.setattr(tasks, "send", lambda run_id, queue, *_: sent.append((run_id, queue)))
    tasks._sweep()
    assert (waiting.latest_run.pk, waiting.latest_run.queue) in sent
    assert drive(waiting).status == "completed"
    services.cancel(lost.pk, by=lost.created_by)
    places.sweep()
    assert not Place.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_of_many_claims_at_once_as_many_begin_as_there_are_places(ordered):
    limit(2, pointer="/customer")
    orders = [ordered(customer="x") for _ in range(6)]
    results = at_once(*[lambda order=order: begin(order) for order in orders])
    assert [one for one in results if isinstance(one, Exception)] == []
    assert sum(one is not None for one in results) == 2
    assert Run.objects.filter(status="running").count() == Place.objects.at_work().count() == 2
    assert Place.objects.waiting().count() == 4


def test_each_value_of_the_input_has_places_of_its_own(ordered):
    limit(1, pointer="/customer")
    assert begin(ordered(customer="x"))
    assert begin(ordered(customer="x")) is None
    assert begin(ordered(customer={"id": 1}))
    assert begin(ordered(customer={"id": 1})) is None
    for _ in range(2):  # in whose input there is none is not limited
        assert begin(ordered(other=1))


def test_limits_of_one_name_share_their_places_and_the_higher_priority_goes_first(
    ordered, make_order
):
    limit(1, name="gpu")
    limit(1, name="gpu", template="writing", priority=5)
    held = begin(ordered())
    low, high = ordered(), make_order("writing")
    assert begin(low) is None
    assert begin(high) is None
    record.done(held, Done())
    assert [run_id for run_id, _ in places.let_go(held)] == [high.latest_run.pk]
    due(low)
    assert begin(low) is None
    assert waits_for(low) == "It waits for its turn: 0 of 1 at work, 1 before it (gpu)."
    assert begin(high)


def test_the_team_with_the_fewest_at_work_goes_first(ordered, make_order, templates):
    """A burst of one team's does not keep another team waiting behind all of it."""
    limit(2)
    zoe, other = person("zoe"), group("others")
    zoe.groups.add(other)
    busy = [ordered() for _ in range(4)]
    theirs = services.submit("anything", by=zoe, team=other)
    held = [begin(order) for order in busy]
    assert [one is not None for one in held] == [True, True, False, False]
    assert begin(fresh(theirs)) is None
    record.done(held[0], Done())
    assert [run_id for run_id, _ in places.let_go(held[0])] == [theirs.latest_run_id]


def test_a_run_that_has_begun_goes_before_new_ones(ordered):
    """P3: an answer moves its run, whatever waits to begin."""
    limit(1)
    begun, new = ordered(), ordered()
    first = ordered()
    held = begin(first)
    assert begin(new) is None
    Run.objects.filter(work_order=begun).update(epoch=1, started_at=timezone.now())
    assert begin(begun) is None
    record.done(held, Done())
    assert [run_id for run_id, _ in places.let_go(held)] == [begun.latest_run.pk]


def test_who_does_not_come_is_passed_over(ordered):
    """P12: a run whose queue no worker serves holds up nobody."""
    limit(1)
    held, away, waiting = begin(ordered()), ordered(), ordered()
    begin(away)
    begin(waiting)
    record.done(held, Done())
    assert [run_id for run_id, _ in places.let_go(held)] == [away.latest_run.pk]
    due(waiting)
    assert begin(waiting) is None
    Place.objects.filter(run=away.latest_run).update(offered_at=timezone.now() - places.OFFER)
    due(waiting)
    assert begin(waiting)


def test_what_has_not_become_due_stays_as_it_is(ordered):
    """A message that came early puts no run in line that is to be tried again in an hour."""
    limit(1)
    begin(ordered())
    later = ordered()
    at = timezone.now() + dt.timedelta(hours=1)
    Run.objects.filter(work_order=later).update(due_at=at)
    assert begin(later) is None
    assert Run.objects.get(work_order=later).due_at == at
    assert not Place.objects.waiting().exists()


def test_without_a_limit_nothing_waits_and_a_limit_that_is_removed_frees_who_waits(ordered):
    found = limit(1)
    begin(ordered())
    waiting = ordered()
    assert begin(waiting) is None
    found.delete()
    due(waiting)
    assert not loop._read(waiting.latest_run.pk).limited
    assert drive(waiting).status == "completed"


def test_the_database_refuses_a_limit_of_none_and_one_that_is_there_twice(db):
    for wrong in ({"most": 0}, {"most": 3}):
        with pytest.raises(IntegrityError), transaction.atomic():
            if wrong["most"]:
                limit(1)
            limit(**wrong)


@pytest.mark.both_databases
def test_no_more_begin_in_a_time_than_the_rate_says_and_what_has_begun_goes_on(ordered):
    limit(most=10_000, rate="2/min")
    orders = [ordered() for _ in range(4)]
    begun = [begin(order) for order in orders]
    assert [held is not None for held in begun] == [True, True, False, False]
    assert waits_for(orders[2]) == "It waits for its turn: 2/min begin, 0 before it (anything)."
    assert waits_for(orders[3]) == "It waits for its turn: 2/min begin, 1 before it (anything)."
    wait = (fresh(orders[2]).latest_run.due_at - timezone.now()).total_seconds()
    assert 50 < wait <= 60
    assert places.offer([Place.objects.first().key]) == []  # nobody is called in vain
    going_on = fresh(orders[0]).latest_run
    Run.objects.filter(pk=going_on.pk).update(
        status="pending", lease_owner="", lease_until=None, due_at=timezone.now()
    )
    assert begin(fresh(orders[0])) is not None
    Beginning.objects.update(at=timezone.now() - dt.timedelta(minutes=1))
    for order in orders[2:]:
        due(order)
        assert begin(fresh(order)) is not None
    assert Beginning.objects.count() == 2


@pytest.mark.one_database
def test_those_that_a_rate_holds_back_begin_one_window_after_another(ordered):
    limit(most=10_000, rate="1/min")
    orders = [ordered() for _ in range(4)]
    assert begin(orders[0]) is not None
    for order in orders[1:]:
        assert begin(order) is None
    waits = [
        (fresh(order).latest_run.due_at - timezone.now()).total_seconds() for order in orders[1:]
    ]
    for number, seconds in enumerate(waits, start=1):
        assert 60 * number - 15 < seconds <= 60 * number


@pytest.mark.one_database
def test_a_limit_that_somebody_took_away_acts_on_nobody(ordered):
    limit(most=1, off=True, declared={"most": 1, "rate": "", "priority": 0, "place": "x"})
    assert begin(ordered()) is not None
    assert begin(ordered()) is not None
