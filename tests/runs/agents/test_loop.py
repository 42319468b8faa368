"""An agent on a thread, against an endpoint over real HTTP: loops, tools, questions to people, what
is kept and what is told.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkpoints import store
from checkpoints.models import Checkpoint
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from hitl.threads import messages as doors
from runs import definitions
from runs.agents import journal
from runs.engine import approvals
from runs.models import Pause
from runs.threads import turns
from runs.threads.turns import Turn
from tests.conftest import state_at_head
from tests.databases.whole import file_database as file_database
from tests.servers.model_endpoint import ModelReply, by_loop, serving
from tests.worlds import agents
from tests.worlds.agents import thread as thread
from tests.worlds.histories.whole_story import broken

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("templates", "file_database"),
]

LOOK = ("test_look", {"what": "articles"})
QUESTION = ("ask_human", {"question": "Should I include market data?"})
STORY = by_loop(
    ModelReply("Let me search for information.", [LOOK]),
    ModelReply("I found several articles.", [QUESTION]),
    ModelReply("More research.", [LOOK, ("test_search", {"what": "markets"})]),
    ModelReply("And again.", [LOOK]),
    ModelReply("Based on my research: all is well."),
)


@pytest.fixture
def endpoint():
    with serving(STORY) as found:
        agents.load(found.url)
        yield found


def test_the_whole_sequence_of_an_agent_chat_is_told_in_its_order(endpoint, thread, ana):
    """S0-19..32: five loops, of which the second asks a person, and the final answer."""
    run = agents.say(thread, "Research and summarize AI trends", by=ana)
    assert run.status == "paused"
    begun, loop = (
        ["checkpoint_created"],
        ["streaming_chunk", "tool_call_started", "tool_call_completed", "checkpoint_created"],
    )
    asks = [
        "streaming_chunk",
        "tool_call_started",
        "await_human_input",
        "approval_requested",
        "checkpoint_created",
        "run_paused",
    ]
    assert agents.told(thread) == [*begun, *loop, *asks]
    doors.say(thread.pk, Turn(input={"input": "Yes, include market data"}), by=ana, via=Via.REST)
    assert agents.go_on(run).status == "completed"
    after = ["approval_received", "checkpoint_created", "tool_call_completed", "checkpoint_created"]
    both = [
        "streaming_chunk",
        *["tool_call_started"] * 2,
        *["tool_call_completed"] * 2,
        "checkpoint_created",
    ]
    final = ["streaming_chunk", "run_completed", "checkpoint_created"]
    assert agents.told(thread)[11:] == [*after, *both, *loop, *final]
    made = agents.events(thread, "checkpoint_created")
    # S0-31: the answer and its loop are loop 2
    assert [one["loop_num"] for one in made if one["node_id"]] == [1, 2, 2, 2, 3, 4, 5]
    assert [one["status"] for one in made] == [
        "active",
        "active",
        "pending_input",
        "active",
        "active",
        "active",
        "active",
        "completed",
    ]
    assert len(endpoint.requests) == 5
    assert sum(agents.MADE.values()) == 4
    answer = [
        one for one in agents.events(thread, "tool_call_completed") if one["tool"] == "ask_human"
    ]
    assert [one["result"] for one in answer] == ["Yes, include market data"]


def test_each_checkpoint_holds_all_that_the_next_loop_needs(endpoint, thread, ana):
    """S0-59..64, 67: conversation, loop, steps, finished calls, context, offset, what it depends
    on; nothing of what was streamed.
    """
    run = agents.say(thread, "Research", by=ana)
    after_one = store.load(Checkpoint.objects.get(run_id=run.pk, loop_num=1, node_id="agent"))[
        "agent"
    ]["agent"]
    # S0-60
    assert [message["kind"] for message in after_one["prompt_messages"]] == [
        "request",
        "response",
        "request",
    ]
    assert after_one["prompt_messages"][-1]["parts"][0]["content"] == {
        "made": "look",
        "what": "articles",
    }
    assert (after_one["current_loop"], after_one["total_loops"], after_one["history_offset"]) == (
        2,
        15,
        0,
    )
    assert [call["status"] for call in after_one["intermediate_steps"]["1"]["calls"]] == ["done"]
    assert after_one["call_context"] == {
        "user_id": ana.pk,
        "session_id": thread.shown_id,
        "metadata": {"run_id": run.shown_id},
    }
    assert after_one["run_depends"] == [run.shown_id]
    assert after_one["is_resumed"] is False
    waiting = agents.mind(thread.pk)
    assert waiting["current_loop"] == 2
    assert waiting["prompt_messages"][-1]["kind"] == "response", "its calls are open"
    doors.say(thread.pk, Turn(input={"input": "Yes"}), by=ana, via=Via.REST)
    agents.go_on(run)
    last = agents.mind(thread.pk)
    assert last["is_resumed"] is True  # S0-64
    assert last["usage"]["requests"] == 5
    assert last["usage"]["input_tokens"] == 500
    assert "last_streamed_content" not in last
    assert not [key for key in last if "stream" in key]


def test_a_long_result_is_cut_for_browsers_and_nowhere_else(endpoint, thread, ana, page, api):
    """C15, S0-66: the log and the page show its two ends; the state, the model and whoever resumes
    have it to the letter.
    """
    what = "a" * 9_000 + "b" * 9_000 + "c" * 9_000
    endpoint.script = by_loop(
        ModelReply("Both.", [("test_look", {"what": what}), QUESTION]), ModelReply("Done.")
    )
    run = agents.say(thread, "Go", by=ana)
    assert [one["result"] for one in agents.mind(thread.pk)["tool_cache"].values()] == [
        {"made": "look", "what": what}
    ]
    doors.say(thread.pk, Turn(input={"input": "APPROVE"}), by=ana, via=Via.REST)
    assert agents.go_on(run).status == "completed"
    heard = [
        json.loads(one["content"])
        for one in endpoint.requests[-1]["messages"]
        if one["role"] == "tool" and "look" in one["content"]
    ]
    assert heard == [{"made": "look", "what": what}]
    for told in agents.events(thread, "tool_call_completed"):
        assert len(str(told)) < 2 * journal.SHOWN + 1_000
    assert journal.CUT in next(
        one["result"]
        for one in agents.events(thread, "tool_call_completed")
        if one["tool"] == "test_look"
    )
    shown = page.get(f"/threads/{thread.shown_id}/").content.decode()
    assert "\n...[truncated]...\n" in shown and "a" * 4_900 in shown and "c" * 4_900 in shown
    assert "a" * 5_001 not in shown and "b" * 10 not in shown
    state = (
        api(ana).get(f"/api/v1/threads/{thread.shown_id}/state").json()["values"]["agent"]["agent"]
    )
    assert what in str(state["prompt_messages"]), "a program that reads the state gets all of it"


PAY = [
    ("test_pay", {"what": "rent"}),
    ("test_pay", {"what": "boat"}),
    ("test_pay", {"what": "bread"}),
    LOOK,
]


def test_one_question_is_asked_for_all_calls_that_wait_and_each_is_decided(
    endpoint, thread, ana, ben
):
    """S2-26, F5: approved and edited calls run once, with what was approved; a rejected one is told
    to the model and never made.
    """
    endpoint.script = by_loop(ModelReply("I pay.", PAY), ModelReply("All done."))
    run = agents.say(thread, "Pay my bills", by=ana)
    pause = agents.asked(run)
    assert (pause.kind, pause.revision, [call["arguments"]["what"] for call in pause.calls]) == (
        "tools",
        1,
        ["rent", "boat", "bread"],
    )
    assert "Money leaves." in pause.content
    assert list(agents.MADE.values()) == [1], "only what needs nobody"
    rent, boat, bread = (call["id"] for call in pause.calls)
    answer = {
        rent: {"decision": "approve"},
        boat: {"decision": "reject", "reason": "no boats"},
        bread: {"decision": "edit", "arguments": {"what": "rolls"}},
    }
    services.decide(pause.pk, Answer("answer", Via.REST, payload={"calls": answer}), by=ben)
    assert agents.go_on(run).status == "completed"
    assert sum(agents.MADE.values()) == 3
    heard = {
        message["tool_call_id"]: message["content"]
        for message in endpoint.requests[-1]["messages"]
        if message["role"] == "tool"
    }
    assert json.loads(heard[rent]) == {"made": "pay", "what": "rent"}
    assert "rejected" in heard[boat]
    assert "no boats" in heard[boat]
    assert json.loads(heard[bread])["result"] == {"made": "pay", "what": "rolls"}
    shown = {one["id"]: one["status"] for one in agents.events(thread, "tool_call_completed")}
    assert sorted(shown.values()) == ["done", "done", "done", "rejected"]
    assert len(endpoint.requests) == 2
    relied = {
        one["id"]: one.get("decision", "") for one in agents.events(thread, "tool_call_completed")
    }
    assert relied[rent] == relied[bread] == Decision.objects.get().shown_id
    assert broken() == {}


class Anything(dict[str, Any]):
    """Decisions that approve whatever is asked about."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> dict[str, Any]:
        return {
            "decision": "approve",
            "tool": "test_pay",
            "arguments": {"what": "rent"},
            "reason": "",
            "decision_id": self.get("id", ""),
        }


