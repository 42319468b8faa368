"""Answers and input over a socket: the same rules as behind every other door, and a reply that says
what was committed.
"""

from __future__ import annotations

import asyncio
import json

import pytest
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pydantic import BaseModel, model_validator

from hitl.live import consumers
from hitl.models import ApiToken, Decision
from project.asgi import application
from runs.definitions import loading
from runs.engine.advance import advance
from runs.models import Pause, Run
from runs.workflows import schema_of
from tests.conftest import drive, pause_of
from tests.databases.whole import file_database as file_database
from tests.hitl.live.sockets import PATIENCE, bearer, closed_with, elsewhere, receive, socket, write
from tests.hitl.live.sockets import as_ana as as_ana

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("file_database")]


@pytest.fixture
def end(paused):
    """The address of the run's socket, from where the run waits."""
    return f"/ws/runs/{paused.latest_run.shown_id}/stream?after={paused.thread.last_seq}"


def decision(pause, action, **more):
    return {"type": "decision", "id": "c1", "pause_id": pause.shown_id, "decision": action, **more}


async def say(communicator, message):
    """The reply to a message, and the events that came before it."""
    await communicator.send_json_to(message)
    events = []
    while "type" not in (got := (await receive(communicator, 1))[0]):
        events.append(got)
    return got, events


async def test_an_answer_is_acknowledged_with_what_was_committed(end, as_ana, paused):
    """S4-8, F28: the reply is the decision itself, with its place in the ledger."""
    pause = await elsewhere(lambda: pause_of(paused))
    async with socket(end, as_ana) as communicator:
        reply, _ = await say(communicator, decision(pause, "approve", revision=1))
    assert (reply["type"], reply["id"]) == ("accepted", "c1")
    [stored] = await elsewhere(lambda: list(Decision.objects.select_related("decided_by")))
    assert reply["result"]["id"] == stored.shown_id
    assert (reply["result"]["digest"], stored.via, stored.action, stored.decided_by.username) == (
        stored.digest,
        "socket",
        "approve",
        "ana",
    )


REFUSED: list[tuple[dict[str, object], int, str]] = [
    ({"decision": "revise"}, 422, "feedback_required"),
    ({"decision": "dance"}, 422, "unknown_answer"),
    ({"decision": "approve", "revision": 7}, 409, "revision_mismatch"),
    ({"decision": "approve", "pause_id": "pse_" + "0" * 26}, 404, "not_found"),
    ({"decision": "approve", "input": {"a": 1}}, 422, "input_unexpected"),
    ({"decision": "approve", "revision": "x"}, 400, "invalid"),
]


async def test_what_cannot_be_taken_is_refused_as_rest_refuses_it(end, as_ana, paused):
    pause = await elsewhere(lambda: pause_of(paused))
    async with socket(end, as_ana) as communicator:
        for message, status, code in REFUSED:
            reply, events = await say(communicator, decision(pause, **{"action": "", **message}))
            assert (reply["type"], events) == ("refused", []), message
            assert (reply["problem"]["status"], reply["problem"]["code"]) == (status, code)
    assert await elsewhere(lambda: pause_of(paused).status) == "open"


async def test_the_second_answer_is_told_who_won(end, as_ana, paused, ben):
    """P1."""
    pause, as_ben = await elsewhere(lambda: (pause_of(paused), bearer(ben)))
    async with socket(end, as_ana) as one, socket(end, as_ben) as other:
        assert (await say(one, decision(pause, "approve")))[0]["type"] == "accepted"
        problem = (await say(other, decision(pause, "cancel")))[0]["problem"]
    assert (problem["status"], problem["code"], problem["decision"], problem["decided_by"]) == (
        409,
        "pause_closed",
        "approve",
        "ana",
    )


async def test_of_two_answers_at_once_one_is_taken(end, as_ana, paused, ben):
    """P1."""
    pause, as_ben = await elsewhere(lambda: (pause_of(paused), bearer(ben)))
    async with socket(end, as_ana) as one, socket(end, as_ben) as other:
        replies = await asyncio.gather(
            say(one, decision(pause, "approve")), say(other, decision(pause, "cancel"))
        )
    assert sorted(reply["type"] for reply, _ in replies) == ["accepted", "refused"]
    assert await elsewhere(Decision.objects.count) == 1


async def test_a_read_token_listens_and_decides_nothing(end, paused, ana):
    pause, reading = await elsewhere(
        lambda: (pause_of(paused), bearer(ana, scope=ApiToken.Scope.READ))
    )
    async with socket(end, reading) as communicator:
        for message in (decision(pause, "approve"), {"type": "input", "content": "APPROVE"}):
            problem = (await say(communicator, message))[0]["problem"]
            assert (problem["status"], problem["code"]) == (403, "scope_missing")
        await elsewhere(lambda: write(paused, "heard"))
        assert (await receive(communicator, 1))[0]["data"] == {"message": "heard"}
    assert not await elsewhere(Decision.objects.exists)


