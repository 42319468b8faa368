"""`chat-agent` as it ships: over REST and on the page, offline; and what a loop costs, keeps and
leaves whole.
"""

from __future__ import annotations

import datetime as dt
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints import ids, store
from checkpoints.events import log
from checkpoints.models import Checkpoint, Event, EventKind, Thread
from hitl.models import Via
from hitl.threads import messages as doors
from runs import definitions
from runs import services as runs
from runs.models import Run
from runs.threads import turns
from runs.threads.turns import Turn
from tests.conftest import drive, pause_of, state_at_head
from tests.databases.whole import file_database as file_database
from tests.servers.model_endpoint import ModelReply, by_loop, serving
from tests.worlds import agents
from tests.worlds.agents import thread as thread
from tests.worlds.histories.whole_story import broken
from tests.worlds.repositories import make_repository

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("templates", "file_database"),
]


def post(client, thread, text):
    return client.post(
        f"/api/v1/threads/{thread.shown_id}/runs",
        {"template": "chat-agent", "input": {"input": text}},
        format="json",
    )


def last_run(thread):
    return agents.go_on(Run.objects.filter(thread=thread).latest("id"))


def test_a_chat_over_rest_works_without_a_model(thread, api, ana):
    """S0-1, 7, 40, 75: it says what it is, uses tools, and goes on with the next message; its runs
    wait in the queue of agents. S0-81: all by the one route that begins runs.
    """
    client = api(ana)
    assert post(client, thread, "hello").status_code == 201
    assert Run.objects.get(thread=thread).queue == "agents"
    assert last_run(thread).status == "completed"
    assert "scripted model" in state_at_head(thread.pk)["output"]
    post(client, thread, "what time is it, and calculate 6 * 7")
    assert last_run(thread).status == "completed"
    assert "42" in state_at_head(thread.pk)["output"]
    post(client, thread, "fetch https://example.org")
    run = last_run(thread)
    assert [call["tool"] for call in agents.asked(run).calls] == ["fetch"]
    assert post(client, thread, "REJECT").json()["how"] == "answered"
    assert last_run(thread).status == "cancelled"


def test_a_new_thread_with_the_same_user_in_the_same_session_knows_what_was_said(
    api, ana, ben, team
):
    """S0-79, S0-78, C31: memory was a thread's alone, so a program that opens a thread per visit
    began anew each time.

    Nobody else's conversation is known by that: not another user's or session's, nor that of
    another account here, or another team.
    """

    def heard(client, words, **who):
        opened = client.post("/api/v1/threads", who, format="json")
        assert opened.status_code == 201 and {**opened.json(), **who} == opened.json()
        thread = Thread.objects.latest("id")
        assert post(client, thread, words).status_code == 201
        assert last_run(thread).status == "completed"
        state = state_at_head(thread.pk)
        told = "".join(
            str(part.get("content"))
            for one in state["agent"]["agent"]["prompt_messages"]
            for part in one["parts"]
        )
        said = [one["content"] for one in state["messages"] if one["role"] == "user"]
        assert all(one in told for one in said), "what is shown is what the model was told"
        return said

    client, both = api(ana), {"user_id": "u-1", "session_id": "s-1"}
    assert heard(client, "My name is Ada.", **both) == ["My name is Ada."]
    assert heard(client, "And mine?", **both) == ["My name is Ada.", "And mine?"]
    assert heard(client, "Third", **both) == ["My name is Ada.", "And mine?", "Third"]
    lines = Event.objects.filter(thread=Thread.objects.latest("id"), kind="log")
    assert any("with the same user in the same session" in event.data["message"] for event in lines)
    assert heard(client, "Other user", user_id="u-2", session_id="s-1") == ["Other user"]
    assert heard(client, "Other session", user_id="u-1", session_id="s-2") == ["Other session"]
    assert heard(client, "User alone", user_id="u-1") == ["User alone"]
    assert heard(client, "Nobody") == ["Nobody"] and heard(client, "Nobody again") == [
        "Nobody again"
    ]
    assert heard(client, "In a team", **both, team=team.name) == ["In a team"]
    assert heard(api(ben), "Another account", **both) == ["Another account"]
    assert broken() == {}


