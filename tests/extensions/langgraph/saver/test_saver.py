"""Graphs on DjangoSaver: they stop, are killed, go on elsewhere, go back in time; and their
checkpoints are Waystation's.
"""

from __future__ import annotations

import dataclasses
import enum
import operator
from itertools import pairwise
from pathlib import Path
from subprocess import CompletedProcess
from typing import Annotated, Any, TypedDict

import pytest
from django.contrib.auth.models import User
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from checkpoints import store
from checkpoints.models import Checkpoint, Thread
from checkpoints.models.graphs import (
    GraphBlob,
    GraphCheckpoint,
    GraphNamespace,
    GraphThread,
    GraphWrite,
)
from extensions.langgraph.saver import PayloadRefused, with_thread_id
from tests.databases.whole import file_database
from tests.extensions.langgraph.saver import conformance, graphs
from tests.extensions.langgraph.saver.saving import owner as owner
from tests.extensions.langgraph.saver.saving import saver as saver
from tests.killed.moments import child_environment
from tests.programs.begun import Begun

__all__ = ["file_database"]
ROOT = Path(__file__).resolve().parents[4]


def at(thread: str = "t", **more: Any) -> Any:
    return with_thread_id(thread, **more)


def in_a_process(*arguments: str, **told: str) -> CompletedProcess[str]:
    environment = child_environment(**told)
    return Begun("-m", graphs.__name__, *arguments, environment=environment).ended(within=120)


def test_all_nine_capabilities_are_detected_and_passed(owner, capsys):
    """S2-27: LangGraph's kit, not by its own word FULL but capability by capability."""
    results = conformance.run(owner)
    with capsys.disabled():
        assert conformance.report(results)


def test_the_report_counts_a_capability_that_is_not_detected(capsys):
    from langgraph.checkpoint.conformance.report import CapabilityResult

    good = CapabilityResult(detected=True, passed=True, tests_passed=1)
    results: dict[str, Any] = dict.fromkeys(conformance.CAPABILITIES, good) | {
        "prune": CapabilityResult(detected=False)
    }
    assert not conformance.report(results)
    assert "8/9" in capsys.readouterr().out


def steps_one_to_three(saver: Any) -> Any:
    graph = StateGraph(graphs.State)
    for before, name in pairwise((START, "step1", "step2", "step3")):
        graph.add_node(name, graphs.step(name))
        graph.add_edge(before, name)
    return graph.compile(checkpointer=saver)


def test_a_thread_id_and_the_new_input_are_all_that_a_turn_needs(saver):
    """S1-1, S1-6, S1-9, S1-12, S1-23: example 1.

    There was no helper for the config: each caller wrote `configurable` by hand.
    """
    graph = graphs.looping(saver, times=1)
    assert with_thread_id("conv-1") == {"configurable": {"thread_id": "conv-1"}}
    graph.invoke({"log": ["Hello"]}, with_thread_id("conv-1"))
    both = graph.invoke({"log": ["How are you?"]}, with_thread_id("conv-1"))["log"]
    assert [line.split(" x")[0] for line in both] == [
        "Hello",
        "message 1",
        "How are you?",
        "message 3",
    ]
    assert graph.invoke({"log": ["Hello"]}, with_thread_id("conv-2"))["log"][0] == "Hello", (
        "another thread knows nothing of it"
    )


def test_an_interrupted_thread_goes_on_at_its_next_step_with_nothing_but_its_id(saver):
    """S1-9, S1-12, S1-24: example 2. No step is named, and no config but the thread's."""
    graph = steps_one_to_three(saver)
    graph.invoke({"log": []}, with_thread_id("thread-1"), interrupt_after=["step2"])
    assert graph.get_state(with_thread_id("thread-1")).next == ("step3",)
    assert graph.invoke(None, with_thread_id("thread-1"))["log"] == ["step1", "step2", "step3"]


@pytest.mark.parametrize("name", ["interrupt_after", "interrupt_before", "resume_from"])
def test_what_a_config_cannot_say_is_refused_with_where_it_belongs(saver, name):
    """S1-24, S1-20: example 2 sets `config.InterruptAfter`; written so, the run went to its end
    without a stop.
    """
    graph = steps_one_to_three(saver)
    set_later: Any = {**with_thread_id("thread-1"), name: ["step2"]}
    by_hand: Any = {"configurable": {"thread_id": "thread-1", name: ["step2"]}}
    for config in (set_later, by_hand):
        with pytest.raises(ValueError, match=f"{name} has no effect in a config"):
            graph.invoke({"log": []}, config)
    with pytest.raises(ValueError, match=r"graph\.invoke|Command"):
        with_thread_id("thread-1", **{name: ["step2"]})
    assert graph.get_state(with_thread_id("thread-1")).values == {}, "nothing was run"


