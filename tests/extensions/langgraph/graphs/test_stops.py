"""`interrupt_before` of a node within the graph of a step: the run asks there, and goes on."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import translation
from langgraph_sdk.errors import APIStatusError

from hitl.models import Decision
from hitl.rendering.own_words import own_content
from runs.definitions import pictures
from runs.models import Pause, Run
from tests.databases.whole import file_database
from tests.doors.langgraph import sdk_of
from tests.extensions.langgraph.graphs.graphs import EFFECTS
from tests.extensions.langgraph.graphs.ordered import named, template
from tests.worlds.histories.whole_story import broken
from tests.worlds.talking_threads import drive

__all__ = ["file_database"]
pytestmark = pytest.mark.django_db(transaction=True)
APPROVE: Any = {"resume": {"decision": "approve"}}


@pytest.fixture
def sdk(file_database, settings, templates, ana) -> Any:
    """Threads run the graph a → b."""
    EFFECTS.clear()
    settings.WAYSTATION_GRAPHS = named("straight")
    template("straight", input={"topic": "/topic"}, output=["log"])
    pictures.look_at_start()
    return sdk_of(ana)


def begun(sdk: Any, **more: Any) -> str:
    key = str(sdk.threads.create()["thread_id"])
    run = sdk.runs.create(key, "graph", input={"topic": "tea"}, **more)
    drive(Run.objects.get(pk=run["run_id"]))
    return key


@pytest.mark.both_databases
def test_a_run_asks_after_the_node_also_where_it_is_the_last(sdk):
    key = begun(sdk, interrupt_after=["work:a", "b"])
    for done, node in enumerate("ab", 1):
        pause = Pause.objects.open().get()
        assert pause.question == f"Waiting after {node} in Graph"
        assert pause.content == f"The graph stops here after **{node}**. Approve to let it go on."
        assert sum(EFFECTS.values()) == done
        sdk.runs.create(key, "graph", command=APPROVE)
        drive(pause.run)
    assert sdk.threads.get(key)["values"]["log"] == ["a: tea", "b: tea"]
    assert EFFECTS == {"a": 1, "b": 1}
    assert Run.objects.get().status == "completed"
    assert "approved" not in Run.objects.get().thread.head.metadata
    assert not broken()


def test_after_one_node_and_before_the_next_is_one_stop(sdk):
    key = begun(sdk, interrupt_after="a", interrupt_before="b")
    sdk.runs.create(key, "graph", command=APPROVE)
    drive(Pause.objects.get().run)
    assert Run.objects.get().status == "completed"


@pytest.mark.both_databases
def test_a_run_asks_before_the_node_and_goes_on_when_it_is_let(sdk):
    key = begun(sdk, interrupt_before=["work/a", "b"])
    for done, node in enumerate("ab"):
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
    [{"interrupt_before": "c"}, {"interrupt_before": "work:c"}, {"interrupt_after": "c"},
     {"interrupt_before": ["b", "work:c"]}],
)  # fmt: skip
def test_a_node_that_is_none_is_refused(sdk, stops):
    with pytest.raises(APIStatusError, match="has no step"):
        begun(sdk, **stops)
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("stops", "words"),
    [({"interrupt_before": "b"}, "Der Graph hält hier vor <strong>b</strong> an."),
     ({"interrupt_after": "work:b"}, "Der Graph hält hier nach <strong>b</strong> an."),
     ({"interrupt_before": "work"}, "hält hier an, bevor <strong>Graph</strong> beginnt."),
     ({"interrupt_after": "work"}, "<strong>Graph</strong> ist erledigt.")],
)  # fmt: skip
def test_a_stop_is_told_in_the_readers_language_and_kept_in_english(sdk, page, stops, words):
    begun(sdk, **stops)
    pause = Pause.objects.open().get()
    shown = page.get(f"/threads/{pause.run.thread.shown_id}/", headers={"accept-language": "de"})
    assert words in shown.content.decode()
    assert "Approve to let it" in pause.content or "Approve to go on" in pause.content
    pause.phase = "planning"  # what an author wrote stays as it is
    with translation.override("de"):
        assert own_content(pause) == pause.content
