"""A process dies at every moment of every operation that leaves something else behind than the
moments before.

What comes of it is always the same.

Long, since every operation stands here beside the others: one list of moments and one judge serve
them all, and what is missing is seen.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from checkpoints import store
from checkpoints.models import Checkpoint, Event, Memo
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import services as runs
from runs.engine.advance import advance
from runs.engine.recovery import lost_runs
from runs.models import Pause, Run, WorkOrder
from tests.conftest import log_lines
from tests.databases.whole import file_database as file_database
from tests.killed import moments as crash
from tests.programs.begun import Begun
from tests.runs.accidents.deaths import every_death
from tests.worlds import lost_worker
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db(transaction=True)
HANDFUL = pytest.mark.both_databases
"""One operation of each kind dies on SQLite too; all of them on PostgreSQL."""


@pytest.fixture
def crash_templates(templates):
    crash.load()


@pytest.fixture
def order_of(crash_templates, ana, team):
    def make(template="crash"):
        order = crash.make(template, by=ana, team=team)
        if template == "crash-failing":
            crash.FAILURES[f"{order.shown_id}/do"] = 1
        return order

    return make


@HANDFUL
def test_a_death_while_an_order_is_made_leaves_a_whole_order_or_none(
    crash_templates, ana, ben, team
):
    """P2, P3: a person who saw no answer looks at the list, and asks again where the order is not
    there.
    """
    titles = iter(range(1000))
    title = ""

    def make() -> None:
        nonlocal title
        title = f"order {next(titles)}"

    def submit(_):
        crash.make("crash", by=ana, team=team, title=title)

    def settle(_):
        if not WorkOrder.objects.filter(title=title).exists():
            submit(None)
        order = WorkOrder.objects.get(title=title)
        crash.finish_order(order.pk, ben)
        return order.pk

    every_death(make, submit, settle)


@pytest.mark.parametrize(
    ("template", "answers"),
    [
        ("crash", []),
        pytest.param("crash", ["approve"], marks=HANDFUL),
        ("crash-failing", []),
    ],
    ids=["claim-begin-log-ask", "claim-begin-log-go-done", "claim-begin-failed"],
)
def test_a_worker_may_die_at_any_moment(order_of, ben, template, answers):
    """P3, P4, C3: claim, begin, a log line of a step, and each way to record what a step
    answered.
    """

    def make():
        order = order_of(template)
        for action in answers:
            crash.work_off()
            services.answer_order(order.pk, Answer(action, Via.REST), by=ben)
        return order.pk

    def settle(order_id):
        crash.finish_order(order_id, ben)
        return order_id

    # a worker that died in a step that fails has used up its failure, and the next one gets
    # through: let each attempt fail alike
    if template == "crash-failing":
        settle = partial(fail_once_more, ben)
    assert every_death(make, crash.advance_order, settle) > 5


def fail_once_more(by, order_id):
    """The step fails at its first recorded attempt, however many workers died in it."""
    order = WorkOrder.objects.shown().get(pk=order_id)
    if crash.latest_run(order_id).status != "failed":
        crash.FAILURES[f"{order.shown_id}/do"] = 1
        crash.work_off()
    assert crash.latest_run(order_id).status == "failed"
    crash.FAILURES.clear()
    crash.finish_order(order_id, by)
    return order_id


@pytest.mark.parametrize("action", [pytest.param("approve", marks=HANDFUL), "revise", "cancel"])
def test_an_answer_is_taken_as_a_whole_or_not_at_all(order_of, ben, action):
    """P1, P2, P3, F10, C3: a death while it is recorded; the person who saw no acknowledgement
    answers again.
    """

    def make():
        order = order_of()
        crash.work_off()
        return order.pk

    def answer(order_id):
        pause = Pause.objects.filter(run__work_order=order_id).earliest("id")
        services.decide(pause.pk, Answer(action, Via.REST, feedback="shorter", revision=1), by=ben)

    def settle(order_id):
        crash.insist(partial(answer, order_id))
        crash.finish_order(order_id, ben)
        return order_id

    every_death(make, answer, settle)


@pytest.mark.parametrize(
    "claimed", [False, pytest.param(True, marks=HANDFUL)], ids=["pending", "running"]
)
def test_an_order_is_cancelled_as_a_whole_or_not_at_all(order_of, ben, claimed):
    """P3, P6: also while a worker has it."""

    def make():
        order = order_of()
        if claimed:
            assert lost_worker.claim(order.latest_run_id, now=timezone.now())
        return order.pk

    def cancel(order_id):
        services.cancel_order(order_id, by=ben, via=Via.REST)

    def settle(order_id):
        crash.insist(partial(cancel, order_id))
        crash.finish_order(order_id, ben)
        return order_id

    every_death(make, cancel, settle)


@HANDFUL
def test_a_retry_is_made_as_a_whole_or_not_at_all(order_of, ben):
    def make():
        order = order_of("crash-failing")
        crash.work_off()
        assert crash.latest_run(order.pk).status == "failed"
        return order.pk

    def retry(order_id):
        runs.retry(order_id, by=ben)

    def settle(order_id):
        crash.insist(partial(retry, order_id))
        crash.finish_order(order_id, ben)
        return order_id

    every_death(make, retry, settle)


def test_a_wish_to_suspend_is_taken_or_not_and_then_the_run_stops_once(order_of, ben):
    """P2, P3: the person who saw no answer asks again."""

    def make():
        return order_of("crash-straight").pk

    def suspend(order_id):
        runs.suspend(order_id, by=ben)

    def settle(order_id):
        suspend(order_id)
        crash.finish_order(order_id, ben)
        assert list(
            Pause.objects.filter(run__work_order=order_id).values_list("step", "phase")
        ) == [("draft", "suspended")]
        return order_id

    every_death(make, suspend, settle)


def suspended(order):
    runs.suspend(order.pk, by=order.created_by)


STOPS: dict[str, Any] = {
    "suspended": {},
    "before": {"interrupt_before": ["do"]},
    "after": {"interrupt_after": ["do"]},
    "after the last": {"interrupt_after": ["finish"]},
    "before and after": {"interrupt_before": ["do"], "interrupt_after": ["do"]},
}


@pytest.fixture
def stopping_order(crash_templates, ana, team):
    """An order that stops though no step of it asks."""

    def make(stop):
        order = crash.make("crash-straight", by=ana, team=team, **STOPS[stop])
        if not STOPS[stop]:
            suspended(order)
        return order

    return make


@pytest.mark.parametrize("stop", [stop for stop in STOPS if stop != "before and after"])
def test_a_worker_may_die_where_a_run_stops(stopping_order, ben, stop):
    """P3, P4, P5: at the boundary nothing is lost and nothing is asked twice; that of before and
    after is the one before.
    """

    def make():
        return stopping_order(stop).pk

    def settle(order_id):
        crash.finish_order(order_id, ben)
        return order_id

    assert every_death(make, crash.advance_order, settle) > 5


@pytest.mark.parametrize("stop", ["after the last", "before and after"])
def test_a_worker_may_die_after_a_stop_was_answered(stopping_order, ben, stop):
    """P4, P5: what was done before the stop is not done again, and what was asked is not asked
    again.
    """

    def make():
        order = stopping_order(stop)
        crash.work_off()
        services.answer_order(order.pk, Answer("approve", Via.REST), by=ben)
        return order.pk

    def settle(order_id):
        crash.finish_order(order_id, ben)
        return order_id

    assert every_death(make, crash.advance_order, settle) > 5


@pytest.mark.parametrize(
    ("stop", "action"),
    [("suspended", "approve"), ("before", "cancel"), ("after the last", "approve")],
)
def test_the_answer_to_a_stop_is_taken_as_a_whole_or_not_at_all(stopping_order, ben, stop, action):
    """P1, P2, P3."""

    def make():
        order = stopping_order(stop)
        crash.work_off()
        return order.pk

    def answer(order_id):
        pause = Pause.objects.filter(run__work_order=order_id).earliest("id")
        services.decide(pause.pk, Answer(action, Via.REST, revision=1), by=ben)

    def settle(order_id):
        crash.insist(partial(answer, order_id))
        crash.finish_order(order_id, ben)
        return order_id

    every_death(make, answer, settle)


def checkpoint_at(order_id, next_step):
    return Checkpoint.objects.filter(thread__work_order=order_id, next_step=next_step).earliest(
        "id"
    )


@pytest.fixture
def ended_order(order_of, ben):
    """A finished order that asked once, or one that failed."""

    def make(template):
        order = order_of(template)
        crash.work_off()
        if template == "crash":
            services.answer_order(order.pk, Answer("approve", Via.REST), by=ben)
            crash.work_off()
        return order.pk

    return make


def fork_at(order_id, edited, by):
    at = checkpoint_at(order_id, "do")
    state = {**store.load(at), "note": "look twice"} if edited else None
    services.fork(at.pk, by=by, reason="once more", state=state)


@pytest.mark.parametrize(
    ("template", "edited"),
    [pytest.param("crash", True, marks=HANDFUL), ("crash-failing", False)],
    ids=["finished, edited", "failed"],
)
def test_a_fork_is_made_as_a_whole_or_not_at_all(ended_order, ben, template, edited):
    """P2, P3: the old branch stays as it was; effects of the new one are its own, each once."""

    def make():
        return ended_order(template)

    def fork(order_id):
        fork_at(order_id, edited, ben)

    def settle(order_id):
        crash.insist(partial(fork, order_id))
        crash.finish_order(order_id, ben)
        forked = crash.latest_run(order_id)
        assert (forked.forked_from, forked.reason) == (
            checkpoint_at(order_id, "do"),
            "once more",
        )
        assert ("note" in state_of(WorkOrder.objects.get(pk=order_id))) == edited
        return order_id

    every_death(make, fork, settle)


@HANDFUL
def test_a_worker_of_a_fork_may_die_at_any_moment(ended_order, ben):
    """P3, P4: it goes on from the fork's checkpoint, never from the old branch's end."""

    def make():
        order_id = ended_order("crash")
        fork_at(order_id, True, ben)
        return order_id

    def settle(order_id):
        crash.finish_order(order_id, ben)
        return order_id

    assert every_death(make, crash.advance_order, settle) > 5


@pytest.mark.parametrize("failures", [0, 1], ids=["go", "ask a person to retry"])
def test_a_worker_may_die_in_a_later_try(order_of, ben, failures):
    """P4, F13: how often a step was tried is not forgotten, and what was recorded is not done
    again.
    """

    def make():
        order = order_of("crash-charge")
        crash.FAILURES[f"{order.shown_id}/do"] = 1
        crash.advance_order(order.pk)
        assert crash.latest_run(order.pk).attempts == 1
        crash.let_retries_come_due()
        crash.FAILURES[f"{order.shown_id}/do"] = failures
        return order.pk

    def settle(order_id):
        if failures:
            assert crash.latest_run(order_id).attempts == (
                crash.latest_run(order_id).status != "failed"
            )
            fail_once_more(ben, order_id)
        crash.finish_order(order_id, ben)
        assert tried_again(order_id) == 1
        assert set(charges(order_id).values()) == {1}
        return order_id

    assert every_death(make, crash.advance_order, settle) > 5


def test_a_worker_may_die_while_it_puts_a_try_off(order_of, ben):
    """P3, P4: a try that was not recorded is not counted; one that was is not forgotten, and waits
    for its time.
    """

    def make():
        order = order_of("crash-charge")
        crash.FAILURES[f"{order.shown_id}/do"] = 1
        return order.pk

    def settle(order_id):
        run = crash.latest_run(order_id)
        if not run.attempts:
            crash.FAILURES[f"{WorkOrder.objects.get(pk=order_id).shown_id}/do"] = 1
        elif run.due_at > timezone.now():
            assert not advance(run.pk, budget=60), "before its time"
        crash.finish_order(order_id, ben)
        assert tried_again(order_id) == 1
        assert Run.objects.filter(work_order=order_id).count() == 1
        return order_id

    assert every_death(make, crash.advance_order, settle, told=but_receipts) > 5


def tried_again(order_id):
    """How often the log says that the step is tried again later."""
    return sum("again in" in line for line in log_lines(WorkOrder.objects.get(pk=order_id)))


def charges(order_id):
    runs_of = {run.shown_id for run in Run.objects.filter(work_order=order_id)}
    return {key: count for key, count in crash.CHARGES.items() if key.split("/")[0] in runs_of}


def but_receipts(order_id):
    """Whether the first or the second receipt was recorded depends on the moment of a death;
    nothing else does.
    """
    story = crash.story(order_id)
    story["state"].pop("receipt", None)
    return story


def test_what_was_recorded_before_a_death_is_not_done_again_and_what_was_not_is(order_of, ben):
    """P4: `context.once` loses its result only where the worker dies between the call and its
    record.
    """
    seen = set()

    def make():
        return order_of("crash-charge").pk

    def settle(order_id):
        recorded = Memo.objects.filter(thread__work_order=order_id).exists()
        before = sum(charges(order_id).values())
        crash.finish_order(order_id, ben)
        [(key, after)] = charges(order_id).items()
        assert after == (before if recorded else before + 1)
        [memo] = Memo.objects.filter(thread__work_order=order_id)
        assert (memo.scope, memo.value) == (
            key,
            [state_of(WorkOrder.objects.get(pk=order_id))["receipt"]],
        )
        assert crash.EFFECTS[key] >= 1
        seen.add((recorded, before))
        return order_id

    assert every_death(make, crash.advance_order, settle, told=but_receipts) > 5
    assert seen == {(False, 0), (False, 1), (True, 1)}


def test_a_worker_may_die_at_a_step_that_is_passed_over(order_of, ben):
    """P4: the step is passed over all the same, and told of as passed over once."""

    def make():
        return order_of("crash-skip").pk

    def settle(order_id):
        crash.finish_order(order_id, ben)
        order = WorkOrder.objects.get(pk=order_id)
        told = [
            event.data
            for event in Event.objects.filter(
                thread=order.thread_id, kind="step_completed"
            ).order_by("seq")
        ]
        assert [(one["step"], one.get("skipped", False)) for one in told] == [
            ("draft", False),
            ("do", True),
            ("finish", False),
        ]
        assert not [key for key in crash.EFFECTS if "/do/" in key]
        return order_id

    assert every_death(make, crash.advance_order, settle) > 5


@pytest.mark.usefixtures("file_database")
def test_a_worker_may_die_in_a_step_with_a_time_limit(order_of, ben):
    """P3, P4: the step works in a thread of its own, which dies with its process."""

    def make():
        return order_of("crash-timed").pk

    def settle(order_id):
        crash.finish_order(order_id, ben)
        return order_id

    assert every_death(make, crash.advance_order, settle) > 5


@pytest.mark.usefixtures("file_database")
def test_a_worker_may_die_while_a_step_runs_out_of_time(order_of, ben):
    """P3, F29: the run fails as timed out, once, and a person may retry it."""

    def make():
        order = order_of("crash-slow")
        crash.FAILURES[f"{order.shown_id}/do"] = 1
        return order.pk

    def settle(order_id):
        fail_once_more(ben, order_id)
        assert list(
            Run.objects.filter(work_order=order_id)
            .order_by("id")
            .values_list("failure_code", flat=True)
        ) == ["timeout", ""]
        return order_id

    assert every_death(make, crash.advance_order, settle) > 5


@pytest.mark.parametrize(
    "attempts", [pytest.param(5, marks=HANDFUL), 1], ids=["given back", "incident"]
)
def test_a_sweep_may_die_too(order_of, ben, settings, attempts):
    """F11, F12: the next one does the rest."""

    def make():
        settings.WAYSTATION_LOST_ATTEMPTS = attempts
        order = order_of()
        assert lost_worker.claim(order.latest_run_id, now=timezone.now())
        crash.expire_leases()
        return order.pk

    def sweep(_):
        lost_runs.take_back(now=timezone.now())

    def settle(order_id):
        sweep(order_id)
        settings.WAYSTATION_LOST_ATTEMPTS = 5
        crash.finish_order(order_id, ben)
        return order_id

    every_death(make, sweep, settle)


CHILD = """
import sys, django
django.setup()
from tests.killed import moments as crash
from tests.worlds.scripted_step import state_of
crash.die_in_turn(sys.argv[1], sys.argv[2:])
"""


@pytest.mark.parametrize("operation", [pytest.param("advance", marks=HANDFUL), "approve"])
@pytest.mark.usefixtures("file_database")
def test_a_real_process_may_end_at_any_moment(order_of, ben, operation):
    """P3, P4: as above with processes that are gone from one statement to the next, and whose
    connection just breaks.
    """
    if operation == "approve":
        asked = order_of()
        crash.work_off()
        # the first answer opens its ledger, which the others find there
        crash.approve_order(asked.pk)
    first = order_of()
    if operation == "approve":
        crash.work_off()
    with crash.killing() as moments:
        crash.OPERATIONS[operation](first.pk)
    orders = [order_of() for _ in range(moments.count + 1)]
    if operation == "approve":
        crash.work_off()
    environment = crash.child_environment(DJANGO_SETTINGS_MODULE="project.settings")
    arguments = ["-c", CHILD, operation, *(str(order.pk) for order in orders)]
    child = Begun(*arguments, environment=environment).ended()
    codes = [int(code) for code in child.stdout.split()]
    assert codes == [9] * moments.count + [0], (codes, child.stderr)
    if operation == "approve":
        for order in orders:
            crash.insist(partial(crash.approve_order, order.pk))
    crash.work_off()
    crash.EFFECTS.clear()  # those of the children are gone with them
    expected = crash.story(first.pk) if operation == "advance" else crash.story(orders[-1].pk)
    assert all(crash.story(order.pk) == expected for order in orders)
    crash.check_ledgers()
