"""A graph that a workflow's module registers, as it does with its steps."""

from __future__ import annotations

import pytest

from extensions.langgraph.graphs import named
from extensions.langgraph.graphs.drawing import GraphPicture
from extensions.langgraph.graphs.loading import load
from extensions.langgraph.graphs.step import faults
from tests.extensions.langgraph.graphs import graphs

GIVEN = {"input": {"topic": "/order/input/topic"}}


@pytest.fixture
def own(monkeypatch):
    """Registered for this test, under the name `own`."""
    monkeypatch.setattr(named, "_REGISTERED", {})
    return named.graph("own")(lambda: graphs.line)


def test_a_registered_graph_is_named_by_templates_and_loaded_where_it_runs(own):
    assert faults({"graph": "own", **GIVEN}) == {}
    assert load("own") is graphs.line
    problems = faults({"graph": "other", **GIVEN})["graph"][0]
    assert '"other" is no graph' in problems and problems.endswith("there is own.")


@pytest.mark.django_db
def test_its_picture_does_not_say_that_it_is_unknown(own):
    drawn = GraphPicture().drawn({"graph": "own"})
    assert "does not name" not in drawn.remark
    assert "does not name" in GraphPicture().drawn({"graph": "other"}).remark


def test_settings_go_before_the_code(own, settings):
    settings.WAYSTATION_GRAPHS = {"own": "tests.extensions.langgraph.graphs.graphs:missing"}
    assert named.registered("own") is None
    assert named.names() == ["own"]


def test_a_name_is_given_once(own):
    named.graph("own")(own)
    with pytest.raises(ValueError, match="two graphs are called 'own'"):
        named.graph("own")(lambda: None)
