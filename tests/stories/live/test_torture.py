"""Everything between a run and those who follow it breaks, and each of them sees the whole story
once.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.servers import torture

pytestmark = pytest.mark.stack
CLIENTS, EVENTS, LATE, SECONDS = 24, 500, 460, 4


def test_all_clients_see_a_run_to_its_end_through_every_failure(beside, own_redis, token):
    """S2-31, S2-9..12, P9, F27: each number once and in order, and the end; with `make bench
    ARGS=torture` 50 clients and 10 000 events.

    Half follow by `websockets`, half by `httpx-sse`; through a proxy that resets, half-closes and
    falls silent. Some leave by themselves, two after every single event. Redis is restarted, and
    Daphne is killed; uvicorn comes in its place.
    """
    server = beside.web()
    asked = {"run_id": "torture", "node_id": "decide", "blocking_reason": "approval"}
    status, opened = beside.call("POST", "/api/v1/workflows/wait", asked, token=token("ana"))
    assert status == 201, opened
    run, first = (
        opened["waystation_run_id"],
        beside.call("GET", f"/api/v1/threads/{opened['thread_id']}", token=token("ana"))[1][
            "last_seq"
        ],
    )

    def cancel() -> None:
        status, answer = beside.call(
            "POST",
            f"/api/v1/pauses/{opened['pause_id']}/decisions",
            {"decision": "cancel"},
            token=token("ana"),
        )
        assert status == 201, answer

    async def follow() -> list[torture.Client]:
        async with torture.Proxy(beside.port, rate=0.03, seed=1).open() as proxy:
            following = torture.clients(
                CLIENTS, port=proxy.port, run=run, token=token("ana"), late=first + LATE
            )
            writing = torture.WRITE.format(
                thread=opened["thread_id"], run=run, count=EVENTS, pause=SECONDS / EVENTS
            )
            beside.start("writer", "manage.py", "shell", "-c", writing)
            storm = torture.storm(
                beside, server, own_redis, following, events=first + EVENTS, end=cancel
            )
            await torture.follow_all(following, while_=storm, seconds=180)
            assert all(proxy.had.values()), proxy.had
        return following

    following = asyncio.run(follow())
    last = beside.call("GET", f"/api/v1/threads/{opened['thread_id']}", token=token("ana"))[1][
        "last_seq"
    ]
    assert torture.faults(following, last=last) == []
    assert [client.attempts >= last - client.after for client in following[:2]] == [True, True], (
        "cut at every single event"
    )


def test_a_client_that_is_cut_at_once_again_and_again_does_not_wait_longer_for_words():
    """While no server was there it doubled its patience twenty times a second, to hours; the first
    silence behind that was its last.
    """

    class Refused(torture.Client):
        async def attempt(self) -> None:
            if self.attempts == 5:
                raise TimeoutError
            self.ended = self.attempts == 7
            if not self.ended:
                raise ConnectionRefusedError

    client = Refused(port=0, run="", token="", after=0, lives=1)
    asyncio.run(client.follow())
    assert client.patience == 2 * torture.SILENCE