@pytest.mark.parametrize("missing", ["", None, " "])
def test_who_names_no_thread_goes_on_with_nobodys_state(saver, missing):
    """S1-8: all calls that had lost their thread's id shared one thread, each with what the others
    had said.
    """
    graph = graphs.looping(saver, times=1)
    by_hand: Any = {"configurable": {"thread_id": missing}}
    with pytest.raises(ValueError, match="names no thread, so nothing was run"):
        graph.invoke({"log": ["Hello"]}, by_hand)
    with pytest.raises(ValueError, match="names no thread"):
        with_thread_id(missing)
    assert not GraphThread.objects.exists()


def test_new_input_to_an_interrupted_graph_is_a_turn_and_its_state_may_be_updated_instead(saver):
    """S1-21, S1-25: as LangGraph has it, whose experience the document wants to match."""
    graph = steps_one_to_three(saver)
    for thread in ("a", "b"):
        graph.invoke({"log": []}, with_thread_id(thread), interrupt_after=["step2"])
    again = graph.invoke({"log": ["new"]}, with_thread_id("a"))["log"]
    assert again == ["step1", "step2", "new", "step1", "step2", "step3"]
    graph.update_state(with_thread_id("b"), {"log": ["new"]})
    assert graph.invoke(None, with_thread_id("b"))["log"] == ["step1", "step2", "new", "step3"]


def test_a_graph_killed_between_nodes_goes_on_in_another_process(saver, tmp_path):
    """S2-30, S2-32, S2-33: one process asks, one answers and is killed with -9 in node c, one goes
    on; what one asks elsewhere is seen and answered here.

    Each has an app object of its own.
    """
    effects = tmp_path / "effects"
    turns = ["begin", "yes/c", "", "begin@u"]
    done = in_a_process("line", "ana", "t", *turns, GRAPH_EFFECTS=str(effects))
    asked, first, killed, last, third, _, fourth = done.stdout.splitlines()
    assert "go on?" in asked, done.stderr
    ends = [first, killed, third, fourth]
    assert ends == [f"ended with {code}" for code in (0, -9, 0, 0)], done.stderr
    assert asked.split()[0] != last.split()[0], "the same process"
    assert "'log': ['in', 'a', 'b', 'c'], 'answers': ['yes']" in last
    assert effects.read_text().split() == ["a", "b", "c", "c", "a"], (
        "what was done before is not done again"
    )
    assert graphs.line(saver).get_state(at()).next == ()
    state = graphs.line(saver).get_state(at("u"))
    assert state.next == ("ask",)
    assert state.interrupts[0].value == {"question": "go on?", "so far": 2}
    assert graphs.line(saver).invoke(Command(resume="yes"), at("u"))["answers"] == ["yes"]


def test_parallel_questions_are_answered_one_by_one(saver):
    asked = graphs.parallel(saver).invoke({}, at())["__interrupt__"]
    assert sorted(one.value for one in asked) == ["x", "y", "z"]
    for left, one in zip((2, 1, 0), asked, strict=True):
        graph = graphs.parallel(saver)  # a new app object each time
        graph.invoke(Command(resume={one.id: f"answer {one.value}"}), at())
        assert len(graph.get_state(at()).interrupts) == left
    answers = graphs.parallel(saver).get_state(at()).values["answers"]
    assert answers == ["x: answer x", "y: answer y", "z: answer z"]


def test_a_sub_graph_asks_and_is_answered(saver):
    graph = graphs.nested(saver)
    graph.invoke({"log": []}, at())
    state = graph.get_state(at(), subgraphs=True)
    assert state.tasks[0].state.values["log"] == ["before", "inside"]
    assert graph.invoke(Command(resume="yes"), at())["answers"] == ["yes"]
    names = list(GraphNamespace.objects.order_by("name").values_list("name", flat=True))
    assert names[0] == "" and names[1].startswith("sub:")
    assert GraphThread.objects.count() == 1


