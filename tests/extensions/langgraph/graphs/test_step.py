"""Graphs of LangGraph as steps: they run on the run's thread, their interrupts are questions, and
no finished node is done twice.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from django.utils import timezone

from checkpoints import ids, store
from checkpoints.export import thread_document
from checkpoints.models import Checkpoint, Event, EventKind
from checkpoints.models.graphs import GraphCheckpoint, GraphThread
from checkpoints.state import codec
from extensions.langgraph.graphs import step as step
from extensions.langgraph.saver import DjangoSaver
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.threads import export as whole
from hitl.threads import messages
from runs import definitions
from runs import services as runs
from runs.definitions import TemplateInvalid, pictures, readiness
from runs.engine import record
from runs.engine.advance import advance
from runs.engine.recovery import lost_runs
from runs.models import Pause, Run, Template, WorkOrder
from runs.services.forks import NothingToFork
from runs.workflows import owned
from runs.workflows.owned import Keeps
from tests.conftest import drive, fresh, log_lines, pause_of, state_at_head
from tests.doors.html import join
from tests.extensions.langgraph.graphs.graphs import EFFECTS
from tests.extensions.langgraph.graphs.ordered import file_database as file_database
from tests.extensions.langgraph.graphs.ordered import graph_order as graph_order
from tests.extensions.langgraph.graphs.ordered import named
from tests.killed.moments import Killed, child_environment, expire_leases, work_off
from tests.programs.begun import Begun
from tests.worlds import steps
from tests.worlds.histories.documents import signed

pytestmark = pytest.mark.django_db(transaction=True)


def answer(order: Any, by: Any, action: str = "answer", **more: Any) -> Any:
    services.decide(pause_of(order).pk, Answer(action, Via.PAGE, **more), by=by)
    return drive(order)


def said(text: Any) -> dict[str, Any]:
    return {"payload": {"graph_answer": text}}


def of(order: Any) -> dict[str, Any]:
    state = state_at_head(order.thread_id)
    return {key: state[key] for key in ("log", "answers") if state.get(key)}


def test_a_graph_runs_and_its_output_joins_the_state(graph_order):
    order = drive(graph_order("straight"))
    assert order.status == "completed", order.latest_run.error
    assert of(order) == {"log": ["a: tea", "b: tea"]}
    assert log_lines(order).count("a is done") == 1


@pytest.mark.both_databases
def test_an_interrupt_is_a_question_and_the_answer_its_value(graph_order, ana):
    order = drive(graph_order("line"))
    pause = pause_of(order)
    assert (pause.question, pause.kind, list(pause.answers)) == (
        "Go on?",
        "approval",
        ["approve", "reject", "answer"],
    )
    order = answer(order, ana, **said("by all means"))
    assert order.status == "completed", order.latest_run.error
    assert of(order) == {"log": ["a: tea", "b: tea"], "answers": ["by all means"]}
    assert EFFECTS == {"a": 1, "ask": 2, "b": 1}, (
        "the node that asked runs again from its top, no other does"
    )
    assert state_at_head(order.thread_id)["graph_answer"] is None


def test_an_engine_may_ask_and_who_began_it_resumes_by_the_runs_id(graph_order, ana, api):
    """S3-55: LangGraph asks for input; the checkpoint is stored and the run's id given, by which it
    is resumed later, in S3's own form.
    """
    graph_order("line")
    client, topic = api(ana), {"topic": "tea"}
    made = client.post(
        "/api/v1/work-orders", {"template": "graph", "title": "Tea", "input": topic}, format="json"
    ).json()
    order = drive(WorkOrder.objects.shown().get(latest_run=ids.parse("run", made["run_id"])))
    workflow = f"/api/v1/workflows/{made['run_id']}"
    told = client.get(workflow).json()
    assert (told["run_id"], told["status"], told["question"]) == (
        made["run_id"],
        "waiting_external",
        "Go on?",
    )
    [stored] = client.get(f"/api/v1/runs/{made['run_id']}/checkpoints?limit=1").json()["results"]
    assert (stored["id"], stored["status"]) == (order.thread.head.shown_id, "pending_input")
    assert GraphCheckpoint.objects.count() == 3, "and the engine's own, up to the node that asks"
    resumed = client.post(
        f"{workflow}/resume", {"payload": {"graph_answer": "by all means"}}, format="json"
    )
    assert resumed.status_code == 200, resumed.json()
    assert (drive(order).status, client.get(workflow).json()["status"]) == (
        "completed",
        "completed",
    )
    assert of(order) == {"log": ["a: tea", "b: tea"], "answers": ["by all means"]}
    assert (EFFECTS["a"], EFFECTS["b"]) == (1, 1)


def test_approve_and_reject_are_true_and_false(graph_order, ana):
    assert of(answer(drive(graph_order("data")), ana, "approve")) == {"answers": [True]}
    order = drive(graph_order("data"))
    assert pause_of(order).question == "Which?"
    assert '"among"' in pause_of(order).content
    assert of(answer(order, ana, "reject")) == {"answers": [False]}


@pytest.mark.parametrize(
    ("action", "decision", "value"),
    [
        (
            "approve",
            None,
            {
                "type": "accept",
                "args": {"action": "send_mail", "args": {"to": "a@example.org", "text": "Hi"}},
            },
        ),
        (
            "answer",
            {"decision": "edit", "arguments": {"to": "b@example.org", "text": "Hi"}},
            {
                "type": "edit",
                "args": {"action": "send_mail", "args": {"to": "b@example.org", "text": "Hi"}},
            },
        ),
        ("answer", {"decision": "reject", "reason": "rude"}, {"type": "ignore", "args": None}),
        ("revise", None, {"type": "response", "args": "ask her first"}),
    ],
)
def test_a_human_interrupt_is_a_call_to_decide(graph_order, ana, action, decision, value):
    order = drive(graph_order("human"))
    pause = pause_of(order)
    assert (pause.kind, pause.calls[0]["tool"], pause.calls[0]["preview"]) == (
        "tools",
        "send_mail",
        "A mail to Ana",
    )
    payload = {"calls": {pause.calls[0]["id"]: decision}} if decision else None
    order = answer(
        order, ana, action, payload=payload, feedback="ask her first" if action == "revise" else ""
    )
    assert of(order)["answers"] == [[value]], order.latest_run.error


def test_a_hitl_request_is_decided_call_by_call(graph_order, ana):
    order = drive(graph_order("hitl"))
    drop, mail = pause_of(order).calls
    assert (drop["editable"], mail["editable"]) == ([], [""])
    decisions = {
        drop["id"]: {"decision": "reject", "reason": "no"},
        mail["id"]: {"decision": "edit", "arguments": {"text": "soon"}},
    }
    with pytest.raises(services.AnswerInvalid):
        edited = {"decision": "edit", "arguments": {"table": "other"}}
        answer(order, ana, payload={"calls": {**decisions, drop["id"]: edited}})
    order = answer(order, ana, payload={"calls": decisions})
    said = [
        {"type": "reject", "message": "no"},
        {"type": "edit", "edited_action": {"name": "mail", "args": {"text": "soon"}}},
    ]
    assert of(order)["answers"] == [{"decisions": said}]


def test_one_of_several_calls_is_answered_with_words(graph_order, ana):
    """Only a call that was alone could be, and then as a revision."""
    order = drive(graph_order("hitl"))
    drop, mail = pause_of(order).calls
    decisions = {
        drop["id"]: {"decision": "reject", "reason": "no"},
        mail["id"]: {"decision": "respond", "result": "It was sent by hand."},
    }
    order = answer(order, ana, payload={"calls": decisions})
    said = [
        {"type": "reject", "message": "no"},
        {"type": "respond", "message": "It was sent by hand."},
    ]
    assert of(order)["answers"] == [{"decisions": said}]


def test_a_response_schema_is_a_form_that_only_takes_what_fits(graph_order, ana, page):
    order = drive(graph_order("form"))
    assert (pause_of(order).question, pause_of(order).kind) == ("When?", "input")
    assert ">Day" in join(page.get(f"/work-orders/{order.shown_id}/").content.decode())
    with pytest.raises(services.AnswerInvalid):
        answer(order, ana, **said({"day": 3}))
    assert of(answer(order, ana, **said({"day": "Monday"}))) == {"answers": [{"day": "Monday"}]}


def test_a_graph_that_asks_for_a_secret_is_told_that_it_is_not_kept(graph_order):
    """F5: a marker in its place would be taken for the password."""
    order = drive(graph_order("secretive"))
    assert order.latest_run.failure_code == "graph_question_refused"
    assert "password" in order.latest_run.error


def test_a_node_that_asks_twice_gets_each_answer_once(graph_order, ana):
    order = answer(drive(graph_order("twice")), ana, **said("one"))
    assert pause_of(order).question == "Second?"
    assert of(answer(order, ana, **said("two")))["answers"] == ["one", "two"]
    assert EFFECTS["ask"] == 3
    assert Pause.objects.count() == 2


def test_a_sub_graph_asks_and_goes_on(graph_order, ana):
    order = answer(drive(graph_order("nested")), ana, **said("yes"))
    assert of(order)["answers"] == ["yes"], order.latest_run.error
    assert [EFFECTS[name] for name in ("before", "inside", "rest")] == [1, 1, 1]
    assert "sub/rest is done" in log_lines(order)


def test_nodes_that_need_an_event_loop_run_too(graph_order, ana):
    order = answer(drive(graph_order("in_a_loop")), ana, **said("yes"))
    assert of(order) == {"log": ["async"], "answers": ["yes"]}, order.latest_run.error


def test_what_a_graph_streams_is_told(graph_order):
    """S0-29: tokens, calls of tools, what nodes did, and what they say of their own."""
    order = drive(
        graph_order(
            "talking", output={"said": "messages"}, input={"messages": "/order/input/topic"}
        )
    )
    assert order.status == "completed", order.latest_run.error
    told = [
        (event.kind, event.data)
        for event in Event.objects.filter(thread=order.thread_id).order_by("seq")
    ]
    assert (
        "".join(data["content"] for kind, data in told if kind == EventKind.STREAMING_CHUNK)
        == "Hello there, friend"
    )
    started = next(data for kind, data in told if kind == EventKind.TOOL_CALL_STARTED)
    assert (started["id"], started["tool"], started["arguments"], started["loop_num"]) == (
        "c1",
        "add",
        {"a": 1, "b": 2},
        1,
    )
    completed = next(data for kind, data in told if kind == EventKind.TOOL_CALL_COMPLETED)
    assert (completed["result"], completed["status"]) == ("3", "done")
    assert '{"progress": 50}' in log_lines(order)
    assert [one["type"] for one in state_at_head(order.thread_id)["said"]] == [
        "human",
        "ai",
        "tool",
        "ai",
    ]


def test_a_graph_that_does_not_end_fails_and_a_retry_goes_on(graph_order, ana):
    order = drive(graph_order("looping", recursion_limit=20))
    assert order.latest_run.failure_code == "graph_recursion_limit"
    runs.retry(order.pk, by=ana)
    order = drive(order)
    assert order.status == "completed", order.latest_run.error
    assert EFFECTS["a"] == 30


def test_a_node_that_fails_is_tried_again_and_those_before_it_are_not(graph_order, ana):
    order = graph_order("straight")
    steps.HOOKS["b"] = lambda: 1 / 0
    order = drive(order)
    assert order.latest_run.error
    del steps.HOOKS["b"]
    runs.retry(order.pk, by=ana)
    assert of(drive(order)) == {"log": ["a: tea", "b: tea"]}
    assert EFFECTS == {"a": 1, "b": 2}


@pytest.fixture
def quick_looks(monkeypatch):
    """The database is asked at each superstep whether to stop."""
    monkeypatch.setattr("runs.engine.context.watch.CHECK_EVERY", 0)


def test_a_suspension_stops_between_supersteps_and_the_graph_goes_on_after_it(
    graph_order, ana, quick_looks
):
    order = graph_order("straight")
    steps.HOOKS["a"] = lambda: runs.suspend(order.pk, by=ana)
    order = drive(order)
    assert pause_of(order).phase == "suspended"
    assert EFFECTS == {"a": 1}
    steps.HOOKS.clear()
    order = answer(order, ana, "approve")
    assert of(order) == {"log": ["a: tea", "b: tea"]}, order.latest_run.error
    assert EFFECTS == {"a": 1, "b": 1}


def test_a_cancelled_run_begins_no_further_superstep(graph_order, ana, quick_looks):
    order = graph_order("straight")
    steps.HOOKS["a"] = lambda: runs.cancel(order.pk, by=ana)
    order = drive(order)
    assert order.latest_run.status == "cancelled"
    assert EFFECTS == {"a": 1}
    assert GraphCheckpoint.objects.count() == 2, "nor does the graph write what it did since"


def test_a_graphs_checkpoints_stand_in_the_history_of_the_run(graph_order, ana, page, api):
    order = answer(drive(graph_order("line")), ana, **said("yes"))
    thread = order.thread
    rows = Checkpoint.objects.filter(thread=thread, graph__isnull=False).order_by("pk")
    assert [row.node_id for row in rows] == ["", "", "a", "ask", "b"]
    assert {row.metadata["waystation_key"].split("/", 1)[1] for row in rows} == {"work/1", "work/2"}
    history = page.get(f"/threads/{thread.shown_id}/history").content.decode()
    assert all(row.shown_id in history for row in rows)
    first, last = rows[1], rows[4]
    assert store.load(last)["log"] == ["a: tea", "b: tea"]
    diff = api(ana).get(f"/api/v1/checkpoints/{last.shown_id}/diff?against={first.shown_id}")
    assert diff.status_code == 200
    assert "b: tea" in diff.content.decode()
    assert page.get(f"/checkpoints/{last.shown_id}/").status_code == 200
    compared = page.get(
        f"/checkpoints/compare?old={first.shown_id}&new={last.shown_id}"
    ).content.decode()
    assert "a: tea" in compared
    with pytest.raises(NothingToFork, match="a graph wrote it"):
        runs.fork(last.pk, by=ana, reason="from the middle of a graph")


def test_a_second_turn_has_the_graphs_memory(graph_order, ana):
    """As in LangGraph: what a thread's graph holds is there in the next turn.

    Here it is a revision of the same step.
    """
    pauses = {"pause_after": True, "pause_phase": "awaiting_plan_approval"}
    order = drive(graph_order("straight", step=pauses))
    order = answer(order, ana, "revise", feedback="again")
    assert of(order)["log"] == ["a: tea", "b: tea"] * 2


def test_a_fork_at_an_answered_question_asks_it_again_on_a_branch(graph_order, ana):
    """S2-31: the first answer is not taken for one to the fork; what was done before stays done;
    the old branch stays.
    """
    order = answer(drive(graph_order("line")), ana, **said("yes"))
    asked = Pause.objects.get().checkpoint
    runs.fork(asked.pk, by=ana, reason="what if not")
    order = drive(order)
    assert pause_of(order).question == "Go on?"
    order = answer(order, ana, **said("no"))
    assert of(order) == {"log": ["a: tea", "b: tea"], "answers": ["no"]}, order.latest_run.error
    assert EFFECTS["a"] == 1
    ends = Checkpoint.objects.filter(
        thread=order.thread, graph__isnull=False, status="completed"
    ).order_by("pk")
    assert [store.load(end)["answers"] for end in ends] == [["yes"], ["no"]]


def test_what_somebody_else_wrote_of_a_graphs_place_is_not_taken(graph_order, ana):
    """F6."""
    order = drive(graph_order("line"))
    with pytest.raises(services.AnswerInvalid):
        answer(order, ana, update={"graph_runs": {"work": {}}}, **said("yes"))
    forged = {"graph_runs": {"work": {"space": "other@x", "checkpoint": "y", "status": "done"}}}
    answer(order, ana, "cancel")
    runs.fork(Pause.objects.get().checkpoint_id, by=ana, reason="forged", state=forged)
    order = drive(order)
    assert pause_of(order).question == "Go on?"
    state = state_at_head(order.thread_id)
    asked = pause_of(order).checkpoint
    answer(order, ana, "cancel")
    for action in ("approve", "answer", "revise"):  # an answer that nobody gave
        edited = {
            **state,
            "decided": {"work": action},
            "graph_answer": "yes",
            "revision_feedback": "yes",
        }
        runs.fork(asked.pk, by=ana, reason="forged", state=edited)
        order = drive(order)
        assert pause_of(order).question == "Go on?", action
        answer(order, ana, "cancel")
    assert "b" not in EFFECTS


@pytest.mark.parametrize(
    ("config", "field", "words"),
    [
        ({"graph": "unknown"}, "config.graph", "no graph that WAYSTATION_GRAPHS"),
        ({"graph": "line", "input": {}}, "config.input", "JSON pointer"),
        ({"graph": "line", "input": {"a": "no/pointer"}}, "config.input", "JSON pointer"),
        ({"graph": "line", "output": ["graph_runs"]}, "config.output", "the graph's keys"),
        (
            {"graph": "line", "output": {"decided": "graph_runs"}},
            "config.output",
            "the graph's keys",
        ),
        ({"graph": "line", "recursion_limit": 0}, "config.recursion_limit", "supersteps"),
        ({"graph": "line", "module": "os:system"}, "config", "module"),
    ],
)
def test_a_template_names_only_what_settings_name(settings, config, field, words):
    settings.WAYSTATION_GRAPHS = named("line")
    with pytest.raises(TemplateInvalid) as refused:
        definitions.edit_step_template(
            "graph",
            title="G",
            function="langgraph",
            config={"input": {"topic": "/topic"}, **config},
        )
    assert words in refused.value.errors[field][0]


def test_a_template_whose_graph_this_server_names_no_more_cannot_run(graph_order, settings, ana):
    graph_order("line")
    settings.WAYSTATION_GRAPHS = {}
    lacking = readiness.lacking(Template.objects.current().filter(slug="graph"), by=ana)
    assert lacking["graph"].code == "graph_unavailable"


def test_what_it_keeps_for_itself_is_treated_as_it_declares():
    kept = {key: keeps for key, keeps in owned.kept().items() if key.startswith("graph_")}
    own = dict.fromkeys(("graph_question", "graph_said", "graph_replies"), Keeps())
    usual = {"graph_runs": Keeps(reducer="merge"), "graph_answer": Keeps(answered=True)}
    assert kept == usual | own


def test_without_langgraph_a_template_is_refused_and_a_run_says_why(graph_order, monkeypatch):
    """Nothing else breaks: the library is looked for by those two alone."""
    order = graph_order("line")
    monkeypatch.setattr(step, "installed", lambda: False)
    with pytest.raises(TemplateInvalid, match="extensions/langgraph/requirements"):
        graph_order("straight")
    order = drive(order)
    assert order.latest_run.failure_code == "graph_unavailable"
    assert "extensions/langgraph/requirements" in order.latest_run.error


@pytest.mark.parametrize(
    ("name", "words"),
    [("stopping", "breakpoints"), ("no_graph", "is no graph"), ("missing", "cannot be loaded")],
)
def test_what_is_no_graph_to_run_is_said(graph_order, name, words):
    order = drive(graph_order(name))
    assert order.latest_run.failure_code == "graph_unavailable"
    assert words in order.latest_run.error


def test_a_graph_whose_checkpoints_are_gone_does_not_begin_anew(graph_order, ana):
    """C24."""
    order = drive(graph_order("line"))
    GraphThread.objects.get().namespaces.all().delete()
    assert answer(order, ana, **said("yes")).latest_run.failure_code == "graph_lost"
    assert fresh(order).status == "failed"


class Deaths:
    """Dies at the n-th moment of a worker: before each write of the graph's saver, and before each
    commit of the step, which is after the last write.
    """

    def __init__(self, monkeypatch: Any) -> None:
        self.left, self.dead = 0, False
        owners: list[tuple[Any, str]] = [(DjangoSaver, "_add"), (record, "ask"), (record, "done")]
        for owner, name in owners:
            monkeypatch.setattr(owner, name, self.dying(getattr(owner, name)))

    def tick(self) -> None:
        self.left -= 1
        if self.dead or self.left == 0:
            self.dead = True
            raise Killed

    def dying(self, function: Any) -> Any:
        def wrapped(*given: Any, **more: Any) -> Any:
            self.tick()
            return function(*given, **more)

        return wrapped

    def survived(self, order: Any, at: int) -> bool:
        """Let a worker that dies at its n-th moment drive an order; then others come.

        Whether it got through.
        """
        self.left, self.dead = at, False
        with suppress(Killed):
            drive(order)
        through, self.left, self.dead = not self.dead, 0, False
        work_off()
        # the dead one's last heartbeat came late
        while Run.objects.filter(thread=order.thread_id, status="running").exists():
            work_off()
        return through


STOPS = {"interrupt_before": ["work/a", "work/ask"], "interrupt_after": ["work/ask", "work/b"]}


@pytest.mark.parametrize(("name", "stops"), [("line", {}), ("parallel", {}), ("line", STOPS)])
def test_a_worker_may_die_at_any_moment(graph_order, ana, settings, monkeypatch, name, stops):
    """P4, P5: each answer is used once, no finished node is done again, each stop is asked about
    once, and nothing is doubled in what the graph holds.
    """
    settings.WAYSTATION_GRAPHS = named(name)
    pictures.look_at_start()
    deaths, moment, through = Deaths(monkeypatch), 0, 0
    count = sum(map(len, stops.values()))
    while not through:
        moment += 1
        EFFECTS.clear()
        order = graph_order(name, stops=stops)
        through = deaths.survived(order, moment)
        while pause := Pause.objects.open().filter(run__work_order=order).first():
            is_stop = pause.phase == "interrupted_after"
            given = {} if is_stop else said(f"yes {pause.question}")
            action = "approve" if is_stop else "answer"
            services.decide(pause.pk, Answer(action, Via.PAGE, **given), by=ana)
            through &= deaths.survived(order, moment)
        order = fresh(order)
        assert order.status == "completed", (moment, order.latest_run.error)
        expected = {
            "line": {"log": ["a: tea", "b: tea"], "answers": ["yes Go on?"]},
            "parallel": {"log": ["b: tea"], "answers": ["x: yes x?", "y: yes y?", "z: yes z?"]},
        }
        assert of(order) == expected[name], moment
        asked = Pause.objects.filter(run__work_order=order).count()
        assert asked == (1 + count if name == "line" else 3), moment
        assert (
            sum(EFFECTS[node] - 1 for node in EFFECTS if node != "ask")
            <= 1 + (name == "parallel") * 3 + count
        ), (moment, EFFECTS)
    assert moment > 3


@pytest.mark.both_databases
def test_a_worker_killed_between_supersteps_is_replaced(graph_order, ana, tmp_path):
    """P3, P4: kill -9 of a real process in node b, after a was done and a person answered; another
    process, this one, goes on.
    """
    order = answer_without_worker(drive(graph_order("line")), ana)
    script = """
