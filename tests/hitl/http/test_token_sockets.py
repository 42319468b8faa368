"""Sockets and streams obey a token's scope, and say when it has expired
(docs/reference/tokens.md).
"""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest
from channels.testing import WebsocketCommunicator
from django.utils import timezone

from hitl.live import consumers
from hitl.models import ApiToken, Decision
from project.asgi import application
from tests.conftest import pause_of
from tests.databases.whole import file_database as file_database
from tests.hitl.live.sockets import PATIENCE, bearer, closed_with, elsewhere, receive, socket
from tests.hitl.live.streams import stream

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("file_database")]


@pytest.fixture
def end(paused):
    """The address of the thread's socket, from where it waits."""
    return f"/ws/threads/{paused.thread.shown_id}/stream?after={paused.thread.last_seq}"


async def refused(path, headers):
    async with stream(path, headers) as opened:
        return opened.status


async def code_of(communicator, message):
    await communicator.send_json_to(message)
    return (await receive(communicator, 1))[0].get("problem", {}).get("code")


async def test_a_token_that_asks_answers_nothing_over_a_socket(end, paused, ana):
    """`may_write` was all that a socket knew of a token: who could start could answer."""
    pause, asking = await elsewhere(lambda: (pause_of(paused), bearer(ana, scope="ask")))
    decision = {"type": "decision", "pause_id": pause.shown_id, "decision": "approve"}
    async with socket(end, asking) as of_thread:
        for message in (
            decision,
            {"type": "input", "content": "APPROVE"},
            {"type": "presence", "pause_id": pause.shown_id},
        ):
            assert await code_of(of_thread, message) == "scope_ask_cannot_answer"
    async with socket(
        f"/ws/runs/{paused.latest_run.shown_id}/stream?after={paused.thread.last_seq}", asking
    ) as of_run:
        assert (
            await code_of(of_run, {"type": "input", "content": "APPROVE"})
            == "scope_ask_cannot_answer"
        )
    assert not await elsewhere(Decision.objects.exists)
    assert await closed_with("/ws/inbox", asking) == 4403


async def test_it_follows_its_persons_own_work_alone(end, paused, ana, ben):
    """A program of Ben's that only asks heard what Ana's work said."""
    bens, anas = await elsewhere(lambda: (bearer(ben, scope="ask"), bearer(ana, scope="ask")))
    path = f"/api/v1/threads/{paused.thread.shown_id}/stream"
    assert (await closed_with(end, bens), await refused(path, bens)) == (4404, 404)
    assert await refused(path, anas) == 200


async def test_a_token_that_answers_follows_no_thread_and_answers_from_the_inbox(end, paused, ana):
    """A program that passes on answers needs no state of any run."""
    pause, answering = await elsewhere(lambda: (pause_of(paused), bearer(ana, scope="answer")))
    assert (
        await closed_with(end, answering),
        await refused(f"/api/v1/threads/{paused.thread.shown_id}/stream", answering),
    ) == (4403, 403)
    async with socket("/ws/inbox", answering) as inbox:
        assert (await receive(inbox, 1))[0]["waiting"] == 1
        await inbox.send_json_to(
            {"type": "decision", "pause_id": pause.shown_id, "decision": "approve"}
        )
        while (reply := (await receive(inbox, 1))[0])["type"] == "inbox":
            pass
    assert reply["type"] == "accepted"


async def test_an_expired_token_is_told_so(end, paused, ana, monkeypatch):
    monkeypatch.setattr(consumers, "RECHECK_EVERY", 0.2)
    late = await elsewhere(lambda: bearer(ana, expires_at=timezone.now() - dt.timedelta(seconds=1)))
    async with asyncio.timeout(3 * PATIENCE):
        communicator = WebsocketCommunicator(application, end, headers=late)
        await communicator.connect(timeout=PATIENCE)
        closed = await communicator.receive_output(timeout=PATIENCE)
        assert (closed["code"], closed["reason"]) == (4401, "token_expired")
        async with stream(f"/api/v1/threads/{paused.thread.shown_id}/stream", late) as opened:
            assert opened.status == 401
            await opened.rest()
            assert '"code": "token_expired"' in opened.text
        good = await elsewhere(lambda: bearer(ana))
        communicator = WebsocketCommunicator(application, end, headers=good)
        await communicator.connect(timeout=PATIENCE)
        await elsewhere(lambda: ApiToken.objects.update(expires_at=timezone.now()))
        closed = await communicator.receive_output(timeout=PATIENCE)
        assert (closed["code"], closed["reason"]) == (4401, "token_expired")
