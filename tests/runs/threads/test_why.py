"""Why a run does not go on, as its rows say: each reason by the engine itself, and each column that
may hold a run back.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from django.db.models import Model

from checkpoints.database import clock
from hitl.decisions import services as decisions
from hitl.decisions.deadlines import outcomes
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import services
from runs.engine import advance as loop
from runs.engine.recovery import lost_runs, postpone
from runs.engine.workers import heartbeat
from runs.models import Heartbeat, HeartbeatKind, Pause, Place, QueuedTurn, Run, WorkLimit
from runs.models.heartbeats import bound
from runs.states import RunStatus
from runs.threads import why
from runs.threads.reasons import Code
from runs.threads.why import of_run
from runs.workflows.base import Go, Sleep
from tests.conftest import drive, fresh
from tests.databases.moved_clock import later as later
from tests.runs.engine.children.crews import ASKING, PLAYS, fails, sub, work_off
from tests.runs.engine.children.crews import crew as crew
from tests.worlds import steps
from tests.worlds.lost_worker import claimed
from tests.worlds.scripted_step import fails_with_words
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db

HOUR = dt.timedelta(hours=1)
BY_PEOPLE = {Code.PERSON, Code.OUTSIDE, Code.STOPPED, Code.SUSPENDED, Code.UNDO}
OF_THREADS = {Code.NOT_BEGUN, Code.TURN}
"""Reasons that `tests/hitl/threads/test_why.py` is about."""

DUE = {Code.QUEUED, Code.NO_WORKER, Code.NO_SWEEP, Code.STUCK}
ENDS = {Code.COMPLETED, Code.FAILED, Code.CANCELLED, Code.EXPIRED}
OF_STATUS = {
    RunStatus.PENDING: {*DUE, Code.HELD, Code.PLACE, Code.TIMER, Code.RETRY, Code.LATER, Code.UNDO},
    RunStatus.RUNNING: {Code.AT_WORK, Code.WORKER_LOST},
    RunStatus.PAUSED: {*BY_PEOPLE - {Code.UNDO}, Code.CHILDREN, Code.STUCK},
    **{status: {Code(status)} for status in map(RunStatus, ENDS)},
}
HOLDS_BACK: dict[type[Model], dict[str, set[Code]]] = {
    Run: {
        "status": set(Code) - OF_THREADS,
        "held_because": {Code.HELD},
        "due_at": {*DUE, Code.TIMER, Code.RETRY, Code.LATER, Code.UNDO, Code.HELD},
        "attempts": {Code.RETRY},
        "awaited": {Code.CHILDREN},
        "children": {Code.CHILDREN},
        "gather_queued": {Code.CHILDREN},
        "gather_due_at": {Code.CHILDREN},
        "lease_owner": {Code.AT_WORK, Code.WORKER_LOST},
        "lease_until": {Code.AT_WORK, Code.WORKER_LOST},
        "lost_attempts": {Code.AT_WORK, Code.WORKER_LOST, Code.LATER, *DUE},
        "deaths": {Code.AT_WORK, Code.WORKER_LOST, *DUE},
        "suspend_by": {Code.AT_WORK, Code.WORKER_LOST},
        "suspend_because": {Code.AT_WORK, Code.WORKER_LOST},
        "queue": DUE,
        "interrupt_before": {Code.STOPPED},
        "interrupt_after": {Code.STOPPED},
        "places": {Code.PLACE},
        "pauses": BY_PEOPLE,
        "error": ENDS,
        "failure_code": ENDS,
        "ended_at": ENDS,
        "retries": ENDS,
        "thread": {Code.NOT_BEGUN, Code.TURN},
    },
    Place: {
        "limit": {Code.PLACE}, "key": {Code.PLACE}, "epoch": {Code.PLACE}, "run": {Code.PLACE},
        "since": {Code.PLACE},
    },
    QueuedTurn: {"status": {Code.TURN}, "thread": {Code.TURN}},
    Pause: {
        "status": BY_PEOPLE, "run": BY_PEOPLE, "question": BY_PEOPLE, "opened_at": BY_PEOPLE,
        "kind": {Code.PERSON, Code.OUTSIDE}, "phase": {Code.STOPPED, Code.SUSPENDED},
        "review": BY_PEOPLE, "panel": BY_PEOPLE, "outside": BY_PEOPLE, "votes": BY_PEOPLE,
        "turn": BY_PEOPLE, "stage": BY_PEOPLE, "times": BY_PEOPLE, "deadline_at": BY_PEOPLE,
        "claimed_by": BY_PEOPLE, "claimed_until": BY_PEOPLE, "attempts": BY_PEOPLE,
        "refined": BY_PEOPLE, "decisions": {Code.UNDO}, "wait": {Code.OUTSIDE},
    },
}  # fmt: skip
"""What may keep a run from going on: a table's column → the reasons in whose words it is."""
HOLDS_NOTHING_BACK: dict[type[Model], set[str]] = {
    Run: {
        "artifacts", "child_name", "code_seen", "created_at", "definition", "deliveries", "depth",
        "end_told", "epoch",
        "forked_from", "gather_failed", "gather_size", "id", "imported_at", "input", "optional",
        "parent", "progress",
        "queued_turn",
        "reason", "retry_of", "started_at", "started_by", "step_traceback", "untraced_steps",
        "work_order",
    },
    Place: {"id", "offered_at", "words"},
    QueuedTurn: {
        "by", "closed_at", "created_at", "id", "input", "interrupts", "run", "stops", "template",
        "words",
    },
    Pause: {
        "answers_without_input", "approvals", "calls", "changed_at", "checkpoint", "closed_at",
        "comments",
        "brief", "content", "content_digest", "delegations", "deliveries", "early_answers",
        "effects",
        "extendable_until", "facts", "id", "known", "labels", "links", "max_revisions", "next_at",
        "patch_digest", "presences", "reminded", "required_inputs", "revision", "risk_rank",
        "snoozes", "step", "summary", "told", "answers",
    },
}  # fmt: skip