async def test_a_graph_runs_and_resumes_in_an_event_loop(saver):
    graph = graphs.line(saver)
    await graph.ainvoke({"log": ["in"]}, at())
    assert (await graph.aget_state(at())).next == ("ask",)
    assert (await graph.ainvoke(Command(resume="yes"), at()))["log"] == ["in", "a", "b", "c"]
    assert len([state async for state in graph.aget_state_history(at())]) == 6


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_durability_ends_in_the_same_state(saver, durability):
    graph = graphs.line(saver)
    graph.invoke({"log": ["in"]}, at(), durability=durability)
    assert graph.invoke(Command(resume="yes"), at(), durability=durability)["log"] == [
        "in",
        "a",
        "b",
        "c",
    ]
    assert graph.get_state(at()).values == {"log": ["in", "a", "b", "c"], "answers": ["yes"]}


def test_history_is_whole_and_newest_first(saver):
    graph = graphs.looping(saver)
    graph.invoke({"log": ["in"]}, at())
    history = list(graph.get_state_history(at()))
    assert [len(state.values.get("log", [])) for state in history] == list(range(10, -1, -1))
    assert [state.values.get("log") for state in graph.get_state_history(at(), limit=2)] == [
        history[0].values["log"],
        history[1].values["log"],
    ]
    assert [
        state.metadata["step"]
        for state in graph.get_state_history(at(), filter={"source": "input"})
    ] == [-1]


def test_a_fork_leaves_the_old_branch_as_it_was(saver):
    """S2-31: an edited state is another child of the same checkpoint."""
    graph = graphs.line(saver)
    graph.invoke({"log": ["in"]}, at())
    graph.invoke(Command(resume="yes"), at())
    done = graph.get_state(at())
    asked = next(state for state in graph.get_state_history(at()) if state.next == ("ask",))
    fork = graph.update_state(asked.config, {"log": ["edited"]}, as_node="a")
    graph.invoke(None, fork)
    graph.invoke(Command(resume="no"), at())
    assert graph.get_state(at()).values == {
        "log": ["in", "a", "edited", "b", "c"],
        "answers": ["no"],
    }
    assert graph.get_state(done.config).values == {"log": ["in", "a", "b", "c"], "answers": ["yes"]}
    assert (
        Checkpoint.objects.get(
            pk=Checkpoint.objects.get(graph__key=asked.config["configurable"]["checkpoint_id"]).pk
        ).children.count()
        == 2
    )


def test_replaying_from_a_checkpoint_runs_only_what_comes_after_it(saver):
    graph = graphs.line(saver)
    graph.invoke({"log": ["in"]}, at())
    graph.invoke(Command(resume="yes"), at())
    before_c = next(state for state in graph.get_state_history(at()) if state.next == ("c",))
    assert graph.invoke(None, before_c.config)["log"] == ["in", "a", "b", "c"]


def test_a_graphs_checkpoints_are_the_threads_checkpoints(saver, owner):
    graph = graphs.line(saver)
    graph.invoke({"log": ["in"]}, at("conversation 7"))
    graph.invoke(Command(resume="yes"), at("conversation 7"))
    thread = Thread.objects.get(title="conversation 7")
    assert thread.owner == owner
    seen = [
        (each.node_id, each.next_step, each.status)
        for each in Checkpoint.objects.filter(thread=thread).order_by("pk")
    ]
    assert seen == [
        ("", "__start__", "active"),
        ("", "a", "active"),
        ("a", "ask", "pending_input"),
        ("ask", "b", "active"),
        ("b", "c", "active"),
        ("c", "", "completed"),
    ]
    last = Checkpoint.objects.filter(thread=thread).latest("pk")
    assert store.load(last) == {"log": ["in", "a", "b", "c"], "answers": ["yes"]}
    asked = Checkpoint.objects.get(thread=thread, status="pending_input")
    assert store.load(asked)["__interrupt__"][0]["value"]["value"] == {
        "question": "go on?",
        "so far": 2,
    }
    assert Checkpoint.objects.filter(thread=thread, parent=None).count() == 1


def test_the_api_and_the_admin_show_them_to_their_owner_only(saver, owner, api, client):
    graphs.line(saver).invoke({"log": ["in"]}, at())
    thread, last = Thread.objects.get(), Checkpoint.objects.latest("pk")
    mine, theirs = api(owner), api(User.objects.create_user("zoe"))
    history = mine.get(f"/api/v1/threads/{thread.shown_id}/history").json()
    assert next(one["id"] for one in history["results"]) == last.shown_id
    assert mine.get(f"/api/v1/checkpoints/{last.shown_id}").json()["state"]["log"] == ["in", "a"]
    assert mine.get(f"/api/v1/threads/{thread.shown_id}/state").json()["values"]["log"] == [
        "in",
        "a",
    ]
    for path in (
        f"threads/{thread.shown_id}/history",
        f"checkpoints/{last.shown_id}",
        f"threads/{thread.shown_id}/state",
    ):
        assert theirs.get(f"/api/v1/{path}").status_code == 404
    client.force_login(User.objects.create_superuser("root"))
    assert (
        last.shown_id
        in client.get(f"/admin/checkpoints/checkpoint/?q={thread.shown_id}").content.decode()
    )
    page = client.get(f"/admin/checkpoints/checkpoint/{last.pk}/change/").content.decode()
    assert "Matches" in page and "go on?" in page


