"""A process dies on either side of every commit of what parents and children do.

The family ends as an undisturbed one, nothing doubled.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from checkpoints import store
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import definitions
from runs import services as runs
from runs.engine.advance import advance
from runs.models import Pause, Run, WorkOrder
from runs.states import ENDED
from runs.workflows.base import Child, Context, Gather, Outcome, State
from runs.workflows.registry import step
from tests.conftest import fresh
from tests.killed import moments
from tests.runs.accidents.deaths import every_death as each_death

# what is asked of each database, test_crash_points asks
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

ASKING = {"pause_after": True, "pause_phase": "asking"}


@step("crash.in_turn")
def in_turn(state: State, context: Context) -> Outcome:
    """Three child runs, of which one is under way at a time."""
    steps = {"one": "one", "two": "two", "three": "one"}
    children = [Child(name=name, steps=[step]) for name, step in steps.items()]
    return Gather(children=children, at_once=1, into="parts")


@pytest.fixture
def family(templates, ana, team):
    """`family(fails=…, asks=…)`: an order whose second step gathers the children `one` and
    `two`.
    """
    moments.load()

    def make(*, fails: bool = False, asks: bool = False, in_turn: bool = False) -> WorkOrder:
        one = {
            "step_type": "execute",
            "name": "one",
            "step_template_slug": "model-work",
            **(ASKING if asks else {}),
        }
        two = {"step_type": "execute", "name": "two", "step_template_slug": "model-fail"}
        slug = f"family-{'fails' if fails else 'works'}-{'asks' if asks else 'goes'}"
        slug += "-in-turn" if in_turn else ""
        definitions.edit_step_template(
            slug,
            title="Crew",
            function="crash.in_turn" if in_turn else "",
            config={} if in_turn else {"parallel": True, "into": "parts"},
            sub_steps=[one, two],
        )
        crew = {"step_type": "execute", "name": "crew", "step_template_slug": slug}
        finish = {"step_type": "deliver", "name": "finish", "step_template_slug": "model-end"}
        definitions.edit_template(slug, title=slug, needs_repository=False, steps=[crew, finish])
        order = moments.make(slug, by=ana, team=team)
        moments.FAILURES[f"{order.shown_id}/two"] = 10**6 if fails else 0
        return order

    return make


def gathered(order: WorkOrder) -> WorkOrder:
    advance(order.latest_run.pk, budget=60)
    return fresh(order)


def kid(order: WorkOrder, name: str) -> Run:
    return Run.objects.filter(work_order=order, child_name=name).latest("created_at")


def settled(order: WorkOrder, by, *, mend: bool = False) -> WorkOrder:
    """Workers work and a person approves until the order ends; with `mend` a failed one is retried
    once its cause is gone.
    """
    for _ in range(20):
        moments.work_off()
        for pause in Pause.objects.open().filter(run__work_order=order):
            services.decide(pause.pk, Answer("approve", Via.REST), by=by)
        order = fresh(order)
        if mend and order.latest_run.status == "failed":
            moments.FAILURES[f"{order.shown_id}/two"] = 0
            runs.retry(order.pk, by=by)
        elif not Run.objects.live().filter(work_order=order).exists():
            return fresh(order)
    raise AssertionError("the family does not end")


def story(order: WorkOrder) -> dict[str, Any]:
    """What a person could tell about the family, without ids."""
    names = {
        run.shown_id: run.child_name or "parent" for run in Run.objects.filter(work_order=order)
    }
    head = order.thread.head
    assert head is not None
    state = store.load(head)
    results = [
        key for part in state.get("parts", {}).values() for key in part["results"]
    ] + state.get("results", [])
    assert len(results) == len(set(results))
    crash_effects = [key for key in moments.EFFECTS if key.split("/")[0] in names]
    for run in Run.objects.filter(work_order=order):
        if run.status in ENDED:
            assert not Pause.objects.open().filter(run=run).exists()
    return {
        "runs": sorted(
            Run.objects.filter(work_order=order).values_list(
                "child_name", "status", "failure_code", "error", "awaited"
            )
        ),
        "results": [f"{names[key.split('/')[0]]}/{key.split('/', 1)[1]}" for key in results],
        "gathered": {name: one["status"] for name, one in state.get("gathered", {}).items()},
        "effects": sorted(
            f"{names[key.split('/')[0]]}/{key.split('/', 1)[1]}" for key in crash_effects
        ),
        "events": moments.facts(order.thread_id),
        "questions": sorted(
            Pause.objects.filter(run__work_order=order).values_list("step", "status")
        ),
    }


every_death = partial(each_death, told=story)


def test_children_are_started_all_or_none(family, ben):
    """P3, P4: the gather's commit holds parent, threads, runs, checkpoints and events of all
    children.
    """
    every_death(
        family,
        lambda order: advance(order.latest_run.pk, budget=60),
        lambda order: settled(order, ben),
    )


@pytest.mark.parametrize("fails", [False, True], ids=["completes", "fails"])
def test_a_child_ends_and_is_counted_or_neither(family, ben, fails):
    """P3, P4: its end and its parent's count are one commit."""

    def make():
        return gathered(family(fails=fails))

    every_death(
        make,
        lambda order: advance(kid(order, "two").pk, budget=60),
        lambda order: settled(order, ben),
    )


