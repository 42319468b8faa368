"""WebSockets: who may listen, and that a listener gets every event, in order, once."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from channels.testing import WebsocketCommunicator
from django.db import connection, transaction
from django.test import Client

from checkpoints.events import live
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.live import consumers, inbox_feed, socket_messages
from hitl.live import hub as hubs
from hitl.live.backpressure import Gone
from hitl.models import Via
from project.asgi import application
from runs.engine.advance import advance
from tests.conftest import pause_of
from tests.databases.whole import file_database as file_database
from tests.doors.waiting import becomes
from tests.hitl.live.sockets import (
    PATIENCE,
    closed_with,
    elsewhere,
    receive,
    socket,
    write,
)
from tests.hitl.live.sockets import (
    as_ana as as_ana,
)
from tests.hitl.live.sockets import (
    url as url,
)
from tests.worlds.other_engine import STATES, live_through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("file_database")]


@pytest.fixture
def engine(ana, api):
    return api(ana)


async def test_a_cursor_that_is_no_number_is_refused(url, as_ana):
    for after in ("x", "-1", "1.5", "9" * 19, "٣", "%00", "1e3", " 1"):
        assert await closed_with(f"{url}?after={after}", as_ana) == 4400, after


async def test_a_page_of_another_site_gets_no_socket_and_our_own_gets_one(url, as_ana):
    """C20: a page on another port of this host approved in the owner's name."""
    headers = [*as_ana, (b"host", b"localhost:8000")]
    for origin in (
        b"https://evil.example",
        b"null",
        b"http://localhost.evil.example",
        b"http://localhost:8001",
        b"http://localhost",
        b"https://localhost:8000",
    ):
        communicator = WebsocketCommunicator(
            application, url, headers=[*headers, (b"origin", origin)]
        )
        accepted, _ = await communicator.connect(timeout=PATIENCE)
        assert not accepted, origin
    async with socket(url, [*headers, (b"origin", b"http://localhost:8000")]) as communicator:
        assert (await receive(communicator, 1))[0]["seq"] == 1


async def test_another_engines_run_is_followed_by_its_own_id_through_all_its_waits(engine, as_ana):
    """S3-42: no socket knew a run by the id that its engine gave it, and no event named a state."""
    events = await elsewhere(lambda: live_through(engine, "booking-1"))
    async with socket("/ws/workflows/booking-1/stream", as_ana) as communicator:
        told = await receive(communicator, events)
    assert [event["data"]["lifecycle"] for event in told if "lifecycle" in event["data"]] == STATES
    assert await closed_with("/ws/workflows/booking-2/stream", as_ana) == 4404


async def test_a_listener_gets_the_whole_story_in_order(url, as_ana, paused):
    """P9, S0-2."""
    async with socket(url, as_ana) as communicator:
        events = await receive(communicator, paused.thread.last_seq)
        assert [event["seq"] for event in events] == list(range(1, paused.thread.last_seq + 1))
        assert events[0]["thread_id"] == paused.thread.shown_id
        assert [event["event"] for event in events][-2:] == ["run_paused", "log"]
        assert await communicator.receive_nothing()


async def test_a_listener_that_comes_back_gets_what_it_missed_and_no_more(url, as_ana, paused):
    """P9."""
    last = paused.thread.last_seq
    async with socket(f"{url}?after={last - 2}", as_ana) as communicator:
        assert [event["seq"] for event in await receive(communicator, 2)] == [last - 1, last]
        assert await communicator.receive_nothing()


async def test_what_happens_is_heard_at_once(url, as_ana, paused, ana):
    """S4-8, S0-2: an answer given elsewhere and the work that follows, each event once."""
    last = paused.thread.last_seq

    def answer():
        services.decide(pause_of(paused).pk, Answer("approve", Via.PAGE), by=ana)
        advance(paused.latest_run_id, budget=60)

    async with socket(f"{url}?after={last}", as_ana) as communicator:
        await elsewhere(answer)
        events = await receive(communicator, 4 + 8)
        assert [event["seq"] for event in events] == list(range(last + 1, last + 13))
        assert events[0]["event"] == "approval_received"
        assert await communicator.receive_nothing()