def test_values_that_are_no_json_are_described(saver):
    import datetime as dt
    import uuid

    from langchain_core.messages import HumanMessage

    class Odd(TypedDict):
        log: Annotated[list[Any], operator.add]

    values = [
        HumanMessage("hello"),
        dt.date(2026, 1, 2),
        uuid.UUID(int=5),
        b"bytes",
        float("nan"),
        {1: "one"},
        "nul\x00",
        {"deep"},
    ]
    graphs.looping(saver, Odd, times=9).invoke({"log": values}, at())
    shown = store.load(Checkpoint.objects.latest("pk"))["log"]
    assert shown[0]["$type"] == "langchain_core.messages.human.HumanMessage"
    assert shown[0]["value"]["content"] == "hello"
    assert shown[1] == {"$type": "datetime.date", "value": [2026, 1, 2]}
    assert shown[3] == {"$type": "bytes", "bytes": 5}
    assert shown[4] == {"$type": "float", "value": "nan"}
    assert shown[5] == {"1": "one"}
    assert shown[6] == "nul\N{REPLACEMENT CHARACTER}"


def extend(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(item for write in writes for item in write)]


class Delta(TypedDict):
    log: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=4)]


def test_a_delta_channel_survives_prune(saver):
    """F25: a naive keep_latest makes it empty without a word."""
    graph = graphs.looping(saver, Delta)
    graph.invoke({"log": ["in"]}, at())
    before = graph.get_state(at()).values
    assert len(before["log"]) == 10
    saver.prune(["t"])
    assert 1 < GraphCheckpoint.objects.count() <= 6, "no more than back to the nearest snapshot"
    assert graphs.looping(saver, Delta).get_state(at()).values == before
    assert graph.invoke({"log": ["more"]}, at())["log"][:11] == [*before["log"], "more"]


def test_a_delta_channels_history_can_be_walked(saver):
    graph = graphs.looping(saver, Delta)
    graph.invoke({"log": ["in"]}, at())
    grown = [len(state.values.get("log", [])) for state in graph.get_state_history(at())]
    assert grown == list(range(10, -1, -1))


def test_deleting_a_run_keeps_what_delta_channels_of_others_need(saver):
    graph = graphs.looping(saver, Delta, times=3)
    graph.invoke({"log": ["in"]}, {**at(), "metadata": {"run_id": "one"}})
    graph.invoke({"log": ["again"]}, {**at(), "metadata": {"run_id": "two"}})
    before = graph.get_state(at()).values
    saver.delete_for_runs(["one"])
    assert graph.get_state(at()).values == before


class Quiet(TypedDict):
    log: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=1)]
    count: int


def test_a_delta_snapshot_of_earlier_steps_is_loaded_and_not_walked_for(saver, monkeypatch):
    """Each load went back through all steps since the snapshot, though nothing had changed it."""
    builder = StateGraph(Quiet)
    builder.add_node("say", lambda state: {"log": ["said"], "count": 0})
    builder.add_node("count", lambda state: {"count": state["count"] + 1})
    builder.add_edge(START, "say")
    builder.add_edge("say", "count")
    builder.add_conditional_edges("count", lambda state: "count" if state["count"] < 5 else END)
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"log": ["in"], "count": 0}, at())
    monkeypatch.setattr(type(saver), "get_delta_channel_history", None)
    assert graph.get_state(at()).values == {"log": ["in", "said"], "count": 5}


class Mood(enum.Enum):
    CALM = "calm"


@dataclasses.dataclass
class Note:
    words: str
    mood: Mood = Mood.CALM


class Noted(TypedDict):
    notes: Annotated[list[Note], operator.add]


