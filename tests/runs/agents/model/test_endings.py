"""A model that refuses, is filtered, is cut at its length or says nothing: before, each of these
ended as `completed` without a word.
"""

from __future__ import annotations

import json

import pytest
from django.test import Client

from checkpoints import store
from checkpoints.models import Checkpoint, Event
from hitl.models import Via
from hitl.threads import messages as doors
from runs.agents.model import endings
from tests.databases.whole import file_database as file_database
from tests.servers.model_endpoint import ModelReply, by_loop, in_order
from tests.worlds import agents
from tests.worlds.agents import FINE
from tests.worlds.agents import endpoint as endpoint
from tests.worlds.agents import thread as thread
from tests.worlds.histories.whole_story import broken

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("templates", "file_database"),
]

SORRY = "I cannot help with that."
CUT_CALL = ModelReply("Let me look.", [("test_look", '{"what": "a')], finish="length")


def said_on(thread, user):
    """What API and page tell of the conversation."""
    client = Client()
    client.force_login(user)
    listed = client.get(f"/api/v1/threads/{thread.shown_id}/messages").json()["results"]
    return listed, client.get(f"/threads/{thread.shown_id}/").content.decode()


def state_of(thread):
    return store.load(Checkpoint.objects.filter(thread=thread).latest("id"))


@pytest.mark.parametrize(
    ("answer", "kind", "code", "content"),
    [
        (ModelReply(refusal=SORRY), "refusal", "answer_refused", SORRY),
        (
            ModelReply("As for the", finish="content_filter"),
            "content_filter",
            "answer_filtered",
            "As for the",
        ),
        (ModelReply("", finish="content_filter"), "content_filter", "answer_filtered", ""),
        (
            ModelReply("Half", [("test_pay", {"what": "rent"})], finish="content_filter"),
            "content_filter",
            "answer_filtered",
            "Half",
        ),
        (
            ModelReply("As for", finish="guardrail_intervened"),
            "content_filter",
            "answer_filtered",
            "As for",
        ),
    ],
    ids=[
        "refusal",
        "filter in the text",
        "filter of all",
        "filter behind a call",
        "an endpoint's own word",
    ],
)
def test_a_refusal_and_a_filter_fail_the_run_and_are_said_in_message_log_and_outcome(
    endpoint, thread, ana, answer, kind, code, content
):
    """Before: `completed`, with an empty or half an answer as output; the call that the filter
    stopped in the middle was made.
    """
    endpoint.script = in_order(ModelReply("", [("test_look", {"what": "x"})]), answer, FINE)
    run = agents.say(thread, "Go", by=ana)
    assert (run.status, run.failure_code) == ("failed", code)
    assert (SORRY in run.error) == (kind == "refusal")
    assert sum(agents.MADE.values()) == 1, (
        "the loop before is kept, and no call of this answer was made"
    )
    words = endings.in_words(kind)
    [told] = [data for data in agents.events(thread, "log") if data.get("ended")]
    assert (told["ended"], told["level"]) == (kind, "warning") and words in told["message"]
    listed, page = said_on(thread, ana)
    assert (listed[-1]["content"].strip(), listed[-1]["ended"], listed[1]["ended"]) == (
        content,
        kind,
        "",
    )
    assert words in page
    assert len(endpoint.requests) == 2, (
        "a retry policy does not ask again for what the model refused"
    )
    again = agents.go_on(doors.resume(run.pk, by=ana, via=Via.REST).run)
    assert (again.status, sum(agents.MADE.values()), len(endpoint.requests)) == ("completed", 1, 3)
    assert SORRY not in json.dumps(endpoint.requests[-1]), (
        "the model is asked anew, not told of its refusal"
    )
    assert broken() == {}


def test_what_was_refused_does_not_hold_up_the_next_turn(endpoint, thread, ana):
    endpoint.script = in_order(ModelReply(refusal=SORRY), FINE)
    agents.say(thread, "Go", by=ana)
    assert agents.say(thread, "In other words then", by=ana).status == "completed"
    assert state_of(thread)["output"].strip() == "All is well."


def test_a_filter_that_stops_the_request_itself_is_told_as_one(endpoint, thread, ana):
    """Azure's way: HTTP 400 with the code `content_filter`.

    Before: `model_refused`, as for a request that is wrong.
    """
    endpoint.script = in_order(
        ModelReply(status=400, error={"code": "content_filter", "message": "policy"})
    )
    run = agents.say(thread, "Go", by=ana)
    assert (run.status, run.failure_code) == ("failed", "answer_filtered")


def test_an_endpoint_that_breaks_off_with_a_reason_is_asked_again(endpoint, thread, ana):
    """`finish_reason: error`, as OpenRouter ends an answer whose model went away.

    Before: half an answer, `completed`.
    """
    endpoint.script = in_order(ModelReply("Half of", finish="error"), FINE)
    run = agents.say(thread, "Go", by=ana)
    assert (run.status, run.attempts) == ("pending", 1)


