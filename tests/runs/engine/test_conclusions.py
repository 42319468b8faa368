"""How work ended, in a sentence of its workflow's, beside `completed`."""

from __future__ import annotations

import pytest

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs.workflows.base import Done, Go
from tests.conftest import drive, pause_of
from tests.worlds.scripted_step import order_that as order_that

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


def ended(order):
    """What lists show of it, and what its last event says."""
    order = drive(order)
    event = order.thread.events.get(kind="run_completed").data
    return order.outputs.get("conclusion"), event


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Nothing to do", "Nothing to do"),
        (" x" * 300, ("x " * 100).strip()),
        ("a\x00b", "a\ufffdb"),
        ({"not": "words"}, None),
        ("  ", None),
        (None, None),
    ],
)
def test_a_conclusion_is_told_in_lists_and_in_the_last_event(order_that, said, shown):
    told = {} if shown is None else {"conclusion": shown}
    order = order_that(lambda state, context: Done(update={"conclusion": said}))
    assert ended(order) == (shown, {"status": "success", **told})


def test_what_a_step_on_the_way_calls_a_conclusion_is_none(order_that):
    """It is of the step that ends the work, so that nothing of an earlier run is told."""
    order = order_that(lambda state, context: Go(update={"conclusion": "half way"}))
    assert ended(order) == (None, {"status": "success"})


def test_a_conclusion_waits_for_the_review_behind_its_step(order_that, ana):
    done = Done(update={"conclusion": "Nothing to do"})
    order = drive(order_that(lambda state, context: done, pause_after=True, pause_phase="review"))
    assert order.status == "paused"
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    assert ended(order)[0] == "Nothing to do"
