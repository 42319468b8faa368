"""The chat hook that S0 prints, at every kind of question: its dialog opens with
`approval_requested`, its input goes over the socket, and the run goes on.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.utils import timezone

from hitl.decisions.deadlines import outcomes
from runs.engine.advance import advance
from runs.workflows.base import Ask, Done, Report
from runs.workflows.tool_calls import Call
from runs.workflows.wait_for_input import ask_about_calls
from tests.conftest import drive
from tests.databases.whole import file_database as file_database
from tests.hitl.live.sockets import as_ana as as_ana
from tests.hitl.live.sockets import elsewhere, receive, socket
from tests.worlds.deadlines import asked as asked
from tests.worlds.scripted_step import order_that as order_that

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("file_database")]


class Hook:
    """What the printed hook does with each event, without React."""

    def __init__(self) -> None:
        self.waiting, self.loading, self.asked = False, True, ""

    def hear(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "approval_requested":
                self.waiting, self.asked = True, event["data"]["prompt"]
            case "run_completed" | "run_failed":
                self.waiting = self.loading = False


def verdict(state: Any, context: Any) -> Any:
    return Ask(question="Go on?", answers={"approve": ""}, report=Report(content="Here."))


def words(state: Any, context: Any) -> Any:
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return Ask(
        question="Which city?",
        answers={"answer": ""},
        report=Report(content="Here."),
        required_inputs=city,
    )


def tool(risk: Any) -> Any:
    def step(state: Any, context: Any) -> Any:
        call = Call(id="1", tool="deploy", arguments={"to": "live"}, risk=risk)
        asked = ask_about_calls(state, context, calls=[call], question="Deploy?")
        return asked or Done()

    return step


@pytest.mark.parametrize(
    ("step", "prompt", "content"),
    [
        (verdict, "Go on?", "APPROVE"),
        (words, "Which city?", "Rome"),
        (tool("normal"), "Deploy?", "APPROVE"),
    ],
    ids=["verdict", "words", "tool"],
)
async def test_its_dialog_opens_answers_and_goes_on(as_ana, order_that, step, prompt, content):
    """S0-22, S0-30, S0-36, S0-38, S0-41; S2-19: a client of that document heard the question for
    data alone, and a client of this one nothing of it.
    """
    order = await elsewhere(lambda: drive(order_that(step)))
    hook, run = Hook(), order.latest_run.shown_id
    async with socket(f"/runs/{run}/stream/ws", as_ana) as communicator:
        while not hook.waiting:
            hook.hear((await receive(communicator, 1))[0])
        assert hook.asked == prompt
        await communicator.send_json_to({"type": "input", "content": content})
        hook.waiting = False
        while (got := (await receive(communicator, 1))[0]).get("type") != "accepted":
            assert got.get("type") != "refused", got
            hook.hear(got)
        await elsewhere(lambda: advance(order.latest_run_id, budget=60))
        while hook.loading:
            hook.hear((await receive(communicator, 1))[0])
    assert not hook.waiting


async def test_a_word_that_names_no_call_makes_none_of_high_risk(as_ana, order_that):
    """S0-22, F3: its dialog opens as well, and is told what to send."""
    order = await elsewhere(lambda: drive(order_that(tool("high"))))
    async with socket(f"/runs/{order.latest_run.shown_id}/stream/ws", as_ana) as communicator:
        heard = []
        while "approval_requested" not in heard:
            heard.append((await receive(communicator, 1))[0]["event"])
        await communicator.send_json_to({"type": "input", "content": "APPROVE"})
        while (got := (await receive(communicator, 1))[0]).get("type") != "refused":
            assert got.get("type") != "accepted", got
    assert (got["problem"]["status"], got["problem"]["code"]) == (422, "unknown_answer")


def _expire():
    outcomes.fire_due(now=timezone.now() + dt.timedelta(hours=1))


@pytest.mark.parametrize("ending", ["run_cancelled", "run_expired"])
async def test_it_ends_where_its_run_was_rejected_or_nobody_answered(as_ana, asked, ending):
    """S0-26, S0-38, C6, C7: it knows `run_completed` and `run_failed`, so after its own REJECT it
    said "Processing..." for good. The log has one ending, and only its address tells two.
    """
    order = await elsewhere(lambda: asked(deadline={"after": "PT1H"}))
    hook, run = Hook(), order.latest_run.shown_id
    heard: list[dict[str, Any]] = []
    async with socket(f"/api/v1/runs/{run}/stream/ws", as_ana) as communicator:
        while not hook.waiting:
            hook.hear((await receive(communicator, 1))[0])
        if ending == "run_expired":
            await elsewhere(_expire)
        else:
            await communicator.send_json_to({"type": "input", "content": "REJECT"})
        while not heard or heard[-1]["data"].get("status") not in {"cancelled", "failed"}:
            if "event" in (got := (await receive(communicator, 1))[0]):
                heard.append(got)
                hook.hear(got)
    assert (hook.loading, hook.waiting) == (False, False)
    last, again = heard[-3:-1]
    assert (last["event"], again["event"]) == (ending, "run_failed")
    assert again["data"] == last["data"] and "seq" not in again
    async with socket(f"/ws/runs/{run}/stream", as_ana) as communicator:
        events = await receive(communicator, heard[-1]["seq"])
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["event"] for event in events].count("run_failed") == 0