async def test_a_rolled_back_event_is_never_heard(url, as_ana, paused):
    def fail():
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            write(paused, "never")
            raise ZeroDivisionError

    async with socket(f"{url}?after={paused.thread.last_seq}", as_ana) as communicator:
        await elsewhere(fail)
        await elsewhere(lambda: write(paused, "kept"))
        assert (await receive(communicator, 1))[0]["data"] == {"message": "kept"}


async def test_large_and_odd_events_arrive_as_they_are(url, as_ana, paused):
    """F27: a hint without its events makes the listener read the log."""
    messages = ["x" * (live.INLINE_LIMIT + 1), "a\x00b \udcff é", "<script>"]
    async with socket(f"{url}?after={paused.thread.last_seq}", as_ana) as communicator:
        for message in messages:
            await elsewhere(lambda message=message: write(paused, message))
        assert [event["data"]["message"] for event in await receive(communicator, 3)] == messages


async def test_many_listeners_and_writers_agree(url, as_ana, paused):
    """P9, F24: every listener hears every event once and in order, whenever it came."""
    last = paused.thread.last_seq
    async with socket(f"{url}?after={last}", as_ana) as early:
        writers = [elsewhere(lambda: [write(paused, "x") for _ in range(10)]) for _ in range(4)]
        working = asyncio.gather(*writers)
        async with socket(f"{url}?after={last}", as_ana) as late:
            for communicator in (early, late):
                assert [event["seq"] for event in await receive(communicator, 40)] == list(
                    range(last + 1, last + 41)
                )
            await working


async def test_a_lost_hint_costs_a_moment_and_no_event(url, as_ana, paused, monkeypatch):
    """F27, P9."""
    monkeypatch.setattr(live, "_send", lambda to, message: None)
    monkeypatch.setattr("hitl.live.hub.LOOK_EVERY", 0.2)
    async with socket(f"{url}?after={paused.thread.last_seq}", as_ana) as communicator:
        await elsewhere(lambda: write(paused, "quiet"))
        assert (await receive(communicator, 1))[0]["data"] == {"message": "quiet"}


async def test_a_doubled_hint_is_heard_once(url, as_ana, paused, monkeypatch):
    """House rule 8."""
    send = live._send
    monkeypatch.setattr(live, "_send", lambda to, message: [send(to, message), send(to, message)])
    async with socket(f"{url}?after={paused.thread.last_seq}", as_ana) as communicator:
        await elsewhere(lambda: write(paused, "once"))
        assert (await receive(communicator, 1))[0]["data"] == {"message": "once"}
        assert await communicator.receive_nothing()


NONSENSE = [
    ("nonsense", "parse_error"),
    ("{", "parse_error"),
    ("[]", "parse_error"),
    ("[" * 100_000, "parse_error"),
    ('{"id": "' + "x" * 101 + '"}', "parse_error"),
    ('"' + "x" * socket_messages.LONGEST + '"', "too_large"),
    ('{"type": "decision", "decision": "approve"}', "invalid"),
    ('{"type": "decision", "decision": "approve", "pause_id": "pse_1"}', "invalid"),
    ('{"type": "delete_everything"}', "invalid"),
    ('{"type": ["input"]}', "invalid"),
    ("{}", "invalid"),
    (b"\xff\x00", "parse_error"),
]


async def test_what_makes_no_sense_is_refused_and_the_socket_stays(url, as_ana, paused):
    """F6."""
    async with socket(f"{url}?after={paused.thread.last_seq}", as_ana) as communicator:
        for sent, code in NONSENSE:
            await (
                communicator.send_to(bytes_data=sent)
                if isinstance(sent, bytes)
                else communicator.send_to(text_data=sent)
            )
            [reply] = await receive(communicator, 1)
            assert (reply["type"], reply["id"]) == ("refused", None), sent[:60]
            assert reply["problem"]["code"] == code, sent[:60]
            assert reply["problem"]["status"] in {400, 413}, sent[:60]
        await elsewhere(lambda: write(paused, "still here"))
        assert (await receive(communicator, 1))[0]["data"] == {"message": "still here"}
        assert await elsewhere(lambda: pause_of(paused).status) == "open"