@pytest.mark.parametrize("model", HOLDS_BACK)
def test_each_column_that_may_hold_a_run_back_has_its_reasons(model):
    """A new column, or a new table that names these, is refused until it is in one of the two."""
    fields = {field.name for field in model._meta.get_fields()}
    known = HOLDS_BACK[model].keys() | HOLDS_NOTHING_BACK[model]
    assert fields == known, (
        f"Say in {__name__} whether these hold a run back, and `runs.threads.why` in which words: "
        f"{sorted(fields ^ known)}"
    )
    assert not HOLDS_BACK[model].keys() & HOLDS_NOTHING_BACK[model]


def test_each_status_and_each_reason_is_driven_by_a_test():
    assert OF_STATUS.keys() == set(RunStatus)
    assert set().union(*OF_STATUS.values()) == set(Code) - OF_THREADS
    assert DRIVEN.keys() | BY_PEOPLE | OF_THREADS == set(Code)


def reason_of(order, **more):
    run = why.runs_to_explain().get(pk=fresh(order).latest_run.pk)
    asked = Pause.objects.open().filter(run=run).first()
    return of_run(run, now=clock.now(), asked=asked, **more)


def sign(kind, name="w@a", **more):
    heartbeat._write(Heartbeat(name=name, kind=kind, **more))


def worker(queue="default"):
    sign(HeartbeatKind.WORKER, queues=[queue])


def beat():
    sign(HeartbeatKind.LOOK, name=heartbeat.LOOK)


def was_due(order, seconds):
    at = clock.now() - dt.timedelta(seconds=seconds)
    Run.objects.filter(work_order=order).update(due_at=at)


def at_work(world):
    return claimed(world.order_that(lambda state, context: Go()))


def worker_lost(world):
    order = at_work(world)
    Run.objects.filter(work_order=order).update(lease_until=clock.now() - HOUR)
    return order


def queued(world):
    order = world.order_that(lambda state, context: Go())
    worker(order.latest_run.queue)
    return order


def no_sweep(world):
    order = queued(world)
    was_due(order, 20)
    return order


def stuck(world):
    order = queued(world)
    beat()
    was_due(order, bound() + 1)
    return order


