"""An order whose one step does what the test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkpoints import store
from runs import definitions
from runs.models import WorkOrder
from runs.workflows.base import Context, Outcome, State, StepFailed
from runs.workflows.registry import step
from tests.conftest import fresh

Function = Callable[[State, Context], Any]
DOES: dict[str, Function] = {}


@step("test.anything")
def anything(state: State, context: Context) -> Outcome:
    return DOES["step"](state, context)  # type: ignore[no-any-return]  # also to answer nonsense


def fails_in_code(state: State, context: Context) -> Any:
    return state["missing"]


def fails_with_words(state: State, context: Context) -> Any:
    raise StepFailed("The bank is closed.", code="bank_closed")


def state_of(order: WorkOrder) -> State:
    """The state that a run of the order would go on from."""
    head = fresh(order).thread.head
    assert head is not None
    return store.load(head)


@pytest.fixture
def order_that(make_order: Callable[..., WorkOrder]) -> Callable[..., WorkOrder]:
    """`order_that(function)`: plans, pauses nowhere, calls `function` as its second step, finishes.

    Further keywords are that step's policies; `reducers` is the template's, `order` what the order
    is made with.
    """

    def make(
        function: Function,
        *,
        reducers: dict[str, str] | None = None,
        order: dict[str, Any] | None = None,
        **policy: Any,
    ) -> WorkOrder:
        DOES["step"] = function
        definitions.edit_step_template(
            "test-anything", title="Anything", function="test.anything", config={}
        )
        steps = [
            {"step_type": "planning", "step_template_slug": "test-plan"},
            {"step_type": "execute", "step_template_slug": "test-anything", **policy},
            {"step_type": "deliver", "name": "finish", "step_template_slug": "test-finish"},
        ]
        definitions.edit_template(
            "anything",
            steps=steps,
            title="Anything",
            needs_repository=False,
            reducers=reducers or {},
        )
        return make_order("anything", **(order or {}))

    return make
