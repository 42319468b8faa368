"""Several at once, with real threads and connections: one wins, the others are told, and nothing is
done twice.
"""

from __future__ import annotations

import datetime as dt
from functools import partial

import pytest
from django.db import transaction
from django.utils import timezone

from checkpoints.events import log
from checkpoints.models import Checkpoint, Event, EventKind, Thread
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Ledger, Via
from runs import services as runs
from runs.engine.advance import advance
from runs.engine.recovery import lost_runs
from runs.models import Run
from runs.states import RunEnded
from tests.conftest import drive, fresh, kinds, pause_of
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.worlds import lost_worker, steps

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("file_database"),
    pytest.mark.both_databases,
]


def gap_free(thread_id):
    seqs = list(
        Event.objects.filter(thread=thread_id).order_by("seq").values_list("seq", flat=True)
    )
    return seqs == list(range(1, Thread.objects.get(pk=thread_id).last_seq + 1))


@pytest.mark.parametrize("other", ["approve", "revise", "cancel"])
def test_an_approval_and_another_answer_meet(paused, ana, ben, other):
    """F8: the loser learns who won, and the run does what the winner said."""
    pause = pause_of(paused)
    jobs = [
        partial(services.decide, pause.pk, Answer("approve", Via.PAGE), by=ana),
        partial(services.decide, pause.pk, Answer(other, Via.PAGE, feedback="x"), by=ben),
    ]
    results = at_once(*jobs)
    [lost] = [result for result in results if isinstance(result, services.AlreadyAnswered)]
    decision = Decision.objects.get()
    assert lost.decision == decision
    assert fresh(paused).status == ("failed" if decision.action == "cancel" else "pending")
    assert kinds(paused).count("approval_received") == 1


def test_answers_on_many_orders_of_one_team_keep_the_ledger_a_chain(make_order, ana):
    """P11, F7."""
    pauses = [pause_of(drive(make_order())) for _ in range(6)]
    at_once(
        *(
            partial(services.decide, pause.pk, Answer("approve", Via.PAGE), by=ana)
            for pause in pauses
        )
    )
    chain = list(Decision.objects.order_by("position"))
    assert [decision.position for decision in chain] == [1, 2, 3, 4, 5, 6]
    assert [decision.previous for decision in chain] == [
        "",
        *(decision.digest for decision in chain[:-1]),
    ]
    assert all(decision.compute_digest() == decision.digest for decision in chain)
    assert Ledger.objects.get().tip == chain[-1].digest


def test_of_two_workers_one_claims(make_order):
    """F0, F11."""
    run_id = make_order().latest_run_id

    def claim():
        with transaction.atomic():
            return lost_worker.claim(run_id, now=timezone.now())

    assert sorted(at_once(*[claim] * 4)) == [False, False, False, True]
    assert Run.objects.get().epoch == 1


@pytest.mark.parametrize("template", ["writing", "writing-quick"])
def test_two_workers_told_at_once_call_each_step_once(make_order, template):
    """F0, F13, P4."""
    order = make_order(template)
    results = at_once(*[partial(advance, order.latest_run_id, budget=60)] * 4)
    assert results == [[]] * 4
    names = [step for step, _ in steps.CALLS]
    assert names == sorted(set(names), key=names.index)
    assert Checkpoint.objects.count() == len(names) + 1
    assert gap_free(order.thread_id)


def test_eight_writers_of_one_log_leave_no_gap(make_order):
    """F24, P9."""
    order = make_order()
    start = fresh(order).thread.last_seq

    def write():
        for number in range(10):
            with transaction.atomic():
                log.append(order.thread_id, None, [(EventKind.LOG, {"message": str(number)})] * 2)

    assert at_once(*[write] * 8) == [None] * 8
    assert fresh(order).thread.last_seq == start + 160
    assert gap_free(order.thread_id)


def test_of_three_sweeps_at_once_exactly_one_takes_a_lost_run_back(make_order):
    """F11. None of them leaves it to the others either."""
    for _ in range(20):
        run = Run.objects.filter(pk=make_order().latest_run_id)
        lost_worker.claim(run.get().pk, now=timezone.now())
        run.update(lease_until=timezone.now() - dt.timedelta(hours=1))
        results = at_once(*[partial(lost_runs.take_back, now=timezone.now())] * 3)
        assert sorted(map(len, results)) == [0, 0, 1]
        assert run.get().lost_attempts == 1


def test_of_two_retries_at_once_one_starts(make_order, ana):
    order = drive(make_order("writing-fail"))
    results = at_once(*[partial(runs.retry, order.pk, by=ana)] * 3)
    assert sorted(type(result).__name__ for result in results) == ["Run", "RunEnded", "RunEnded"]
    assert isinstance(next(result for result in results if not isinstance(result, Run)), RunEnded)
    assert Run.objects.count() == 2


def test_a_cancellation_meets_a_worker_that_finishes(make_order, ana):
    """P6: the order is cancelled or complete, never both."""
    order = make_order("writing-quick")
    at_once(
        partial(advance, order.latest_run_id, budget=60),
        partial(services.cancel_order, order.pk, by=ana, via=Via.PAGE),
    )
    found = fresh(order)
    ends = [
        kind for kind in kinds(order) if kind in {"run_completed", "run_cancelled", "run_failed"}
    ]
    assert ends == [
        {"completed": "run_completed", "cancelled": "run_cancelled"}[found.latest_run.status]
    ]
    assert kinds(order)[-1] == "checkpoint_created"
    assert gap_free(order.thread_id)


def test_two_orders_of_a_new_template_made_at_once_share_one_definition(templates, ana):
    results = at_once(*[partial(runs.submit, "writing", by=ana)] * 4)
    assert len({order.definition_id for order in results}) == 1


def test_two_editors_at_once_make_two_versions_or_one_is_refused(templates):
    from runs import definitions

    plan = {"step_type": "planning", "step_template_slug": "test-plan"}
    results = at_once(
        *(
            partial(definitions.edit_template, "writing", steps=[plan], title=f"T{number}")
            for number in range(3)
        )
    )
    made = [result for result in results if not isinstance(result, Exception)]
    refused = [result for result in results if isinstance(result, Exception)]
    assert len({template.version for template in made}) == len(made) >= 1
    assert all(isinstance(error, definitions.TemplateInvalid) for error in refused), refused
