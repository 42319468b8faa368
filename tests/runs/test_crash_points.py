"""A process dies at every statement and commit of every operation, one moment after the other. What comes of it is always the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from hitl import services
from hitl.models import Via
from runs import services as runs
from runs.engine import lease, recovery
from runs.models import Pause, WorkOrder
from tests import crash
from tests.databases import file_database as file_database
from tests.stack import ROOT

pytestmark = pytest.mark.django_db(transaction=True)


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


def every_death(make: Callable[[], Any], operation: Callable[[Any], object], settle: Callable[[Any], UUID]) -> int:
    """Do an operation on an order of its own with a death at moment 1, 2, 3 … until it gets through.

    Args:
        make: an order that stands right before the operation.
        settle: what people and machines do afterwards, until the order ends.
    Returns:
        How many moments there were. The end is compared with the one of an operation that nobody disturbed.
    """
    undisturbed = make()
    operation(undisturbed)
    expected = crash.story(settle(undisturbed))
    moment = 0
    while True:
        moment += 1
        order = make()
        with crash.killing(moment) as moments:
            operation(order)
        assert crash.story(settle(order)) == expected, f"after a death at moment {moment}"
        if not moments.dead:
            crash.check_ledgers()
            return moment - 1


def test_a_death_while_an_order_is_made_leaves_a_whole_order_or_none(crash_templates, ana, ben, team):
    """P2, P3: a person who saw no answer looks at the list, and asks again where the order is not there."""
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

    assert every_death(make, submit, settle) > 10


@pytest.mark.parametrize(
    ("template", "answers"),
    [("crash", []), ("crash", ["approve"]), ("crash-failing", [])],
    ids=["claim-begin-log-ask", "claim-begin-log-go-done", "claim-begin-failed"],
)
def test_a_worker_may_die_at_any_moment(order_of, ben, template, answers):
    """P3, P4: claim, begin, a log line of a step, and each way to record what a step answered."""

    def make():
        order = order_of(template)
        for action in answers:
            crash.work_off()
            services.answer_order(order.pk, action=action, by=ben, via=Via.REST)
        return order.pk

    def settle(order_id):
        crash.finish_order(order_id, ben)
        return order_id

    # a worker that died in a step that fails has used up its failure, and the next one gets through: let each attempt fail alike
    if template == "crash-failing":
        settle = partial(fail_once_more, ben)
    assert every_death(make, crash.advance_order, settle) > 10


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


@pytest.mark.parametrize("action", ["approve", "revise", "cancel"])
def test_an_answer_is_taken_as_a_whole_or_not_at_all(order_of, ben, action):
    """P1, P2, P3: a death while it is recorded; the person who saw no acknowledgement answers again."""

    def make():
        order = order_of()
        crash.work_off()
        return order.pk

    def answer(order_id):
        pause = Pause.objects.filter(run__work_order=order_id).earliest("id")
        services.decide(pause.pk, action=action, by=ben, via=Via.REST, feedback="shorter", revision=1)

    def settle(order_id):
        crash.insist(partial(answer, order_id))
        crash.finish_order(order_id, ben)
        return order_id

    assert every_death(make, answer, settle) > 10


@pytest.mark.parametrize("claimed", [False, True], ids=["pending", "running"])
def test_an_order_is_cancelled_as_a_whole_or_not_at_all(order_of, ben, claimed):
    """P3, P6: also while a worker has it."""

    def make():
        order = order_of()
        if claimed:
            assert lease.claim(order.latest_run_id, now=timezone.now())
        return order.pk

    def cancel(order_id):
        services.cancel_order(order_id, by=ben, via=Via.REST)

    def settle(order_id):
        crash.insist(partial(cancel, order_id))
        crash.finish_order(order_id, ben)
        return order_id

    assert every_death(make, cancel, settle) > 10


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

    assert every_death(make, retry, settle) > 10


@pytest.mark.parametrize("attempts", [5, 1], ids=["given back", "incident"])
def test_a_sweep_may_die_too(order_of, ben, settings, attempts):
    """F11: the next one does the rest."""

    def make():
        settings.WAYSTATION_LOST_ATTEMPTS = attempts
        order = order_of()
        assert lease.claim(order.latest_run_id, now=timezone.now())
        crash.expire_leases()
        return order.pk

    def sweep(_):
        recovery.take_back(now=timezone.now())

    def settle(order_id):
        sweep(order_id)
        settings.WAYSTATION_LOST_ATTEMPTS = 5
        crash.finish_order(order_id, ben)
        return order_id

    assert every_death(make, sweep, settle) > 5


CHILD = """
import sys, django
django.setup()
from tests import crash
crash.die_in_turn(sys.argv[1], sys.argv[2:])
"""


@pytest.mark.parametrize("operation", ["advance", "approve"])
@pytest.mark.usefixtures("file_database")
def test_a_real_process_may_end_at_any_moment(order_of, ben, operation):
    """P3, P4: as above with processes that are gone from one statement to the next, and whose connection just breaks."""
    first = order_of()
    if operation == "approve":
        crash.work_off()
    with crash.killing() as moments:
        crash.OPERATIONS[operation](first.pk)
    orders = [order_of() for _ in range(moments.count + 1)]
    if operation == "approve":
        crash.work_off()
    environment = crash.child_environment(DJANGO_SETTINGS_MODULE="project.settings")
    arguments = [sys.executable, "-c", CHILD, operation, *(str(order.pk) for order in orders)]
    child = subprocess.run(arguments, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
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