async def test_words_over_the_runs_socket_answer_its_question(end, as_ana, paused):
    """S0-41: the reply says what the words were taken for (C16)."""
    async with socket(end, as_ana) as communicator:
        reply, _ = await say(communicator, {"type": "input", "id": 7, "content": "shorter, please"})
    assert (reply["type"], reply["id"], reply["result"]["how"], reply["result"]["decision"]) == (
        "accepted",
        7,
        "answered",
        "revise",
    )
    assert await elsewhere(lambda: Decision.objects.get().feedback) == "shorter, please"


async def test_words_over_a_threads_socket_answer_it_too(as_ana, paused):
    async with socket(
        f"/ws/threads/{paused.thread.shown_id}/stream?after={paused.thread.last_seq}", as_ana
    ) as communicator:
        reply, _ = await say(communicator, {"type": "input", "content": "APPROVE"})
    assert reply["result"]["decision"] == "approve"


async def test_the_inbox_takes_answers_and_no_input(as_ana, paused):
    pause = await elsewhere(lambda: pause_of(paused))
    async with socket("/ws/inbox", as_ana) as communicator:
        await receive(communicator, 1)
        await communicator.send_json_to({"type": "input", "content": "APPROVE"})
        assert (await receive(communicator, 1))[0]["problem"]["code"] == "not_here"
        await communicator.send_json_to(decision(pause, "approve"))
        replies = await receive(communicator, 2)
    assert {reply["type"] for reply in replies} == {"accepted", "inbox"}


async def test_a_ping_is_answered_and_who_talks_too_much_is_told_so_and_heard_later(
    end, as_ana, monkeypatch
):
    """F27."""
    monkeypatch.setattr(consumers, "WITHIN", 60.0)
    async with socket(end, as_ana) as communicator:
        for _ in range(consumers.HEARD + 1):
            await communicator.send_json_to({"type": "ping", "id": "p"})
        *replies, last = await receive(communicator, consumers.HEARD + 1)
        assert replies == [{"type": "pong", "id": "p"}] * consumers.HEARD
        assert last["problem"]["code"] == "throttled"
        monkeypatch.setattr(consumers, "WITHIN", 0.0)
        assert (await say(communicator, {"type": "ping"}))[0]["type"] == "pong"


async def test_a_token_comes_as_a_subprotocol_but_never_in_the_address(end, paused, ana):
    """C20: addresses are in logs; nor is the token sent back as the protocol."""
    secret = (await elsewhere(lambda: bearer(ana)))[0][1].decode().split()[1]
    communicator = WebsocketCommunicator(
        application, end, subprotocols=["waystation", f"bearer.{secret}"]
    )
    assert await communicator.connect(timeout=PATIENCE) == (True, "waystation")
    await communicator.send_json_to({"type": "ping"})
    assert (await receive(communicator, 1))[0]["type"] == "pong"
    await communicator.disconnect(timeout=PATIENCE)
    for name in ("token", "access_token", "authorization"):
        assert await closed_with(f"{end}&{name}={secret}") == 4401


async def test_a_runs_socket_tells_that_run_to_its_end_and_closes(make_order, as_ana):
    """S0-9, S0-32: also under S0's path."""
    order = await elsewhere(lambda: drive(make_order("writing-quick")))
    for path in ("ws/runs/{}/stream", "runs/{}/stream/ws", "api/v1/runs/{}/stream/ws"):
        async with socket("/" + path.format(order.latest_run.shown_id), as_ana) as communicator:
            events = await receive(communicator, order.thread.last_seq)
            told = [event["event"] for event in events[-2:]]
            assert told == ["run_completed", "checkpoint_created"], path
            assert (await communicator.receive_output(timeout=PATIENCE))["code"] == 1000, path


async def test_a_socket_that_lost_only_the_end_of_its_run_is_told_that_it_is_over(
    make_order, as_ana
):
    """P9, F27: it has every event, and would wait for ever."""
    order = await elsewhere(lambda: drive(make_order("writing-quick")))
    run, last = order.latest_run.shown_id, order.thread.last_seq
    for after in (last, last + 5):
        async with socket(f"/ws/runs/{run}/stream?after={after}", as_ana) as communicator:
            assert (await communicator.receive_output(timeout=PATIENCE))["code"] == 1000, after


async def test_a_runs_socket_is_silent_about_other_runs_of_its_thread(make_order, as_ana):
    order = await elsewhere(lambda: drive(make_order("writing-quick")))
    head = await elsewhere(lambda: order.thread.head.parent)

    def again():
        from runs import services as runs

        run = runs.fork(head.pk, by=User.objects.get(username="ana"), reason="again")
        advance(run.pk, budget=60)
        return run.shown_id, Run.objects.get(pk=run.pk).thread.last_seq

    run, last = await elsewhere(again)
    async with socket(f"/ws/runs/{run}/stream", as_ana) as communicator:
        seen = []
        while (message := await communicator.receive_output(timeout=PATIENCE))[
            "type"
        ] == "websocket.send":
            seen.append(json.loads(message["text"]))
    assert {event["run_id"] for event in seen} == {run}
    assert [event["seq"] for event in seen] == list(range(last - len(seen) + 1, last + 1))


