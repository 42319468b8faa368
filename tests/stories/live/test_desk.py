"""Twenty people have the inbox open while questions come and go: each is told each of them once."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from websockets.asyncio.client import connect

from tests.doors.waiting import becomes
from tests.servers.stack import Stack

pytestmark = pytest.mark.stack
PEOPLE, RATE, SECONDS = 20, 10, 4


async def follow(stack: Stack, token: str, told: Counter[str], ready: asyncio.Event) -> None:
    """Count what a page's socket names, for as long as it is open."""
    headers = {"Authorization": f"Bearer {token}"}
    url = f"ws://127.0.0.1:{stack.port}/ws/inbox?page"
    async with connect(url, additional_headers=headers, compression=None, max_size=None) as opened:
        async for text in opened:
            message = json.loads(text)
            if message["type"] != "inbox":
                continue
            told.update(f"new {pause}" for pause in message["new"])
            told.update(f"gone {pause}" for pause in message["gone"])
            ready.set()


def change(stack: Stack, token: Any, number: int) -> list[str]:
    """Ask a question and answer it; gives what everybody is to be told."""
    body = {"run_id": f"desk-{number}", "node_id": "x", "blocking_reason": "approval"}
    status, wait = stack.call(
        "POST", "/api/v1/workflows/wait", {**body, "team": "platform"}, token=token("ana")
    )
    assert status == 201, wait
    time.sleep(0.3)  # else it may have come and gone between two messages, and is none
    address = f"/api/v1/pauses/{wait['pause_id']}/decisions"
    status, answer = stack.call("POST", address, {"decision": "approve"}, token=token("ben"))
    assert status == 201, answer
    return [f"new {wait['pause_id']}", f"gone {wait['pause_id']}"]


async def test_nobody_misses_a_question_and_nobody_is_told_twice(stack, token):
    """P9, S0-69: ten changes a second; with `make bench ARGS=desk` two hundred people."""
    told = [Counter[str]() for _ in range(PEOPLE)]
    ready = [asyncio.Event() for _ in range(PEOPLE)]
    people = [
        asyncio.create_task(
            follow(stack, token(("ana", "ben")[number % 2]), told[number], ready[number])
        )
        for number in range(PEOPLE)
    ]
    await asyncio.gather(*(event.wait() for event in ready))
    with ThreadPoolExecutor(4) as pool:
        loop = asyncio.get_running_loop()
        changes = []
        for number in range(RATE * SECONDS // 2):
            changes.append(loop.run_in_executor(pool, change, stack, token, number))
            await asyncio.sleep(2 / RATE)  # so many a second
        wanted = {what for made in await asyncio.gather(*changes) for what in made}
    await becomes(lambda: not any(wanted - one.keys() for one in told), seconds=20)
    for one in people:
        one.cancel()
    await asyncio.gather(*people, return_exceptions=True)
    assert [{what: one[what] for what in wanted if one[what] != 1} for one in told] == [{}] * PEOPLE