@pytest.mark.parametrize("names", [{}, {"id": "dec_1"}])
def test_a_call_that_no_decision_approved_is_found(endpoint, thread, ana, monkeypatch, names):
    """P6: as it was where `call_decisions` in a state was believed."""
    endpoint.script = by_loop(ModelReply("", PAY[:1]), ModelReply("Done."))
    monkeypatch.setattr(approvals, "decided_calls", lambda held, step: Anything(names))
    run = agents.say(thread, "Pay", by=ana)
    assert (run.status, sum(agents.MADE.values())) == ("completed", 1)
    assert list(broken()) == ["called_for_nobody"]


def test_an_approval_holds_for_its_call_alone(endpoint, thread, ana, ben):
    """F5, F6: the same call in a later loop is asked about again, though the endpoint numbers its
    calls anew each time.
    """
    endpoint.script = by_loop(ModelReply("", PAY[:1]), ModelReply("", PAY[:1]), ModelReply("Done."))
    run = agents.say(thread, "Pay twice", by=ana)
    for made in (1, 2):
        services.decide(agents.asked(run).pk, Answer("approve", Via.REST), by=ben)
        run = agents.go_on(run)
        assert sum(agents.MADE.values()) == made
    assert run.status == "completed"
    assert Pause.objects.filter(run=run).count() == 2


