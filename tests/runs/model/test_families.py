"""Families of runs made at random, worked on in any order, against what a plain walk over the same
tree says.
"""

from __future__ import annotations

import itertools
import logging
import random
from collections import Counter
from dataclasses import dataclass

import pytest
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import store
from hitl.decisions import notifications, services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import definitions
from runs import services as runs
from runs.engine.advance import advance
from runs.engine.recovery import lost_runs
from runs.models import Pause, Run, WorkOrder
from runs.workflows.base import Context, Go, Outcome, State, StepFailed
from runs.workflows.registry import step
from tests.killed import moments
from tests.runs.model.speed import QUICK
from tests.worlds import lost_worker
from tests.worlds.histories.whole_story import broken

pytestmark = pytest.mark.django_db

FAILS: Counter[str] = Counter()
"""Step name → how often it still fails."""


@step("family.leaf")
def leaf(state: State, context: Context) -> Outcome:
    """Says its name as often as its configuration tells, once in each loop."""
    if FAILS[context.step]:
        FAILS[context.step] -= 1
        raise StepFailed("Not yet.", code="not_yet")
    rounds = f"rounds {context.step}"
    done = state.get(rounds, 0) + 1
    again = done < int(str(context.config["loops"]))
    return Go(
        update={"said": [context.step], rounds: done, "count": 1},
        to=context.step if again else None,
    )


@dataclass(frozen=True)
class Leaf:
    loops: int
    asks: bool
    failures: int


@dataclass(frozen=True)
class Group:
    parallel: bool
    members: tuple[Leaf | Group, ...]


LEAVES = st.builds(Leaf, loops=st.integers(1, 2), asks=st.booleans(), failures=st.integers(0, 1))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        Group, parallel=st.booleans(), members=st.lists(inner, min_size=1, max_size=3).map(tuple)
    ),
    max_leaves=5,
)


class Planted:
    """The templates of a tree, and what is to come of it."""

    def __init__(self, trees: list[Leaf | Group]) -> None:
        self.said: list[str] = []
        self.asks: list[str] = []
        self.failures = 0
        self._numbers = itertools.count(1)
        self.steps = [self._step(tree) for tree in trees]

    def _step(self, tree: Leaf | Group) -> dict[str, object]:
        number = next(self._numbers)
        if isinstance(tree, Leaf):
            name = f"leaf {number}"
            self.said += [name] * tree.loops
            self.failures += tree.failures
            FAILS[name] = tree.failures
            slug = f"leaf-{tree.loops}"
            definitions.edit_step_template(
                slug, title="Leaf", function="family.leaf", config={"loops": tree.loops}
            )
            asking = {"pause_after": True, "pause_phase": "asking"} if tree.asks else {}
            self.asks += [name] if tree.asks else []
            return {"step_type": "execute", "name": name, "step_template_slug": slug, **asking}
        slug = f"group-{number}"
        members = [self._step(member) for member in tree.members]
        definitions.edit_step_template(
            slug, title="Group", config={"parallel": tree.parallel}, sub_steps=members
        )
        return {"step_type": "execute", "name": f"group {number}", "step_template_slug": slug}


def test_random_families_join_as_a_walk_over_their_tree_says(templates, ana, caplog):
    """P3, P4, P5, S4-5: nested and parallel, asked about, failing, retried, with workers lost,
    whoever works first.
    """
    caplog.set_level(logging.CRITICAL)

    @settings(QUICK, max_examples=15)
    @given(
        trees=st.lists(TREES, min_size=1, max_size=2),
        seed=st.integers(0, 999),
        budget=st.sampled_from([0, 60]),
    )
    def check(trees, seed, budget):
        FAILS.clear()
        planted = Planted(trees)
        reducers = {"said": "append", "count": "add"}
        definitions.edit_template(
            "tree", title="Tree", needs_repository=False, steps=planted.steps, reducers=reducers
        )
        order = play(runs.submit("tree", by=ana), ana, random.Random(seed), budget)
        assert order.thread.head is not None
        state = store.load(order.thread.head)
        assert state["said"] == planted.said
        assert state["count"] == len(planted.said)
        assert set(state["decided"]) == set(planted.asks)
        assert not Run.objects.live().filter(work_order=order).exists()
        # as the sweep does: on a slow machine these questions are older than it may leave them
        while notifications.announce():
            pass
        assert broken(deep=False) == {}

    check()


def play(order: WorkOrder, person, chance, budget: int) -> WorkOrder:
    """Until the order is complete: a run that is due is taken by a worker or lost with one, a
    question answered, a failure retried.
    """
    lost = 3
    for _ in range(400):
        due = list(
            Run.objects.filter(work_order=order, status="pending", due_at__lte=timezone.now())
            .order_by("pk")
            .values_list("pk", flat=True)
        )
        pauses = list(Pause.objects.open().filter(run__work_order=order).order_by("id"))
        if due and (not pauses or chance.random() < 0.7):
            run_id = chance.choice(due)
            if lost and chance.random() < 0.2:
                lost -= 1
                assert lost_worker.claim(run_id, now=timezone.now())
                moments.expire_leases()
                lost_runs.take_back(now=timezone.now())
            else:
                advance(run_id, budget=budget)
        elif pauses:
            services.decide(chance.choice(pauses).pk, Answer("approve", Via.REST), by=person)
        else:
            order = WorkOrder.objects.shown().get(pk=order.pk)
            if order.status == "completed":
                return order
            assert order.status == "failed", order.status
            runs.retry(order.pk, by=person)
    raise AssertionError("the family does not end")
