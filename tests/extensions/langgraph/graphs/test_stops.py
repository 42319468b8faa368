"""`interrupt_before` of a node within the graph of a step: the run asks there, and goes on."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph_sdk.errors import APIStatusError

from hitl.models import Decision
from runs import definitions
from runs.definitions import pictures
from runs.models import Pause, Run
from tests.databases.whole import file_database
from tests.doors.langgraph import sdk_of
from tests.extensions.langgraph.graphs.graphs import EFFECTS
from tests.worlds.histories.whole_story import broken
from tests.worlds.talking_threads import drive

__all__ = ["file_database"]
pytestmark = pytest.mark.django_db(transaction=True)
APPROVE: Any = {"resume": {"decision": "approve"}}


@pytest.fixture
def sdk(file_database, settings, templates, ana) -> Any:
    """Threads run the graph a → b."""
    EFFECTS.clear()
    settings.WAYSTATION_GRAPHS = {"straight": "tests.extensions.langgraph.graphs.graphs:straight"}
    config = {"graph": "straight", "input": {"topic": "/topic"}, "output": ["log"]}
    definitions.edit_step_template("graph", title="Graph", function="langgraph", config=config)
    listed = [{"step_type": "work", "step_template_slug": "graph"}]
    definitions.edit_template("graph", title="Graph", steps=listed, needs_repository=False)
    pictures.look_at_start()
    return sdk_of(ana)


def begun(sdk: Any, **more: Any) -> str:
    key = str(sdk.threads.create()["thread_id"])
    run = sdk.runs.create(key, "graph", input={"topic": "tea"}, **more)
    drive(Run.objects.get(pk=run["run_id"]))
    return key


@pytest.mark.both_databases
@pytest.mark.parametrize("named", ["b", "work:b", "work/b", ["work:a", "b"]])
def test_a_run_asks_before_the_node_and_goes_on_when_it_is_let(sdk, named):
    key = begun(sdk, interrupt_before=named)
    for done, node in ((0, "a"), (1, "b")) if isinstance(named, list) else ((1, "b"),):
        assert sdk.threads.get(key)["status"] == "interrupted"
        pause = Pause.objects.open().get()
        assert pause.question == f"Waiting before {node} in Graph"
        assert pause.content == f"The graph stops here before **{node}**. Approve to let it go on."
        assert sum(EFFECTS.values()) == done
        sdk.runs.create(key, "graph", command=APPROVE)
        drive(pause.run)
    assert sdk.threads.get(key)["values"]["log"] == ["a: tea", "b: tea"]
    assert EFFECTS == {"a": 1, "b": 1}
    assert Run.objects.get().status == "completed"
    # to be let on is no verdict on what the step came to
    assert set(Decision.objects.values_list("action", flat=True)) == {"approve"}
    assert "approved" not in Run.objects.get().thread.head.metadata
    assert not broken()


def test_without_it_the_same_graph_stops_nowhere(sdk):
    assert sdk.threads.get(begun(sdk))["status"] == "idle"
    assert not Pause.objects.exists()


@pytest.mark.parametrize(
    "stops",
    [{"interrupt_before": "c"}, {"interrupt_before": "work:c"}, {"interrupt_after": "b"},
     {"interrupt_before": ["b", "work:c"]}],
)  # fmt: skip
def test_a_node_that_is_none_is_refused(sdk, stops):
    with pytest.raises(APIStatusError, match="has no step"):
        begun(sdk, **stops)
    assert not Run.objects.exists()