def test_an_answer_that_was_cut_is_continued_and_is_one_output(endpoint, thread, ana):
    """Before: `completed`, with the beginning as the whole output."""
    endpoint.script = in_order(
        ModelReply("One two", finish="length"),
        ModelReply("three four", finish="max_tokens"),
        ModelReply("five."),
    )
    run = agents.say(thread, "Count", by=ana)
    assert run.status == "completed"
    assert state_of(thread)["output"] == "One two three four five. "
    listed, page = said_on(thread, ana)
    assert [one["ended"] for one in listed] == ["", "length", "length", ""]
    assert page.count('<p class="quiet">The answer was cut at the model&#x27;s length limit.') == 2
    assert [one["content"] for one in endpoint.requests[-1]["messages"]][-1] == endings.CONTINUE
    assert sum("cut at" in data["message"] for data in agents.events(thread, "log")) == 2
    agents.say(thread, "And again", by=ana)
    assert state_of(thread)["output"] == "five. ", "what was cut belongs to its own turn"


def test_a_continued_answer_with_nothing_more_to_say_is_whole(endpoint, thread, ana):
    endpoint.script = in_order(ModelReply("One two", finish="length"), ModelReply(""))
    assert agents.say(thread, "Count", by=ana).status == "completed"
    assert state_of(thread)["output"] == "One two "


def test_an_object_that_was_cut_in_the_middle_is_put_together(endpoint, thread, ana):
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    agents.load(endpoint.url, output_schema=schema, output_mode="native", tools=[])
    endpoint.script = in_order(ModelReply('{"city":', finish="length"), ModelReply('"Linz"}'))
    assert agents.say(thread, "Where?", by=ana).status == "completed"
    assert state_of(thread)["output"] == {"city": "Linz"}


def test_an_answer_that_stays_cut_fails_with_what_was_said_and_a_retry_goes_on_from_there(
    endpoint, thread, ana
):
    endpoint.script = by_loop(ModelReply("more", finish="length"))
    run = agents.say(thread, "Write", by=ana)
    assert (run.status, run.failure_code, len(endpoint.requests)) == ("failed", "answer_cut", 4)
    assert "also when it was asked 3 times to go on" in run.error
    listed, _ = said_on(thread, ana)
    assert [one["content"].strip() for one in listed[1:]] == ["more"] * 4
    endpoint.script = by_loop(ModelReply("the end."))
    again = agents.go_on(doors.resume(run.pk, by=ana, via=Via.REST).run)
    assert again.status == "completed"
    assert state_of(thread)["output"] == "more more more more the end. "


@pytest.mark.parametrize(
    "cut",
    [
        CUT_CALL,
        ModelReply("", [("test_look", "")], finish="length"),
        ModelReply(
            "", [("test_look", {"what": "a"}), ("test_pay", {"what": "b"})], finish="length"
        ),
        ModelReply("", [("clock", "")], finish="length"),
    ],
    ids=["half its arguments", "none of them", "calls that look whole", "a tool that needs none"],
)
def test_no_call_of_an_answer_that_was_cut_is_made(endpoint, thread, ana, cut):
    """Before: a call whose arguments had not come yet was made with none, and those before the cut
    were made.
    """
    agents.load(endpoint.url, tools=[*agents.TOOLS, "clock"])
    endpoint.script = in_order(cut, ModelReply("", [("test_look", {"what": "less"})]), FINE)
    assert agents.say(thread, "Go", by=ana).status == "completed"
    assert [data["arguments"] for data in agents.events(thread, "tool_call_started")] == [
        {"what": "less"}
    ]
    assert endpoint.requests[1]["messages"][-1]["content"] == endings.CALL_AGAIN
    assert not any(one.get("tool_calls") for one in endpoint.requests[1]["messages"])


def test_calls_that_are_cut_again_and_again_are_given_up(endpoint, thread, ana):
    endpoint.script = by_loop(CUT_CALL)
    run = agents.say(thread, "Go", by=ana)
    assert (run.status, run.failure_code, len(endpoint.requests), sum(agents.MADE.values())) == (
        "failed",
        "answer_cut",
        4,
        0,
    )


def test_length_that_was_used_up_by_thoughts_is_not_asked_for_again(endpoint, thread, ana):
    endpoint.script = in_order(ModelReply("", thinking="hm hm", finish="length"), FINE)
    run = agents.say(thread, "Go", by=ana)
    assert (run.failure_code, len(endpoint.requests)) == ("answer_cut", 1)


@pytest.mark.parametrize(
    "nothing",
    [ModelReply(""), ModelReply(" \n "), ModelReply("", thinking="So be it.")],
    ids=["empty", "blank", "thoughts alone"],
)
def test_an_empty_answer_is_asked_for_once_more_and_then_said(endpoint, thread, ana, nothing):
    """Before: `completed`, output empty."""
    endpoint.script = in_order(nothing, FINE)
    run = agents.say(thread, "Go", by=ana)
    assert (run.status, state_of(thread)["output"].strip()) == ("completed", "All is well.")
    assert [one["ended"] for one in said_on(thread, ana)[0]] == ["", "empty", ""]
    endpoint.script = in_order(nothing)
    run = agents.say(thread, "Again", by=ana)
    assert (run.status, run.failure_code) == ("failed", "answer_empty")
    assert "twice" in run.error
    assert len(endpoint.requests) == 4


def test_an_answer_that_is_cut_in_the_last_loop_says_so_and_not_that_loops_ran_out(
    endpoint, thread, ana
):
    agents.load(endpoint.url, max_loops=1)
    endpoint.script = by_loop(ModelReply("One two", finish="length"))
    run = agents.say(thread, "Go", by=ana)
    assert (run.failure_code, len(endpoint.requests)) == ("answer_cut", 1)
    assert Event.objects.filter(thread=thread, kind="run_failed").count() == 1