def test_types_that_a_graphs_schema_names_are_taken_as_by_langgraphs_own_savers(saver):
    """They were refused, but for LANGGRAPH_STRICT_MSGPACK=true; five of LangGraph's own tests
    failed.
    """
    builder = StateGraph(Noted)
    builder.add_node("note", lambda state: {"notes": [Note("two")]})
    builder.add_edge(START, "note")
    graph = builder.compile(checkpointer=saver, interrupt_after=["note"])
    graph.invoke({"notes": [Note("one")]}, at())
    again = builder.compile(checkpointer=saver)
    assert again.get_state(at()).values == {"notes": [Note("one"), Note("two")]}
    with pytest.raises(PayloadRefused, match=r"(Note|Mood).*Name it in the graph's schema"):
        saver.get_tuple(at())  # without the graph nothing says so


def test_a_list_that_grows_costs_its_new_items(saver):
    """Bytes per step stay flat: F26."""
    graphs.looping(saver, times=100).invoke({"log": ["in"]}, {**at(), "recursion_limit": 200})
    blobs = GraphBlob.objects.filter(channel="log").order_by("pk")
    single = [len(blob.content) for blob in blobs if blob.depth]
    assert len(single) > 80
    assert max(single) < 300
    assert max(blob.depth for blob in blobs) < 20
    graph = graphs.looping(saver, times=100)
    assert len(graph.get_state(at()).values["log"]) == 100


def test_prune_leaves_no_orphans(saver):
    """One checkpoint per namespace, and of blobs what its values are made of."""
    graph = graphs.looping(saver, times=50)
    graph.invoke({"log": ["in"]}, {**at(), "recursion_limit": 200})
    before = graph.get_state(at())
    saver.prune(["t"])
    assert graph.get_state(at()).values == before.values
    assert Checkpoint.objects.count() == GraphCheckpoint.objects.count() == 1
    assert Checkpoint.objects.get().parent is None
    assert graph.get_state(at()).parent_config is None
    assert GraphBlob.objects.count() <= 3 + 20
    assert not GraphWrite.objects.exists()
    saver.delete_thread("t")
    for table in (
        Thread,
        Checkpoint,
        GraphThread,
        GraphNamespace,
        GraphCheckpoint,
        GraphBlob,
        GraphWrite,
    ):
        assert not table.objects.exists(), table


def test_prune_drops_the_calls_of_sub_graphs_with_the_step_they_were_made_in(saver):
    graph = graphs.nested(saver)
    graph.invoke({"log": []}, at())
    graph.invoke(Command(resume="yes"), at())
    saver.prune(["t"])
    assert list(GraphNamespace.objects.values_list("name", flat=True)) == [""]


def test_a_copy_is_whole_and_lives_by_itself(saver):
    graph = graphs.looping(saver, times=30)
    graph.invoke({"log": ["in"]}, {**at("from"), "recursion_limit": 100})
    history = [state.values for state in graph.get_state_history(at("from"))]
    saver.copy_thread("from", "to")
    saver.copy_thread("from", "to")
    saver.delete_thread("from")
    assert [state.values for state in graph.get_state_history(at("to"))] == history
    assert len(graph.invoke({"log": ["more"]}, {**at("to"), "recursion_limit": 100})["log"]) == 60


def test_the_engine_does_not_take_a_graphs_checkpoint_for_one_of_its_own(saver, owner, api):
    graphs.line(saver).invoke({"log": ["in"]}, at())
    thread, last = Thread.objects.get(), Checkpoint.objects.latest("pk")
    client = api(owner)
    forked = client.post(
        f"/api/v1/checkpoints/{last.shown_id}/fork", {"reason": "try", "state": {}}, format="json"
    )
    assert forked.status_code in {404, 409}, forked.content
    assert forked.json()["code"]
    begun = client.post(
        f"/api/v1/threads/{thread.shown_id}/runs",
        {"checkpoint_id": last.shown_id, "template": "x"},
        format="json",
    )
    assert 400 <= begun.status_code < 500, begun.content
    assert Checkpoint.objects.latest("pk") == last


def test_the_promises_hold_with_graphs_in_the_database(saver):
    """A graph goes on from a checkpoint that waits without a decision of ours, and forks where it
    likes: with its run's id or without.
    """
    from django.utils import timezone

    from hitl.operations import invariants

    config = {**at(), "metadata": {"run_id": "01234567-89ab-7def-8123-456789abcdef"}}
    graph = graphs.line(saver)
    graph.invoke({"log": ["in"]}, config)
    graph.invoke(Command(resume="yes"), config)
    old = next(state for state in graph.get_state_history(at()) if state.next == ("b",))
    graph.invoke(None, graph.update_state(old.config, {"log": ["edited"]}, as_node="ask"))
    assert [
        result for result in invariants.check(now=timezone.now(), deep=True) if result.count
    ] == []
