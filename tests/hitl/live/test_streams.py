"""Server-sent events: the log of an order as `curl -N` gets it."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.deadlines import outcomes
from hitl.decisions.services import Answer
from hitl.live import connections, outages, pump
from hitl.models import Via
from runs.engine.advance import advance
from tests.conftest import drive, pause_of
from tests.databases.whole import file_database as file_database
from tests.hitl.live.sockets import PATIENCE, bearer, closed_with, elsewhere, write
from tests.hitl.live.sockets import as_ana as as_ana
from tests.hitl.live.streams import (
    Stream,
    stream,
)
from tests.worlds.deadlines import asked as asked
from tests.worlds.other_engine import STATES, live_through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("file_database")]


def path_of(order, query=""):
    return f"/api/v1/work-orders/{order.shown_id}/logs/stream{query}"


@pytest.fixture
def as_zoe(zoe):
    return bearer(zoe)


@pytest.fixture
def engine(ana, api):
    return api(ana)


@pytest.fixture
def ended(make_order):
    return drive(make_order("writing-quick"))


async def refusal(path, headers, method="GET"):
    async with stream(path, headers, method) as refused:
        await refused.rest()
        assert refused.headers["content-type"] == "application/problem+json"
        body = json.loads(refused.text)
        assert (body["type"], body["status"]) == ("about:blank", refused.status)
        assert body["title"]
        assert body["detail"]
        return refused.status, body["code"], refused.headers


async def test_who_is_not_known_gets_a_401(paused):
    """C20. S2-22: refusals have a trace too."""
    for headers in ([], [(b"authorization", b"Bearer nonsense")]):
        status, code, answer = await refusal(path_of(paused), headers)
        assert (status, code, answer["www-authenticate"]) == (401, "not_authenticated", "Bearer")


async def test_a_cursor_that_is_no_number_is_refused(paused, as_ana):
    for after in ("x", "-1", "1.5", "9" * 19):
        seen = (b"last-event-id", after.encode())
        for path, headers in (
            (path_of(paused, f"?after={after}"), as_ana),
            (path_of(paused), [*as_ana, seen]),
        ):
            assert (await refusal(path, headers))[:2] == (400, "cursor_invalid"), after


async def test_the_headers_let_nothing_between_hold_it_back_and_name_the_trace(paused, as_ana):
    async with stream(path_of(paused), as_ana) as opened:
        assert opened.status == 200
        assert opened.headers["content-type"].startswith("text/event-stream")
        assert opened.headers["cache-control"] == "no-cache"
        assert opened.headers["x-accel-buffering"] == "no"
        assert opened.headers["x-trace-id"] == opened.headers["x-agentkit-trace-id"]


async def test_each_event_is_a_frame_with_its_number_name_and_content(paused, as_ana):
    """S4-35, P9."""
    last = paused.thread.last_seq
    async with stream(path_of(paused), as_ana) as opened:
        frames = await opened.frames(last)
    assert [seq for seq, _, _ in frames] == list(range(1, last + 1))
    assert all(data["seq"] == seq and data["event"] == event for seq, event, data in frames)
    assert frames[-1][2]["data"]["message"] == "Workflow paused"


@pytest.mark.parametrize("by_header", [True, False])
async def test_a_reader_that_comes_back_misses_nothing_and_sees_nothing_twice(
    paused, as_ana, by_header
):
    """P9."""
    last = paused.thread.last_seq
    headers = [*as_ana, (b"last-event-id", str(last - 3).encode())] if by_header else as_ana
    async with stream(
        path_of(paused, "" if by_header else f"?after={last - 3}"), headers
    ) as opened:
        assert [seq for seq, _, _ in await opened.frames(3)] == [last - 2, last - 1, last]
        await elsewhere(lambda: write(paused, "new"))
        assert (await opened.frames(4))[-1][0] == last + 1


async def test_the_header_of_a_reconnecting_browser_wins_over_the_address(paused, as_ana):
    """P9: EventSource repeats the address it was made with."""
    last = paused.thread.last_seq
    async with stream(
        path_of(paused, "?after=0"), [*as_ana, (b"last-event-id", str(last - 1).encode())]
    ) as opened:
        assert [seq for seq, _, _ in await opened.frames(1)] == [last]


async def test_the_stream_of_an_order_that_ended_ends_after_its_last_event(ended, as_ana):
    """S0-32."""
    async with stream(path_of(ended), as_ana) as opened:
        frames = await opened.rest()
    assert [event for _, event, _ in frames][-2:] == ["run_completed", "checkpoint_created"]
    assert frames[-1][0] == ended.thread.last_seq


async def test_who_has_it_all_is_not_kept_waiting(ended, as_ana):
    last = ended.thread.last_seq
    for after in (last, last + 5):
        async with stream(path_of(ended, f"?after={after}"), as_ana) as opened:
            assert await opened.rest() == []


async def test_the_stream_goes_on_through_the_answer_to_the_end(paused, as_ana, ana):
    """S4-57, S4-61: a cancellation is an end too."""

    def cancel():
        services.decide(pause_of(paused).pk, Answer("approve", Via.PAGE), by=ana)
        advance(paused.latest_run_id, budget=60)
        services.decide(pause_of(paused).pk, Answer("cancel", Via.PAGE), by=ana)

    async with stream(path_of(paused), as_ana) as opened:
        await opened.frames(paused.thread.last_seq)
        await elsewhere(cancel)
        frames = await opened.rest()
    assert [seq for seq, _, _ in frames] == list(range(1, len(frames) + 1))
    messages = [data["data"]["message"] for _, event, data in frames if event == "log"]
    assert {"Workflow resumed with decision: approve", "Executing step: execute"} <= set(messages)
    assert [event for _, event, _ in frames][-2:] == ["run_cancelled", "checkpoint_created"]


@pytest.mark.parametrize("of", ["order", "run"])
async def test_a_stream_ends_when_its_order_expires(asked, as_ana, of):
    """F29, S3-42."""
    order = await elsewhere(lambda: asked(deadline={"after": "PT1H"}))
    path = path_of(order) if of == "order" else f"/api/v1/runs/{order.latest_run.shown_id}/stream"
    async with stream(path, as_ana) as opened:
        await opened.frames(order.thread.last_seq)
        await elsewhere(lambda: outcomes.fire_due(now=timezone.now() + dt.timedelta(hours=1)))
        frames = await opened.rest()
    assert [event for _, event, _ in frames][-2:] == ["run_expired", "checkpoint_created"]


async def test_another_engines_run_is_followed_by_its_own_id_through_all_its_waits(
    engine, as_ana, as_zoe
):
    """S3-42."""
    events = await elsewhere(lambda: live_through(engine, "booking-1"))
    async with stream("/api/v1/workflows/booking-1/stream", as_ana) as opened:
        frames = await opened.frames(events)
    assert [
        data["data"]["lifecycle"] for _, _, data in frames if "lifecycle" in data["data"]
    ] == STATES
    for hidden, headers in (("booking-1", as_zoe), ("booking-2", as_ana), ("run_nonsense", as_ana)):
        assert (await refusal(f"/api/v1/workflows/{hidden}/stream", headers))[:2] == (
            404,
            "not_found",
        )


async def test_a_run_of_ours_may_be_followed_as_a_workflow_too_and_ends(ended, as_ana):
    """S3-42."""
    async with stream(f"/api/v1/workflows/{ended.latest_run.shown_id}/stream", as_ana) as opened:
        assert [event for _, event, _ in await opened.rest()][-2:] == [
            "run_completed",
            "checkpoint_created",
        ]


async def test_an_event_cannot_forge_another(paused, as_ana):
    """F6: line breaks in a message stay inside its frame."""
    forged = "x\n\nid: 999\nevent: run_completed\ndata: {}\r\n\r\n\u2028"
    await elsewhere(lambda: write(paused, forged))
    async with stream(path_of(paused), as_ana) as opened:
        frames = await opened.frames(paused.thread.last_seq + 1)
    assert frames[-1][1:] == ("log", frames[-1][2])
    assert frames[-1][2]["data"]["message"] == forged


async def test_a_reader_that_leaves_leaves_nothing_behind(paused, as_ana):
    """P7."""
    from hitl.live.hub import hub

    async with stream(path_of(paused), as_ana) as opened:
        await opened.frames(1)
        assert hub()._topics
    assert not hub()._topics


async def test_a_run_a_thread_and_an_order_are_told_alike(paused, as_ana):
    """S0-8, S2-11, S2-12, S2-22: `id`, `event`, `data`; the trace's name in the headers."""
    run, thread = paused.latest_run.shown_id, paused.thread.shown_id
    for path, trace in (
        (f"/api/v1/runs/{run}/stream", run),
        (f"/api/v1/threads/{thread}/stream", thread),
        (path_of(paused), run),
    ):
        async with stream(path, as_ana) as opened:
            frames = await opened.frames(paused.thread.last_seq)
        assert [seq for seq, _, _ in frames] == list(range(1, paused.thread.last_seq + 1)), path
        assert opened.headers["x-agentkit-trace-id"] == opened.headers["x-trace-id"] == trace


