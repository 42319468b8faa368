"""Deaths within a transaction leave the same behind as those on either side of its commit.

So it is enough to go through the latter, and through what is done outside.
"""

from __future__ import annotations

from typing import Any

import pytest

from checkpoints.models import Blob, Checkpoint, Event, Memo
from hitl.models import Decision, Vote
from runs.models import Pause, QueuedTurn, Run
from tests.killed import moments as crash

pytestmark = pytest.mark.django_db(transaction=True)

COUNTED = (Run, Pause, Checkpoint, Blob, Event, Memo, Decision, Vote, QueuedTurn)


def counted() -> dict[str, int]:
    return {model.__name__: model._default_manager.count() for model in COUNTED}


@pytest.mark.parametrize(
    ("template", "operation", "least"),
    [("crash-charge", "advance", 6), ("crash", "approve", 2)],
)
def test_a_death_at_any_statement_leaves_what_one_beside_a_commit_leaves(
    templates: None, ana: Any, ben: Any, team: Any, template: str, operation: str, least: int
) -> None:
    """P3: also where a person does something, and where a step does something outside."""
    crash.load()
    crash.finish_order(crash.make("crash", by=ana, team=team).pk, ben)  # opens the team's ledger

    def left(*, statements: bool) -> tuple[set[str], int]:
        found: set[str] = set()
        moment, alive = 0, False
        while not alive:
            moment += 1
            order = crash.make(template, by=ana, team=team)
            if operation == "approve":
                crash.work_off()
            before, outside = counted(), crash.outside()
            with crash.killing(moment, statements=statements) as moments:
                crash.OPERATIONS[operation](order.pk)
            alive = not moments.dead
            made = {label: count - before[label] for label, count in counted().items()}
            run = Run.objects.values_list("status", "attempts", "epoch").get(work_order=order)
            done = [now - then for now, then in zip(crash.outside(), outside, strict=True)]
            found.add(repr((run, done, {name: more for name, more in made.items() if more})))
        return found, moment

    every, many = left(statements=True)
    distinct, few = left(statements=False)
    assert distinct == every
    assert least <= len(every) <= few < many / 2