def test_a_fork_at_a_question_asks_it_again_without_another_request(endpoint, thread, ana):
    """S0-80, S0-62, S0-63, C23: time travel to where a person was asked; the answer that was given
    there is none of the fork's, and the call that was finished is made by neither. What the agent
    knew there is restored, with the runs that it depends on, which the document's own state did not
    name.
    """
    endpoint.script = by_loop(ModelReply("Both.", [LOOK, QUESTION]), ModelReply("Done."))
    run = agents.say(thread, "Go", by=ana)
    at = agents.asked(run).checkpoint_id
    knew = agents.mind(thread.pk)
    doors.say(thread.pk, Turn(input={"input": "Yes"}), by=ana, via=Via.REST)
    agents.go_on(run)
    fork = agents.go_on(turns.invoke(thread.pk, Turn(checkpoint_id=at), by=ana))
    assert (fork.status, agents.asked(fork).question) == ("paused", "Should I include market data?")
    assert (len(endpoint.requests), sum(agents.MADE.values())) == (2, 1)
    own = {"run_depends", "call_context", "is_resumed", "usage", "loops_before"}
    restored = agents.mind(thread.pk)
    assert {key: restored[key] for key in restored.keys() - own} == {
        key: knew[key] for key in knew.keys() - own
    }
    assert (knew["run_depends"], restored["run_depends"]) == (
        [run.shown_id],
        [run.shown_id, fork.shown_id],
    )
    doors.say(thread.pk, Turn(input={"input": "No"}), by=ana, via=Via.REST)
    assert agents.go_on(fork).status == "completed"
    assert agents.mind(thread.pk)["run_depends"] == [run.shown_id, fork.shown_id]
    assert [
        message["content"]
        for message in endpoint.requests[-1]["messages"]
        if message["role"] == "tool"
    ][-1] == "No"