def retrying(world):
    order = world.order_that(fails_with_words, retry={"attempts": 3, "base": 3600, "cap": 3600})
    return drive(order)


def put_off(world):
    order = at_work(world)
    postpone.put_off(order.latest_run.pk, words="the store is away")
    return order


def in_line(world):
    WorkLimit.objects.create(template="anything", name="crm", most=1)
    at_work(world)
    order = world.order_that(lambda state, context: Go())
    loop.advance(order.latest_run.pk, budget=60)
    return order


def held(world):
    world.settings.WAYSTATION_ON_CHANGE = "hold"
    order = drive(world.make_order())
    steps.deploy(world.monkeypatch, work=steps.check)
    pause = Pause.objects.open().get(run__work_order=order)
    decisions.decide(pause.pk, Answer("approve", Via.PAGE), by=world.ana)
    return drive(order)


def gathering(world):
    crew = world.request.getfixturevalue("crew")  # which asks all invariants at its end
    PLAYS["b"] = fails
    order = crew([sub("a", **ASKING), sub("b")], parallel=True, on_failure="collect")
    work_off()
    return order


def failed(world):
    return drive(world.order_that(fails_with_words))


def cancelled(world):
    order = world.make_order()
    services.cancel(order.pk, by=world.ana)
    return order


def expired(world):
    order = drive(world.make_order())
    Pause.objects.filter(run__work_order=order).update(
        deadline_at=clock.now() - HOUR, extendable_until=clock.now(), next_at=clock.now() - HOUR
    )
    outcomes.fire_due(now=clock.now())
    return order


DRIVEN = {
    Code.AT_WORK: (at_work, "at the step Plan"),
    Code.WORKER_LOST: (worker_lost, "does not renew its lease any more"),
    Code.QUEUED: (queued, "its message was sent to the queue steps"),
    Code.NO_WORKER: (lambda world: world.make_order(), "no worker that takes the queue steps"),
    Code.NO_SWEEP: (no_sweep, "its message may be lost"),
    Code.STUCK: (stuck, "It has been due for longer than 60 s, and no worker took it."),
    Code.TIMER: (
        lambda world: drive(world.order_that(lambda s, c: Sleep(for_=HOUR, reason="A day off"))),
        "A day off",
    ),
    Code.RETRY: (retrying, "try 2 of 3"),
    Code.LATER: (put_off, "was away when a worker had it"),
    Code.PLACE: (in_line, "It waits for a place: 1 of 1 at work (crm)."),
    Code.HELD: (held, "its template holds such runs"),
    Code.CHILDREN: (gathering, "1 of its 2 child runs have ended."),
    Code.COMPLETED: (
        lambda world: drive(world.order_that(lambda s, c: Go())),
        "All of its steps are done.",
    ),
    Code.FAILED: (failed, "The bank is closed."),
    Code.CANCELLED: (cancelled, ""),
    Code.EXPIRED: (expired, "Its question was not answered by the deadline."),
}
"""Reason → how the engine comes to it, and words that are said then."""


class World:
    """What a test has at hand to bring a run to where it stands still."""

    def __init__(self, **parts):
        self.__dict__ |= parts


@pytest.fixture
def world(order_that, make_order, ana, settings, monkeypatch, request):
    return World(
        order_that=order_that,
        make_order=make_order,
        ana=ana,
        settings=settings,
        monkeypatch=monkeypatch,
        request=request,
    )


@pytest.mark.parametrize("code", DRIVEN)
def test_a_run_says_why_it_does_not_go_on(world, code, django_assert_max_num_queries):
    make, words = DRIVEN[code]
    order = make(world)
    with django_assert_max_num_queries(12):
        reason = reason_of(order)
    assert reason.code == code, reason
    assert words in reason.words
    assert code in OF_STATUS[RunStatus(reason.run.status)]
    assert reason.code.label
    if reason.until is not None:
        assert reason.then