async def test_a_runs_stream_ends_behind_its_last_event_and_a_threads_goes_on(ended, as_ana):
    """S0-32."""
    async with stream(f"/api/v1/runs/{ended.latest_run.shown_id}/stream", as_ana) as opened:
        assert [event for _, event, _ in await opened.rest()][-2:] == [
            "run_completed",
            "checkpoint_created",
        ]
    async with stream(f"/api/v1/threads/{ended.thread.shown_id}/stream", as_ana) as opened:
        await opened.frames(ended.thread.last_seq)
        assert await opened.asgi.receive_nothing()


async def test_an_event_source_that_has_it_all_is_told_to_stop(ended, as_ana):
    """204 ends the reconnecting of an EventSource, which would ask for ever."""
    for path in (path_of(ended), f"/api/v1/runs/{ended.latest_run.shown_id}/stream"):
        async with stream(
            path, [*as_ana, (b"last-event-id", str(ended.thread.last_seq).encode())]
        ) as opened:
            assert opened.status == 204


async def test_who_lost_the_connection_at_the_very_end_gets_the_end(ended, as_ana):
    """S0-32, P9: cut between the terminal event and its checkpoint, and before both."""
    path, last = f"/api/v1/runs/{ended.latest_run.shown_id}/stream", ended.thread.last_seq
    for missed in ([last], [last - 1, last]):
        async with stream(f"{path}?after={missed[0] - 1}", as_ana) as opened:
            assert [seq for seq, _, _ in await opened.rest()] == missed