@pytest.mark.one_database
def test_an_input_cannot_choose_whose_memory_is_read(api, ana):
    """S0-79, C31: an input has them in the document. Here they were taken, and nothing came of
    them; now it is said where they belong.
    """
    client, who = api(ana), {"user_id": "u-1", "session_id": "s-1"}

    def visit(opened, words, **named):
        body = {"workflow_uri": "workflows/chat-agent.yaml", "input": {"input": words, **named}}
        return client.post(f"/api/v1/threads/{opened}/runs", body, format="json")

    def refused(*visited, **named):
        answer = visit(*visited, **named)
        assert (answer.status_code, answer.json()["code"]) == (422, "input_invalid")
        assert answer.json()["errors"].keys() == {f"input.{name}" for name in named}
        assert "POST /api/v1/threads" in answer.json()["detail"]

    alone = client.post("/api/v1/threads", {}, format="json").json()["id"]
    held = client.post("/api/v1/threads", who, format="json").json()["id"]
    refused(alone, "hello", **who)
    refused(held, "hello", user_id="u-2")
    refused(held, "hello", user_id=7)
    assert not Run.objects.exists()
    assert visit(held, "ask me", **who).status_code == 201, "the same is no other"
    last_run(Thread.objects.get(pk=ids.parse("thr", held)))
    refused(held, "Only for Europe", session_id="s-2")
    answered = visit(held, "Only for Europe", **who).json()
    assert answered.get("how") == "answered", answered["detail"]


@pytest.mark.one_database
def test_a_template_that_declares_a_user_reads_it_itself(api, ana):
    """S0-79: what its author asks an input for is the workflow's, and no memory's."""
    shipped = definitions.current("chat-agent")
    fields = {**shipped.input_schema["properties"], "user_id": {"type": "integer"}}
    definitions.edit_template("own", steps=shipped.steps, needs_repository=False,
                              input_schema={"type": "object", "properties": fields})  # fmt: skip
    client = api(ana)
    opened = client.post("/api/v1/threads", {}, format="json").json()["id"]
    for number in (1, 2):
        body = {"template": "own", "input": {"input": "hello", "user_id": number}}
        answer = client.post(f"/api/v1/threads/{opened}/runs", body, format="json")
        assert answer.status_code == 201, answer.json()
        last_run(Thread.objects.get(pk=ids.parse("thr", opened)))


def test_its_question_is_answered_on_the_page(thread, page, ana):
    """S0-45..47: in words through the card's form, without JavaScript, or by Approve alone."""
    for answer, heard in (
        ({"action": "answer", "input": "Only for Europe"}, "Only for Europe"),
        ({"action": "approve"}, "APPROVE"),
    ):
        turns.invoke(thread.pk, Turn(template="chat-agent", input={"input": "ask me"}), by=ana)
        pause = agents.asked(last_run(thread))
        shown = page.get(f"/threads/{thread.shown_id}/").content.decode()
        assert "Should I include market data?" in shown
        response = page.post(
            f"/pauses/{pause.shown_id}/decide", {"revision": 1, **_fields(shown, answer)}
        )
        assert response.status_code == 302, response.content.decode()
        assert last_run(thread).status == "completed"
        assert heard in state_at_head(thread.pk)["output"]


def _fields(shown, answer):
    """The form's own name of the input."""
    [name] = set(re.findall(r'name="([^"]*input[^"]*)"', shown)) or {"input"}
    return {name if key == "input" else key: value for key, value in answer.items()}


@pytest.mark.parametrize("frequency", ["step", "failure"])
def test_every_promise_holds_at_every_stop_of_a_turn(thread, ana, frequency):
    """S0-65: with a question midway, an approval, a fork, a cancellation; and however often
    checkpoints are written.
    """
    with serving(
        by_loop(ModelReply("", ASK), ModelReply("", ASK[:1]), ModelReply("Done."))
    ) as endpoint:
        agents.load(endpoint.url)
        definitions.edit_template("agent-test", frequency=frequency)
        run = agents.say(thread, "Go", by=ana)
        assert (run.status, broken()) == ("paused", {})
        at = agents.asked(run).checkpoint_id
        while run.status == "paused":
            doors.say(thread.pk, Turn(input={"input": "APPROVE"}), by=ana, via=Via.REST)
            run = agents.go_on(run)
            assert broken() == {}
        assert run.status == "completed", run.error
        fork = agents.go_on(turns.invoke(thread.pk, Turn(checkpoint_id=at), by=ana))
        doors.say(thread.pk, Turn(input={"input": "APPROVE"}), by=ana, via=Via.REST)
        agents.go_on(fork)
        doors.say(thread.pk, Turn(input={"input": "REJECT"}), by=ana, via=Via.REST)
        assert broken() == {}


ASK = [
    ("test_look", {"what": "a"}),
    ("test_pay", {"what": "rent"}),
    ("ask_human", {"question": "Go on?"}),
]


def test_a_loop_costs_few_statements(thread, ana):
    """The request, its call's beginning and its end are a commit each; the step's own is one
    more.
    """
    with serving(
        by_loop(ModelReply("", [("test_look", {"what": "a"})]), ModelReply("Done."))
    ) as endpoint:
        agents.load(endpoint.url)
        agents.say(thread, "Go", by=ana)
        run = turns.invoke(thread.pk, Turn(template="agent-test", input={"input": "Go"}), by=ana)
        with CaptureQueriesContext(connection) as queries:
            agents.go_on(run)
    records = [
        query["sql"]
        for query in queries
        if query["sql"].startswith("INSERT") and "checkpoints_memo" in query["sql"]
    ]
    assert len(records) == 3, "two requests, one call"
    commits = sum(query["sql"].startswith("COMMIT") for query in queries)
    assert commits <= 12, (
        "claim; of each loop what was streamed, the request and the step; of the call its "
        "beginning and its end"
    )


