"""An order whose one step does what the test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import definitions
from runs.models import WorkOrder
from runs.workflows.base import Context, Outcome, State, step

Function = Callable[[State, Context], Any]
DOES: dict[str, Function] = {}


@step("test.anything")
def anything(state: State, context: Context) -> Outcome:
    return DOES["step"](state, context)  # type: ignore[no-any-return]  # also to answer nonsense


@pytest.fixture
def order_that(make_order: Callable[..., WorkOrder]) -> Callable[[Function], WorkOrder]:
    """`order_that(function)`: plans, pauses nowhere, calls `function` as its second step, finishes."""

    def make(function: Function) -> WorkOrder:
        DOES["step"] = function
        definitions.edit_step_template("test-anything", title="Anything", function="test.anything", config={})
        steps = [
            {"step_type": "planning", "step_template_slug": "test-plan"},
            {"step_type": "execute", "step_template_slug": "test-anything"},
            {"step_type": "deliver", "name": "finish", "step_template_slug": "test-finish"},
        ]
        definitions.edit_template("anything", steps=steps, title="Anything", needs_repository=False)
        return make_order("anything")

    return make
