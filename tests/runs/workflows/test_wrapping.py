"""Streams of agents that know nothing of Waystation, as steps: told, kept, asked about and gone on
with.
"""

from __future__ import annotations

import pytest

from checkpoints.events import log
from checkpoints.models import Checkpoint
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs.agents.wrapping import wrap
from tests.conftest import drive, pause_of
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

DEPLOY = {"promptId": "push-pr-42", "prompt": "About to push PR #42 — approve?", "step": 2}


def agent(past):
    """A plain generator: looks, asks, pushes, and says what came of it."""
    heard = {one["event"]: one["data"] for one in past}
    if "looked" not in heard:
        yield {"event": "streaming_chunk", "data": {"content": "Let me look."}}
        yield {"event": "tool_call_started", "data": {"id": "1", "tool": "look", "arguments": {}}}
        yield {"event": "looked", "data": {"files": 3}}
    if "human_input" not in heard:
        yield {"event": "await_human_input", "data": DEPLOY}
        raise AssertionError("nobody is waited for in here")
    yield {
        "event": "final_answer",
        "data": {"output": f"{heard['looked']['files']} files, {heard['human_input']['response']}"},
    }


async def agent_that_awaits(past):
    for one in agent(past):
        yield one


def respond(client, run, response):
    words = {"traceId": run, "promptId": "push-pr-42", "response": response}
    return client.post("/api/v1/resume", words, format="json")


@pytest.mark.django_db(transaction=True)  # what is streamed has a connection of its own
@pytest.mark.parametrize("stream", [agent, agent_that_awaits])
def test_any_agents_stream_is_told_kept_and_asked_about(order_that, ana, api, stream):
    """S2-1, S2-3, S2-4, S2-13, S2-18..24: only our own agent's loops were; a stream of another
    framework could not be wrapped. Its checkpoints, its log and its question are the three building
    blocks.
    """
    made: list[None] = []

    def step(state, context):
        made.append(None)
        return wrap(state, context, stream)

    order = drive(order_that(step))
    pause = pause_of(order)
    assert (pause.question, len(made)) == (DEPLOY["prompt"], 2)
    told = {event["event"]: event["data"] for event in log.told_after(order.thread_id, 0)}
    assert told["streaming_chunk"]["content"] == "Let me look."
    assert told["tool_call_started"]["tool"] == "look"
    assert told["await_human_input"]["promptId"] == "push-pr-42"
    own = [event["data"] for event in log.told_after(order.thread_id, 0) if event["event"] == "log"]
    assert {"event": "looked", "data": {"files": 3}}.items() <= next(
        one for one in own if one["message"] == "looked"
    ).items(), "each event of the stream is told, its own kinds too"
    kept = Checkpoint.objects.filter(run_id=pause.run_id, node_id=pause.step).count()
    assert kept >= 2, "one of what it looked at, one of its question"
    assert respond(api(ana), order.latest_run.shown_id, {"response": "go"}).status_code == 200
    order = drive(order)
    assert (order.status, state_of(order)["output"]) == ("completed", "3 files, go")


def test_after_a_crash_it_is_made_anew_from_what_was_kept(order_that):
    """S2-5: the generator is gone with its process; its steps are not repeated."""
    seen = []

    def counting(past):
        seen.append(len(past))
        for number in range(len(past), 3):
            yield {"event": "step_completed", "data": {"number": number}}
        yield {"event": "final_answer", "data": {"output": "done"}}

    order = drive(order_that(lambda state, context: wrap(state, context, counting)))
    assert (order.status, state_of(order)["output"], seen) == ("completed", "done", [0, 1, 2, 3])


@pytest.mark.parametrize("nonsense", ["words", {"event": 7}, {"event": "x", "data": "words"}, None])
def test_what_is_no_event_fails_the_step_in_words(order_that, nonsense):
    """S2-3."""
    order = drive(order_that(lambda state, context: wrap(state, context, lambda past: [nonsense])))
    assert (order.status, order.latest_run.failure_code) == ("failed", "stream_invalid")
    assert "which is no event" in order.latest_run.error


def test_a_stream_that_just_ends_is_an_answer_too(order_that):
    """S2-3: also one without any event."""
    assert (
        drive(order_that(lambda state, context: wrap(state, context, lambda past: []))).status
        == "completed"
    )


def test_a_step_that_is_sent_back_begins_anew_with_the_feedback(order_that, ana):
    """S4-29: what the first round ended with is over."""

    def heard(past):
        yield {
            "event": "final_answer",
            "data": {"output": [one["data"]["response"] for one in past]},
        }

    order = drive(
        order_that(
            lambda state, context: wrap(state, context, heard),
            pause_after=True,
            pause_phase="awaiting_review_approval",
        )
    )
    assert state_of(order)["output"] == []
    services.decide(pause_of(order).pk, Answer("revise", Via.PAGE, feedback="shorter"), by=ana)
    assert state_of(drive(order))["output"] == ["shorter"]


def test_an_event_that_cannot_be_kept_fails_the_step_in_words(order_that):
    """S2-13, F14."""
    for name in ("looked", "tool_call_started"):
        stream = [{"event": name, "data": {"socket": object()}}]
        order = drive(order_that(lambda s, c, stream=stream: wrap(s, c, lambda past: stream)))
        assert order.latest_run.failure_code == "stream_invalid", order.latest_run.error
        assert "socket" in order.latest_run.error