def test_bytes_per_loop_stay_flat(thread, ana):
    """SPEC §4: a long conversation makes its checkpoints no bigger; a snapshot now and then
    apart.
    """
    with serving(
        by_loop(
            ModelReply("x " * 50, [("test_look", {"what": "y" * 500})]), ModelReply("Done. " * 50)
        )
    ) as endpoint:
        agents.load(endpoint.url)
        for _ in range(12):
            agents.say(thread, "z" * 300, by=ana)
    sizes = list(
        Checkpoint.objects.filter(thread=thread, is_snapshot=False, node_id="agent")
        .order_by("id")
        .values_list("size", flat=True)
    )
    assert max(sizes[-6:]) < 1.5 * max(sizes[:6]), sizes


def test_work_in_a_workspace_is_committed_by_loop_and_kept_over_a_question(ana, team, tmp_path):
    """S0-62, 63: what a lost worker did to files is put back and done again in its order; the
    commit is in the checkpoint.
    """
    origin = make_repository(tmp_path / "origin", {"a.txt": "one\n"})
    write = ("write_file", {"path": "b.txt", "text": "two\n"})
    look = ("read_file", {"path": "b.txt"})
    story = by_loop(
        ModelReply("I write.", [write, ("ask_human", {"question": "Go on?"})]),
        ModelReply("I look.", [look]),
        ModelReply("Done."),
    )
    with serving(story) as endpoint:
        agents.load(
            endpoint.url,
            slug="agent-code",
            tools=["write_file", "read_file", "ask_human"],
            approvals=[{"when": "always", "ask": False}],
        )
        definitions.edit_template("agent-code", needs_repository=True)
        order = drive(
            runs.submit(
                "agent-code", by=ana, team=team, request="Write b", repository_url=str(origin)
            )
        )
        assert order.status == "paused"
        assert pause_of(order).checkpoint.metadata["git"]["commit"]
        doors.say(order.thread_id, Turn(input={"input": "APPROVE"}), by=ana, via=Via.REST)
        order = drive(order)
        assert order.status == "completed"
    read = [
        one
        for one in agents.events(Thread.objects.get(pk=order.thread_id), "tool_call_completed")
        if one["tool"] == "read_file"
    ]
    assert "two" in read[0]["result"]
    assert Event.objects.filter(thread=order.thread_id, kind="tool_call_started").count() == 3
    assert (
        store.load(Checkpoint.objects.filter(thread=order.thread_id).latest("id"))["output"].strip()
        == "Done."
    )


def test_a_model_is_told_what_was_said_and_cut_off_before_an_interruption(thread, ana):
    """S0-79, 80: the person's words and the streamed part of the answer, though no loop of that run
    was ever kept.
    """
    thread.when_busy = "interrupt"
    thread.save()
    with serving(by_loop(ModelReply(text="Once upon a time."))) as endpoint:
        agents.load(endpoint.url)
        agents.say(thread, "Hello", by=ana)
        for words in ("Tell me a long story", "No, a longer one"):
            began = doors.say(thread.pk, Turn(input={"input": words}), by=ana, via=Via.REST).run
            held = {
                "status": "running",
                "epoch": 1,
                "lease_owner": "x",
                "lease_until": timezone.now() + dt.timedelta(minutes=1),
            }
            Run.objects.filter(pk=began.pk).update(**held)
            at = {"step": "agent", "loop_num": 1}
            log.append(
                thread.pk,
                began.pk,
                [
                    (EventKind.STEP_STARTED, at),
                    (EventKind.STREAMING_CHUNK, {**at, "content": "There was"}),
                ],
            )
        agents.go_on(
            doors.say(thread.pk, Turn(input={"input": "Shorter"}), by=ana, via=Via.REST).run
        )
        heard = [
            (one["role"], one["content"])
            for one in endpoint.requests[-1]["messages"]
            if one["role"] != "system"
        ]
        cut = ("assistant", "There was\n\n[The person interrupted this answer.]")
        assert heard[:2] == [("user", "Hello"), ("assistant", "Once upon a time. ")]
        assert heard[2:] == [
            ("user", "Tell me a long story"),
            cut,
            ("user", "No, a longer one"),
            cut,
            ("user", "Shorter"),
        ]
        agents.say(thread, "Again", by=ana)
        later = [
            one["content"] for one in endpoint.requests[-1]["messages"] if one["role"] == "user"
        ]
        assert later == ["Hello", "Tell me a long story", "No, a longer one", "Shorter", "Again"]
    assert broken() == {}