async def test_a_socket_that_waits_is_one_task_and_is_pinged_all_the_same(
    url, as_ana, paused, monkeypatch
):
    """P7: what is not needed after the handshake is let go."""
    monkeypatch.setattr(consumers, "PING_EVERY", 0.05)
    async with socket(f"{url}?after={paused.thread.last_seq}", as_ana) as communicator:
        assert await receive(communicator, 3) == [{"type": "ping"}] * 3
        consumers.PING_EVERY = 3600.0
        await becomes(
            lambda: (
                [task.get_coro().__qualname__ for task in asyncio.all_tasks()].count(
                    "LiveConsumer._mind"
                )
                == 1
            ),
            seconds=PATIENCE,
        )


async def test_a_browser_is_known_by_its_session_among_other_cookies(url, paused, ana):
    client = Client()
    await elsewhere(lambda: client.force_login(ana))
    key = client.cookies["sessionid"].value
    for cookies in ([f"a=1; sessionid={key}; b=2"], ["a=1", f"sessionid={key}"]):
        headers = [(b"cookie", cookie.encode()) for cookie in cookies]
        async with socket(f"{url}?after={paused.thread.last_seq - 1}", headers) as communicator:
            assert (await receive(communicator, 1))[0]["seq"] == paused.thread.last_seq
    assert await closed_with(url, [(b"cookie", b"sessionid=; a")]) == 4401


def told(waiting, *gone):
    ids = [pause.shown_id for pause in gone]
    return {"type": "inbox", "waiting": waiting, "gone": ids, "new": [], "changed": []}


async def test_without_hints_inboxes_keep_up_by_one_query_a_look_whatever_their_number(
    as_ana, paused, ana, monkeypatch
):
    """F27, P7: what is found is told to all."""
    monkeypatch.setattr(live, "_send", lambda to, message: None)
    monkeypatch.setattr(hubs, "LOOK_EVERY", 0.1)
    statements: list[str] = []
    monkeypatch.setattr(
        inbox_feed, "changes_of_late", noting(inbox_feed.changes_of_late, statements)
    )
    async with AsyncExitStack() as stack:
        inboxes = [await stack.enter_async_context(socket("/ws/inbox", as_ana)) for _ in range(20)]
        for inbox in inboxes:
            assert await receive(inbox, 1) == [told(1)]
        looked, stirred = len(statements), hubs.hub()._inbox._changed
        await becomes(lambda: len(statements) >= looked + 3, seconds=PATIENCE)
        assert hubs.hub()._inbox._changed is stirred, "nothing changed, so nobody counts"
        assert len(set(statements)) == 1, statements
        pause = await elsewhere(lambda: pause_of(paused))
        await elsewhere(lambda: services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana))
        for inbox in inboxes:
            assert await receive(inbox, 1) == [told(0, pause)]


def noting(function, statements):
    """A function that keeps the statements that it makes."""

    def run(*args):
        with connection.execute_wrapper(
            lambda execute, sql, *more: (statements.append(sql), execute(sql, *more))[1]
        ):
            return function(*args)

    return run


async def test_a_client_that_leaves_before_its_answer_is_followed_by_nobody(
    url, as_ana, paused, monkeypatch
):
    """P12: its socket went on reading the log and looking at rights, for ever."""
    left = asyncio.Event()

    async def leave(*_, **__):
        left.set()
        raise Gone("the client has left")

    async with asyncio.timeout(3 * PATIENCE):
        communicator = WebsocketCommunicator(
            application, f"{url}?after={paused.thread.last_seq}", headers=as_ana
        )
        await communicator.connect(timeout=PATIENCE)
        await becomes(lambda: hubs.watchers()["threads"] == 1, seconds=PATIENCE)
        monkeypatch.setattr(consumers.LiveConsumer, "send", leave)
        await communicator.send_to(text_data='{"type": "ping"}')
        await left.wait()
        await becomes(lambda: hubs.watchers()["threads"] == 0, seconds=PATIENCE)