def test_a_question_with_options_takes_one_of_them(endpoint, thread, ana):
    asked = ("ask_human", {"question": "Which?", "options": ["red", "blue"]})
    endpoint.script = by_loop(ModelReply("", [asked]), ModelReply("Done."))
    run = agents.say(thread, "Go", by=ana)
    with pytest.raises(services.AnswerInvalid):
        doors.say(thread.pk, Turn(input={"input": "green"}), by=ana, via=Via.REST)
    doors.say(thread.pk, Turn(input={"content": "blue"}), by=ana, via=Via.REST)
    assert agents.go_on(run).status == "completed"
    assert endpoint.requests[-1]["messages"][-1]["content"] == "blue"


def test_a_turn_after_one_that_was_cancelled_in_a_question_begins_anew(endpoint, thread, ana):
    """The call that nobody answered is told to the model as unmade: endpoints refuse calls without
    a result.
    """
    endpoint.script = by_loop(ModelReply("", [QUESTION]), ModelReply("Done."))
    agents.say(thread, "Go", by=ana)
    doors.say(thread.pk, Turn(input={"input": "REJECT"}), by=ana, via=Via.REST)
    endpoint.script = by_loop(ModelReply("Hello again."))
    assert agents.say(thread, "Forget it", by=ana).status == "completed"
    roles = [message["role"] for message in endpoint.requests[-1]["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]
    assert agents.mind(thread.pk)["history_offset"] == 2


def test_a_conversation_goes_on_with_all_that_was_said(endpoint, thread, ana):
    """S0-71, 72, 78, 79: the thread's memory; messages as people read them have an id each, and say
    in which run and loop.
    """
    endpoint.script = by_loop(ModelReply("Noted.", [LOOK]), ModelReply("It is noted."))
    agents.say(thread, "My name is Ana", by=ana)
    agents.say(thread, "What is my name?", by=ana)
    said = [
        message["content"]
        for message in endpoint.requests[-1]["messages"]
        if message["role"] == "user"
    ]
    assert said == ["My name is Ana", "What is my name?"]
    messages = store.load(Checkpoint.objects.filter(thread=thread).latest("id"))["messages"]
    assert [one["role"] for one in messages] == ["user", "assistant", "assistant"] * 2
    assert len({one["id"] for one in messages}) == 6
    assert [one["loop"] for one in messages[:3]] == [1, 1, 2]
    assert messages[1]["tools"][0]["tool"] == "test_look"
    assert agents.mind(thread.pk)["thread_usage"]["requests"] == 4


def test_what_the_model_gets_wrong_is_told_to_it(endpoint, thread, ana):
    """Malformed JSON, arguments that do not fit, a tool that is not there or fails: the model reads
    why, and nothing was made.
    """
    wrong = [
        ("test_look", '{"what": '),
        ("test_look", {"what": 7}),
        ("no_such_tool", {}),
        ("test_broken", {"what": "x"}),
    ]
    endpoint.script = by_loop(ModelReply("", wrong), ModelReply("I give up."))
    assert agents.say(thread, "Go", by=ana).status == "completed"
    heard = [
        message["content"]
        for message in endpoint.requests[-1]["messages"]
        if message["role"] == "tool"
    ]
    assert [
        "no JSON" in heard[0],
        "do not fit" in heard[1],
        "no tool" in heard[2],
        "shop is closed" in heard[3],
    ] == [True] * 4
    assert not agents.MADE
    assert [one["status"] for one in agents.events(thread, "tool_call_completed")] == ["failed"] * 4


def test_an_argument_named_like_a_secret_is_not_kept_and_the_call_not_made(endpoint, thread, ana):
    endpoint.script = by_loop(
        ModelReply("", [("test_look", {"what": "x", "password": "hunter2hunter2"})]),
        ModelReply("Done."),
    )
    assert agents.say(thread, "Go", by=ana).status == "completed"
    assert not agents.MADE
    assert "hunter2" not in json.dumps(
        [store.load(one) for one in Checkpoint.objects.filter(thread=thread)]
    )


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def test_an_answer_with_a_schema_becomes_the_output(endpoint, thread, ana):
    """What does not fit is told to the model; text that is such an object counts too."""
    agents.load(endpoint.url, output_schema=SCHEMA)
    endpoint.script = by_loop(
        ModelReply("Vienna, I think."),
        ModelReply("", [("final_answer", {"town": "Vienna"})]),
        ModelReply("", [("final_answer", {"city": "Vienna"})]),
    )
    endpoint.script = in_turn(endpoint.script)
    assert agents.say(thread, "Where?", by=ana).status == "completed"
    assert store.load(thread_head(thread))["output"] == {"city": "Vienna"}
    assert len(endpoint.requests) == 3
    endpoint.script = by_loop(ModelReply('```json\n{"city": "Graz"}\n```'))
    agents.say(thread, "And then?", by=ana)
    assert store.load(thread_head(thread))["output"] == {"city": "Graz"}


def test_an_endpoint_may_hold_its_text_to_the_schema(endpoint, thread, ana):
    agents.load(endpoint.url, output_schema=SCHEMA, output_mode="native", tools=[])
    endpoint.script = by_loop(ModelReply('{"city": "Linz"}'))
    assert agents.say(thread, "Where?", by=ana).status == "completed"
    assert store.load(thread_head(thread))["output"] == {"city": "Linz"}
    asked = endpoint.requests[-1]
    assert asked["response_format"]["json_schema"]["schema"]["required"] == ["city"]
    assert not asked.get("tools")


def in_turn(script):
    """`by_loop`, where the model is urged on by messages of its own: those count as none of the
    person's.
    """
    return lambda messages: script(
        [
            {**one, "role": "x"} if place and one["role"] == "user" else one
            for place, one in enumerate(messages)
        ]
    )


def thread_head(thread):
    return Checkpoint.objects.filter(thread=thread).latest("id")


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"model": "nobody:x"}, "model"),
        ({"base_url": "ftp://x"}, "base_url"),
        ({"tools": ["no_such"]}, "tools"),
        ({"limits": {"tokens": 0}}, "limits.tokens"),
        ({"approvals": [{"when": "never", "ask": True}]}, "approvals.0.when"),
        ({"output_schema": {"type": "string"}}, "output_schema"),
        ({"max_loops": 0}, "max_loops"),
        ({"api_key": "sk-1"}, ""),
    ],
)
def test_a_configuration_that_no_agent_can_be_made_of_is_not_saved(config, place):
    with pytest.raises(definitions.TemplateInvalid) as refused:
        definitions.edit_step_template("bad", title="Bad", function="agent", config=config)
    assert list(refused.value.errors) == [f"config.{place}".rstrip(".")]


def test_a_fork_in_the_middle_of_a_turn_has_the_persons_words_once(endpoint, thread, ana):
    """S0-80: and the message that is made anew is another one."""
    endpoint.script = by_loop(ModelReply("I look.", [LOOK]), ModelReply("All is well."))
    run = agents.say(thread, "Go", by=ana)
    between = Checkpoint.objects.get(run_id=run.pk, node_id="agent", status="active")
    before = state_at_head(thread.pk)["messages"]
    agents.go_on(turns.invoke(thread.pk, Turn(checkpoint_id=between.pk), by=ana))
    after = state_at_head(thread.pk)["messages"]
    assert [message["role"] for message in after] == ["user", "assistant", "assistant"]
    assert after[:2] == before[:2]
    assert after[2]["id"] != before[2]["id"]