import os, signal, sys, uuid, django
django.setup()
from django.conf import settings
settings.WAYSTATION_GRAPHS = {"line": "tests.extensions.langgraph.graphs.graphs:line"}
from runs.engine.advance import advance
from tests.worlds import steps
steps.HOOKS["b"] = lambda: os.kill(os.getpid(), signal.SIGKILL)
advance(uuid.UUID(sys.argv[1]), budget=60)
"""
    environment = child_environment(DJANGO_SETTINGS_MODULE="project.settings")
    begun = Begun("-c", script, str(order.latest_run_id), environment=environment)
    done = begun.ended(within=120)
    assert done.returncode == -9, done.stderr
    expire_leases()
    lost_runs.take_back(now=timezone.now())
    assert of(drive(order)) == {"log": ["a: tea", "b: tea"], "answers": ["yes"]}
    assert EFFECTS == {"a": 1, "ask": 1, "b": 1}, "neither a nor the answered node is done again"
    rows = Checkpoint.objects.filter(thread=order.thread, graph__isnull=False).order_by("pk")
    assert [row.node_id for row in rows] == ["", "", "a", "ask", "b"]


def answer_without_worker(order: Any, by: Any) -> Any:
    services.decide(pause_of(order).pk, Answer("answer", Via.PAGE, **said("yes")), by=by)
    return fresh(order)


def test_an_imported_run_begins_its_graph_anew(graph_order, zoe):
    """Before, the graph went on from wherever the document said that it stood: behind its question,
    say.
    """
    order = drive(graph_order("line"))
    document = json.loads(codec.encode(whole.export(order.thread_id)))
    document["runs"][0]["input"] = {"topic": "tea"}  # an order's is not in a document
    thread = whole.load(thread_document.read(signed(document), limit=10_000_000), owner=zoe).thread
    run = Run.objects.get(thread=thread)
    assert run.failure_code == "imported"
    resumed = messages.resume(run.pk, by=zoe, via=Via.REST).run
    while advance(resumed.pk, budget=60):
        pass
    pause = Pause.objects.open().get(run=resumed)
    services.decide(pause.pk, Answer("answer", Via.PAGE, **said("yes")), by=zoe)
    while advance(resumed.pk, budget=60):
        pass
    state = state_at_head(thread.pk)
    assert (state["log"], state["answers"]) == (["a: tea", "b: tea"], ["yes"])
    assert EFFECTS["a"] == 2