def test_what_a_worker_holds_names_worker_lease_wish_and_losses(world):
    order = at_work(world)
    services.suspend(order.pk, by=world.ana)
    Run.objects.filter(work_order=order).update(lost_attempts=2, deaths=1)
    reason = reason_of(order)
    assert fresh(order).latest_run.lease_owner in reason.words
    assert reason.until == fresh(order).latest_run.lease_until
    assert reason.details == [
        "It stops after this step, as Ana Ruiz asked.",
        "Workers lost in a row at this step: 2. At 5 it stops as an incident.",
        "Processes that this step ended in a row: 1.",
    ]


def test_only_what_a_worker_has_or_is_about_to_take_moves(world):
    assert reason_of(at_work(world)).moves
    assert reason_of(queued(world)).moves
    assert not reason_of(stuck(world)).moves


def test_a_renewed_lease_is_no_news_to_who_looks(world):
    reason = reason_of(at_work(world))
    assert reason.until is not None
    assert replace(reason, until=reason.until + HOUR).key == reason.key
    assert replace(reason, words="Other words.").key != reason.key


def test_a_lost_worker_says_that_nobody_takes_the_run_back_where_beat_is_silent(world):
    order = worker_lost(world)
    assert "never carried out" in reason_of(order).details[-1]
    assert "manage.py start beat" in reason_of(order).advice
    beat()
    assert len(reason_of(order).details) == 1
    lost_runs.take_back(now=clock.now())
    assert reason_of(order).code == Code.NO_WORKER


def test_a_due_run_says_who_takes_its_queue_and_what_is_before_it(world):
    before, order = queued(world), world.make_order()
    beat()
    was_due(before, 20)
    was_due(order, 10)
    reason = reason_of(order)
    assert reason.code == Code.QUEUED
    assert reason.details == [
        "1 worker takes the queue steps: 0 runs are at work there, and 1 due before this one wait."
    ]
    assert "is sent again every 5 s" in reason.words


def test_who_waits_for_a_place_says_how_many_go_before_it(world):
    second = in_line(world)
    assert reason_of(second).details == ["It is the next whose turn it is."]
    third = world.order_that(lambda state, context: Go())
    loop.advance(third.latest_run.pk, budget=60)
    assert reason_of(third).details == ["1 run that waits goes before it."]
    Run.objects.filter(status="running").update(lease_until=clock.now() - HOUR)
    assert reason_of(third).words == "It waits for its turn: 0 of 1 at work, 1 before it (crm)."


def test_a_retry_says_which_error_and_when(world):
    order = retrying(world)
    reason = reason_of(order)
    assert reason.details == ["The bank is closed."]
    assert reason.until == fresh(order).latest_run.due_at


def test_what_is_due_says_when_its_message_went_to_the_broker_last(world):
    """As it became due, or by the last look of beat's, which is noted anyway: nothing is written
    for a message.
    """
    order = queued(world)
    due_at = fresh(order).latest_run.due_at
    assert reason_of(order).sent_at == due_at
    beat()
    assert reason_of(order).sent_at == due_at
    was_due(order, 20)
    reason = reason_of(order)
    looked_at = Heartbeat.objects.get(kind="look").seen_at
    assert (reason.sent_at, reason.may_be_sent_again) == (looked_at, True)
    assert reason_of(retrying(world)).sent_at is None


def test_a_parent_says_which_child_did_not_complete(world):
    assert reason_of(gathering(world)).details == ["b did not complete: No paper left."]


def test_a_paused_run_that_asks_nothing_is_stuck(paused):
    Pause.objects.filter(run__work_order=paused).update(status="answered", closed_at=clock.now())
    reason = reason_of(paused)
    assert (reason.code, reason.words) == (
        Code.STUCK,
        "It is paused, but asks nothing and waits for no child run.",
    )
    Run.objects.filter(work_order=paused).update(awaited=1)
    assert "all 0 of them have ended" in reason_of(paused).words


def test_an_ended_run_says_whether_somebody_went_on_with_it(world):
    order = failed(world)
    first = why.runs_to_explain().get(pk=fresh(order).latest_run.pk)
    assert "retry it" in of_run(first, now=clock.now()).advice
    new = services.retry(order.pk, by=world.ana)
    reason = of_run(first, now=clock.now())
    assert reason.details == [f"The work went on in {new.shown_id}."]
    assert not reason.advice