async def test_who_loses_the_right_is_shown_out(end, paused, ben, monkeypatch):
    """A team that was left closes what it opened, while it is open."""
    monkeypatch.setattr(consumers, "RECHECK_EVERY", 0.1)
    as_ben = await elsewhere(lambda: bearer(ben))
    async with socket(end, as_ben) as communicator:
        assert await communicator.receive_nothing(0.3)
        await elsewhere(ben.groups.clear)
        assert (await communicator.receive_output(timeout=PATIENCE))["code"] == 4403


@pytest.mark.parametrize("how", ["revoked", "locked out", "logged out"])
async def test_who_is_not_logged_in_any_more_is_shown_out(end, ana, how, monkeypatch):
    monkeypatch.setattr(consumers, "RECHECK_EVERY", 0.1)
    client = Client()

    def log_in():
        client.force_login(ana)
        return [(b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode())]

    def end_it():
        if how == "revoked":
            ApiToken.objects.update(revoked_at=timezone.now())
        elif how == "locked out":
            User.objects.filter(pk=ana.pk).update(is_active=False)
        else:
            client.logout()

    headers = await elsewhere(log_in if how == "logged out" else lambda: bearer(ana))
    async with socket(end, headers) as communicator:
        assert await communicator.receive_nothing(0.3)
        await elsewhere(end_it)
        assert (await communicator.receive_output(timeout=PATIENCE))["code"] == 4401


async def test_a_message_is_judged_by_the_rights_of_its_moment(end, paused, ana):
    """Before the socket itself is closed."""
    pause, headers = await elsewhere(lambda: (pause_of(paused), bearer(ana)))
    async with socket(end, headers) as communicator:
        assert (await say(communicator, {"type": "ping"}))[0]["type"] == "pong"
        await elsewhere(lambda: ApiToken.objects.update(revoked_at=timezone.now()))
        problem = (await say(communicator, decision(pause, "approve")))[0]["problem"]
        assert (problem["status"], problem["code"]) == (401, "not_authenticated")


async def test_a_vote_over_the_socket_is_told_as_a_vote_until_there_are_enough(
    end, as_ana, paused, ben
):
    """S4-72, F4: the last one's reply is the decision with both."""

    def rule():
        Pause.objects.update(review={"quorum": 2})
        return pause_of(paused), bearer(ben)

    pause, as_ben = await elsewhere(rule)
    async with socket(end, as_ana) as first, socket(end, as_ben) as second:
        voted, _ = await say(first, decision(pause, "approve", revision=1))
        again, _ = await say(first, decision(pause, "approve", revision=1))
        decided, _ = await say(second, decision(pause, "approve", revision=1))
        late, _ = await say(first, decision(pause, "approve", revision=1))
    assert (
        voted["type"],
        voted["result"]["decided"],
        voted["result"]["votes"],
        voted["result"]["quorum"],
    ) == ("accepted", False, 1, 2)
    assert (again["type"], again["problem"]["status"], again["problem"]["code"]) == (
        "refused",
        409,
        "already_voted",
    )
    assert (decided["type"], len(decided["result"]["votes"])) == ("accepted", 2)
    assert (late["problem"]["code"], late["problem"]["decided_by"]) == ("pause_closed", "ben")


async def test_the_last_part_of_a_review_in_stages_is_judged_with_the_whole_over_the_socket(
    end, as_ana, paused, ben, monkeypatch
):
    """S4-72: a validator across stages names its field, and the vote before it stays."""

    class Asked(BaseModel):
        first: int
        second: int

        @model_validator(mode="after")
        def enough(self):
            if self.first + self.second < 10:
                raise ValueError("ten are needed together")
            return self

    def rule():
        named = [("first", "ana", []), ("second", "ben", ["first"])]
        stages = [
            {"name": name, "reviewers": {"users": [who]}, "after": after}
            for name, who, after in named
        ]
        Pause.objects.update(
            review={"stages": stages}, required_inputs=schema_of(Asked), turn=1, panel=None
        )
        return pause_of(paused), bearer(ben)

    monkeypatch.setattr(loading, "asked_type", lambda *args: Asked)
    pause, as_ben = await elsewhere(rule)
    async with socket(end, as_ana) as one, socket(end, as_ben) as other:
        voted, _ = await say(one, decision(pause, "approve", input={"first": 3}))
        refused, _ = await say(other, decision(pause, "approve", input={"second": 4}))
        decided, _ = await say(other, decision(pause, "approve", input={"second": 7}))
    assert (voted["type"], voted["result"]["decided"]) == ("accepted", False)
    assert (refused["problem"]["status"], refused["problem"]["errors"]) == (
        422,
        {"input": ["Ten are needed together."]},
    )
    assert (decided["type"], len(decided["result"]["votes"])) == ("accepted", 2)
