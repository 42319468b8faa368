"""How long a wait takes, by a clock and a server that a test moves."""

from __future__ import annotations

import json

import httpx
import pytest

from waystation_client import NotAnswered, NotWaystation, Waystation, sync

BEAT = 15.0
MOST = 20
"""Connections, and heartbeats of one: of what ends in time there are fewer."""
STREAM = {"content-type": "text/event-stream; charset=utf-8"}


def frame(seq, kind):
    return f"id: {seq}\ndata: {json.dumps({'event': kind, 'seq': seq})}\n\n".encode()


class Clock:
    """Stands for the module `time`."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(sync, "time", clock)
    return clock


class Server:
    """Asks one question; its streams beat every 15 seconds, and tell of an answer where there is
    one.
    """

    def __init__(self, clock, *, answered_at=None):
        self.clock, self.answered_at = clock, answered_at
        self.streams = 0

    @property
    def answered(self):
        return self.answered_at is not None and self.clock.now >= self.answered_at

    def __call__(self, request):
        if not request.url.path.endswith("/stream"):
            return httpx.Response(200, json=self.standing())
        self.streams += 1
        assert self.streams < MOST and self.clock.now < 2000, "it waits for ever"
        content = self.chunks(request.extensions["timeout"]["read"])
        return httpx.Response(200, headers=STREAM, stream=Chunks(content))

    def standing(self):
        given = {
            "decision": "approve",
            "payload": None,
            "feedback": "",
            "decided_by": "ben",
            "decided_at": "2026-01-31T12:00:00+00:00",
        }
        pause = "answered" if self.answered else "open"
        state: dict[str, object] = {"pause_state": pause, "state": {}}
        ids = {"run_id": "x", "pause_id": "pse_1", "waystation_run_id": "run_1", "error": None}
        return {**ids, **state, "answer": given if self.answered else None}

    def chunks(self, silence):
        yield b"retry: 2000\n\n"
        yield frame(1, "run_started")
        for _ in range(MOST):
            nothing_until = self.clock.now + BEAT
            if self.answered_at is not None and self.answered_at <= nothing_until:
                self.clock.now = max(self.clock.now, self.answered_at)
                yield frame(2, "approval_received")
            if silence < BEAT:
                self.clock.now += silence
                raise httpx.ReadTimeout("silent")
            self.clock.now = nothing_until
            yield b": still here\n\n"
        raise AssertionError("it reads for ever")


class Chunks(httpx.SyncByteStream):
    def __init__(self, chunks):
        self.chunks = chunks

    def __iter__(self):
        yield from self.chunks


def asking(server):
    http = httpx.Client(transport=httpx.MockTransport(server))
    return Waystation("http://server", "wst_x", http=http)


@pytest.mark.parametrize("seconds", [0.5, 5, 20, 50, 100])
def test_heartbeats_do_not_stretch_a_time_out(clock, seconds):
    """A read that may take 45 seconds began anew with each heartbeat."""
    server = Server(clock)
    waystation = asking(server)
    with pytest.raises(NotAnswered):
        waystation.wait(waystation.ask("Well?"), timeout=seconds)
    assert seconds <= clock.now - 1000 <= seconds + 1


@pytest.mark.parametrize("seconds", [5, 30, None])
def test_an_answer_comes_over_the_first_connection(clock, seconds):
    """With a time-out below 45 seconds each connection was left after its first bytes."""
    server = Server(clock, answered_at=1003)
    waystation = asking(server)
    assert waystation.wait(waystation.ask("Well?"), timeout=seconds).by == "ben"
    assert (server.streams, clock.now) == (1, 1003)


def test_a_page_in_place_of_a_stream_is_no_stream(clock):
    """A proxy's page was taken for a stream that says nothing, for ever."""

    def page(request):
        return httpx.Response(200, text="<h1>Log in</h1>", headers={"content-type": "text/html"})

    with pytest.raises(NotWaystation, match="no stream"):
        list(asking(page).events("run_1"))