def test_a_join_is_whole_or_done_again(family, ben):
    """P4."""

    def make():
        order = gathered(family())
        for name in ("one", "two"):
            advance(kid(order, name).pk, budget=60)
        return order

    every_death(
        make,
        lambda order: advance(order.latest_run.pk, budget=60),
        lambda order: settled(order, ben),
    )


def test_the_first_failure_ends_the_whole_family_or_nobody(family, ben):
    """F23: the parent's failure, the end of the child that asks, and its question's closing are one
    commit.
    """

    def make():
        order = gathered(family(fails=True, asks=True))
        for name in ("one", "two"):
            advance(kid(order, name).pk, budget=60)
        return order

    every_death(
        make,
        lambda order: advance(order.latest_run.pk, budget=60),
        lambda order: settled(order, ben),
    )


def test_a_family_is_cancelled_as_a_whole_or_not_at_all(family, ben):
    """F23, P6."""

    def make():
        order = gathered(family(asks=True))
        advance(kid(order, "one").pk, budget=60)
        return order

    def cancel(order):
        services.cancel_order(order.pk, by=ben, via=Via.REST)

    def settle(order):
        moments.insist(partial(cancel, order))
        return settled(order, ben)

    every_death(make, cancel, settle)


@pytest.mark.parametrize("action", ["approve", "cancel"])
def test_a_childs_question_is_answered_as_a_whole_or_not_at_all(family, ben, action):
    """P1, P2, P3."""

    def make():
        order = gathered(family(asks=True))
        for name in ("one", "two"):
            advance(kid(order, name).pk, budget=60)
        return order

    def answer(order):
        pause = Pause.objects.filter(run__work_order=order).earliest("id")
        services.decide(pause.pk, Answer(action, Via.REST), by=ben)

    def settle(order):
        moments.insist(partial(answer, order))
        return settled(order, ben)

    every_death(make, answer, settle)


def test_children_are_taken_up_again_as_a_whole_or_not_at_all(family, ben):
    """P5: after a retry the child that had completed does not run again, whenever the worker
    dies.
    """

    def make():
        order = settled(family(fails=True), ben)
        moments.FAILURES[f"{order.shown_id}/two"] = 0
        runs.retry(order.pk, by=ben)
        return fresh(order)

    every_death(
        make,
        lambda order: advance(order.latest_run.pk, budget=60),
        lambda order: settled(order, ben),
    )


def test_children_in_turn_begin_with_their_first_or_not_at_all(family, ben):
    """The gather is a commit, and the start of its first children another: who dies between them
    leaves a parent that the sweep starts them for.
    """
    every_death(
        partial(family, in_turn=True),
        lambda order: advance(order.latest_run.pk, budget=60),
        lambda order: settled(order, ben),
    )


@pytest.mark.parametrize("fails", [False, True], ids=["completes", "fails"])
def test_the_next_child_starts_once_whenever_the_worker_dies(family, ben, fails):
    """Between the end of a child and the start of the next, between that start and its being
    counted, and behind both.
    """

    def make():
        order = gathered(family(in_turn=True, fails=fails))
        if fails:
            advance(kid(order, "one").pk, budget=60)
        return order

    every_death(
        make,
        lambda order: advance(kid(order, "two" if fails else "one").pk, budget=60),
        lambda order: settled(order, ben),
    )


def test_children_in_turn_are_taken_up_again_as_a_whole_or_not_at_all(family, ben):
    """After a retry each of them that had not completed goes on, or begins, once."""

    def make():
        order = settled(family(in_turn=True, fails=True), ben)
        moments.FAILURES[f"{order.shown_id}/two"] = 0
        runs.retry(order.pk, by=ben)
        return fresh(order)

    every_death(
        make,
        lambda order: advance(order.latest_run.pk, budget=60),
        lambda order: settled(order, ben),
    )


def test_children_in_turn_are_cancelled_as_a_whole_whoever_starts_the_next(family, ben):
    def cancel(order):
        services.cancel_order(order.pk, by=ben, via=Via.REST)

    def settle(order):
        moments.insist(partial(cancel, order))
        return settled(order, ben)

    every_death(lambda: gathered(family(in_turn=True, asks=True)), cancel, settle)