async def test_log_lines_are_filtered_by_level_and_step_and_the_end_is_told_all_the_same(
    ended, as_ana
):
    async with stream(path_of(ended, "?level=warning"), as_ana) as opened:
        assert [event for _, event, _ in await opened.rest()] == ["run_completed"]
    async with stream(path_of(ended, "?level=info&step=planning"), as_ana) as opened:
        frames = await opened.rest()
    assert {event for _, event, _ in frames} == {"log", "run_completed"}
    assert {data["data"]["step"] for _, event, data in frames if event == "log"} == {"planning"}
    assert f"id: {ended.thread.last_seq}\n\n" in opened.text, (
        "the reader's id moves on over what was left out"
    )


async def test_log_lines_are_filtered_by_time(ended, as_ana):
    at = await elsewhere(lambda: ended.thread.events.get(seq=ended.thread.last_seq).at)
    for since, count in [(at.isoformat(), None), ("2000-01-01T00:00:00Z", ended.thread.last_seq)]:
        async with stream(path_of(ended, f"?since={since}"), as_ana) as opened:
            frames = await opened.rest()
        assert len(frames) == count or frames[-1][0] == ended.thread.last_seq


async def test_a_filter_that_is_none_is_refused(paused, as_ana):
    for query in ("level=loud", "since=yesterday", "since=2026-13-45T00:00:00Z"):
        told = await refusal(path_of(paused, f"?{query}"), as_ana)
        assert told[:2] == (400, "filter_invalid"), query


async def test_who_loses_the_right_loses_the_stream(paused, ben, monkeypatch):
    monkeypatch.setattr(pump, "RECHECK_EVERY", 0.1)
    as_ben = await elsewhere(lambda: bearer(ben))
    async with stream(path_of(paused), as_ben) as opened:
        await opened.frames(paused.thread.last_seq)
        await elsewhere(ben.groups.clear)
        await opened.rest()
    assert (await refusal(path_of(paused), as_ben))[:2] == (404, "not_found")


async def test_who_is_switched_off_loses_the_stream(paused, ben, monkeypatch):
    monkeypatch.setattr(pump, "RECHECK_EVERY", 0.1)
    as_ben = await elsewhere(lambda: bearer(ben))
    async with stream(path_of(paused), as_ben) as opened:
        await opened.frames(paused.thread.last_seq)
        await elsewhere(lambda: User.objects.filter(pk=ben.pk).update(is_active=False))
        await opened.rest()
    assert (await refusal(path_of(paused), as_ben))[0] == 401


async def test_a_reader_hears_a_beat_while_nothing_happens(paused, as_ana, monkeypatch):
    monkeypatch.setattr(pump, "HEARTBEAT", 0.05)
    async with stream(path_of(paused), as_ana) as opened:
        assert outages.RETRY_MS == 2000
        while ": still here" not in opened.text:
            assert await opened.more()
    assert opened.text.startswith("retry: 2000\n\n")


async def test_one_person_has_so_many_streams_and_sockets_and_no_more(paused, ana, ben, settings):
    """One token opened 1 200 streams, and all others found the server full."""
    settings.WAYSTATION_PERSON_STREAMS = 2
    path = f"/api/v1/threads/{paused.thread.shown_id}/stream"
    hers, his = await elsewhere(lambda: bearer(ana)), await elsewhere(lambda: bearer(ben))
    first, second = await Stream(path, hers).open(), await Stream(path, hers).open()
    third = await Stream(path, hers).open()
    await third.more()
    assert (third.status, json.loads(third.text)["code"]) == (429, "too_many_streams")
    assert int(third.headers["retry-after"]) > 0
    assert await closed_with(f"/ws/threads/{paused.thread.shown_id}/stream", hers) == 4429
    other = await Stream(path, his).open()
    assert other.status == 200, "others are not hurt"
    settings.WAYSTATION_PROCESS_STREAMS = 3
    assert (await Stream(path, his).open()).status == 429
    await first.asgi.send_input({"type": "http.disconnect"})
    await first.asgi.wait(timeout=PATIENCE)
    again = await Stream(path, hers).open()
    assert again.status == 200
    for opened in (second, other, again):
        await opened.asgi.send_input({"type": "http.disconnect"})
        await opened.asgi.wait(timeout=PATIENCE)
    assert not connections._open
