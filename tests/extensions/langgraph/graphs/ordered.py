"""Orders whose step is a graph of tests/extensions/langgraph/graphs/graphs.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from runs import definitions
from tests.databases.whole import file_database as file_database
from tests.extensions.langgraph.graphs.graphs import EFFECTS


def named(*names: str) -> dict[str, str]:
    """What WAYSTATION_GRAPHS has."""
    return {name: f"tests.extensions.langgraph.graphs.graphs:{name}" for name in names}


def template(
    graph: str,
    *behind: Mapping[str, Any],
    slug: str = "graph",
    step: Mapping[str, Any] = {},
    reducers: Mapping[str, str] = {},
    **config: Any,
) -> None:
    """A template whose first step runs this graph."""
    made = {"graph": graph, "input": {"topic": "/order/input/topic"}, **config}
    definitions.edit_step_template(slug, title="Graph", function="langgraph", config=made)
    steps = [{"step_type": "work", "step_template_slug": slug, **step}, *behind]
    definitions.edit_template(
        slug, title="Graph", steps=steps, reducers=reducers, needs_repository=False
    )


@pytest.fixture
def graph_order(file_database: None, settings: Any, make_order: Any) -> Any:
    """`graph_order("line")`: an order for that graph; what follows is its template's."""
    EFFECTS.clear()

    def make(name: str, *behind: Any, stops: Mapping[str, Any] = {}, **more: Any) -> Any:
        settings.WAYSTATION_GRAPHS = {**settings.WAYSTATION_GRAPHS, **named(name)}
        template(name, *behind, **{"output": ["log", "answers"], **more})
        return make_order("graph", input={"topic": "tea"}, **stops)

    return make
