"""A hundred orders at once; ten thousand paused ones that cost nothing."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import Model
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints.models import Thread
from hitl.decisions import services
from hitl.decisions.deadlines import outcomes
from hitl.decisions.services import AlreadyAnswered, Answer
from hitl.models import Decision, Via
from runs import definitions
from runs.engine.advance import advance
from runs.engine.recovery import lost_runs
from runs.models import Pause, Run, WorkOrder
from runs.states import LIVE
from runs.workflows.base import Child, Context, Gather, Outcome, State
from runs.workflows.registry import step
from tests.conftest import drive, fresh
from tests.databases.whole import file_database as file_database
from tests.killed import moments
from tests.worlds import lost_worker

ORDERS = 100 if connection.vendor == "postgresql" else 30
PAUSED = 10_000 if connection.vendor == "postgresql" else 1_000
"""SQLite is for a few: that nothing is lost, and which index is taken, fewer say as well."""
CROWD, AT_ONCE = 24, 5
"""Child runs of one step, and how many of them may be under way."""
DAY = dt.timedelta(days=1)


@step("many.crowd")
def crowd(state: State, context: Context) -> Outcome:
    children = [Child(name=f"c{number}", steps=["one"]) for number in range(CROWD)]
    return Gather(children=children, at_once=AT_ONCE, into="parts")


def all_at_once(jobs, *, threads=8):
    """Do jobs in a few threads, each with a connection of its own; a refusal is an answer, anything
    else is an error.
    """

    def run(job):
        try:
            return job()
        except AlreadyAnswered as refused:
            return refused
        finally:
            connection.close()

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, jobs))


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.usefixtures("file_database")
def test_a_hundred_orders_at_once_each_end_once(templates, ana, ben, team):
    """P1, P4: eight threads make them, work on them two at a time, and two people answer each."""
    moments.load()
    orders = all_at_once(
        [
            partial(moments.make, "crash", by=ana, team=team, title=f"order {number}")
            for number in range(ORDERS)
        ]
    )
    work = [partial(advance, order.latest_run_id, budget=60) for order in orders for _ in range(2)]
    all_at_once(work)
    answers = [
        partial(
            services.answer_order,
            order.pk,
            Answer("approve", Via.REST),
            by=by,
            pause_id=pause.shown_id,
        )
        for order, pause in [(order, Pause.objects.get(run__work_order=order)) for order in orders]
        for by in (ana, ben)
    ]
    found = all_at_once(answers)
    all_at_once(work)
    assert sum(isinstance(answer, Decision) for answer in found) == ORDERS
    assert Run.objects.filter(status="completed").count() == ORDERS
    moments.EFFECTS.clear()
    stories = [moments.story(order.pk) for order in orders]
    for story in stories:
        story["decisions"] = [(action, feedback) for action, feedback, _, _ in story["decisions"]]
    assert all(story == stories[0] for story in stories)
    moments.check_ledgers()


def copied(row: Model, source: str, **values: str) -> None:
    """Copy a row for each row of a query, `many`, by the database itself: objects would take ten
    seconds. `values`: SQL of what differs.
    """
    columns = [field.column for field in row._meta.concrete_fields if field.column]
    values["id"] = (
        "gen_random_uuid()" if connection.vendor == "postgresql" else "lower(hex(randomblob(16)))"
    )
    chosen, table = ", ".join(values.get(one, f"one.{one}") for one in columns), row._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} "
            f"FROM {table} one, ({source}) many WHERE one.id = %s",
            [row._meta.pk.get_db_prep_value(row.pk, connection)],
        )


@pytest.fixture
def ten_thousand_paused(templates, ana, team):
    """One order that really paused, and ten thousand runs like it."""
    moments.load()
    order = drive(moments.make("crash", by=ana, team=team))
    like = Pause.objects.get()
    # random keys: uuid7 counts on where more than one is made in a millisecond, and would be ahead
    # of the clock by half a minute
    thread = Thread.objects.create(id=uuid4(), owner=ana, title="first")
    run = Run.objects.create(
        id=uuid4(),
        thread=thread,
        definition=order.definition,
        status="paused",
        epoch=1,
        due_at=timezone.now(),
    )
    pause = Pause.objects.create(
        id=uuid4(),
        run=run,
        checkpoint=like.checkpoint,
        step=like.step,
        phase=like.phase,
        question=like.question,
        answers=like.answers,
        opened_at=like.opened_at,
        deadline_at=like.opened_at + DAY,
        extendable_until=like.opened_at + DAY,
        next_at=like.opened_at + DAY,
    )
    numbers = (
        f"WITH RECURSIVE n(id) AS (SELECT 2 UNION ALL SELECT id + 1 FROM n WHERE id < {PAUSED})"
    )
    copied(thread, f"{numbers} SELECT id FROM n", title="'more'")
    more = "SELECT id FROM checkpoints_thread WHERE title = 'more'"
    copied(run, more, thread_id="many.id")
    copied(pause, f"SELECT id FROM runs_run WHERE thread_id IN ({more})", run_id="many.id")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return order


@pytest.mark.django_db
@pytest.mark.both_databases
def test_ten_thousand_paused_runs_cost_the_sweep_and_the_claim_nothing(
    ten_thousand_paused, ana, team
):
    """P7: neither reads a paused run; each goes by an index that holds none of them.

    P8: nor does the sweep for deadlines read what is not due.
    """
    with CaptureQueriesContext(connection) as queries:
        assert outcomes.fire_due(now=timezone.now()) == 0
    assert len(queries) == 1
    assert "pause_open_by_next" in Pause.objects.due(now=timezone.now())[: outcomes.BATCH].explain()
    assert Run.objects.filter(status="paused").count() == PAUSED + 1
    with CaptureQueriesContext(connection) as queries:
        assert lost_runs.due_again(now=timezone.now(), patience=dt.timedelta(0)) == {}
    assert len(queries) == 3
    lost, overdue = Run.objects.lost(now=timezone.now()), Run.objects.overdue(before=timezone.now())
    gathers = Run.objects.gathers_due(now=timezone.now())
    assert "run_by_gather_due" in gathers.order_by("gather_due_at").explain()
    assert "run_running_by_lease" in lost.order_by("lease_until").explain()
    assert "run_pending_by_due" in overdue.order_by("due_at").explain()
    order = moments.make("crash", by=ana, team=team)
    assert order.latest_run_id is not None
    assert list(lost_runs.due_again(now=timezone.now(), patience=dt.timedelta(0))) == [
        (order.latest_run_id, "steps")
    ]
    with CaptureQueriesContext(connection) as queries:
        assert lost_worker.claim(order.latest_run_id, now=timezone.now())
    assert len(queries) == 1
    moments.expire_leases()
    assert lost_runs.take_back(now=timezone.now()) == [(order.latest_run_id, "steps")]
    assert drive(order).status == "paused"
    assert WorkOrder.objects.count() == 2
    assert fresh(order).latest_run.lease_owner == ""


@pytest.mark.django_db(transaction=True)
@pytest.mark.one_database
def test_many_workers_start_the_child_runs_of_one_step_each_once(templates, ana, team):
    """P4, P12: whoever ends a child, and whoever sweeps, look for the next ones at once."""
    moments.load()
    one = {"step_type": "execute", "name": "one", "step_template_slug": "model-work"}
    definitions.edit_step_template("crowd", title="Crowd", function="many.crowd", config={},
                                   sub_steps=[one])  # fmt: skip
    finish = {"step_type": "deliver", "name": "finish", "step_template_slug": "model-end"}
    steps = [{"step_type": "execute", "name": "crowd", "step_template_slug": "crowd"}, finish]
    definitions.edit_template("crowd", title="Crowd", needs_repository=False, steps=steps)
    order = moments.make("crowd", by=ana, team=team)
    parent = order.latest_run_id
    assert parent is not None
    for _ in range(10 * CROWD):
        due = [key for key, _ in lost_runs.due_again(now=timezone.now(), patience=-DAY)]
        if not due:
            break
        # some of them look for the next child that another one starts just now
        all_at_once([partial(advance, key, budget=60) for key in [*due, parent, parent, parent]])
        live = Run.objects.filter(work_order=order, depth=1, status__in=sorted(LIVE)).count()
        assert live <= AT_ONCE
    order = fresh(order)
    assert order.status == "completed"
    assert Run.objects.filter(work_order=order, depth=1, status="completed").count() == CROWD
    assert len(moments.EFFECTS) == CROWD + 1
    assert set(moments.EFFECTS.values()) == {1}
