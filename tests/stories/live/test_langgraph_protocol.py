"""The event protocol of LangGraph's newer clients on the running product, through the package that
LangGraph's people wrote, unmodified (issue 21).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client, get_sync_client

from tests.databases.copies import TOKENS
from tests.servers.stack import SlowStack, standing_alone
from tests.stories.live.langgraph_loads import LOADS

pytestmark = [pytest.mark.stack, pytest.mark.one_database]

TRANSPORTS = ["sse", "websocket"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    with standing_alone(tmp_path_factory.mktemp("langgraph"), LOADS) as stack:
        yield stack


@pytest.fixture
async def ana(server: SlowStack) -> AsyncIterator[Any]:
    url = f"{server.url}/langgraph"
    async with get_client(url=url, api_key=TOKENS["ana"]) as client:
        yield client


def by_header(transport: str, who: str = "ana") -> dict[str, str]:
    """Its socket leaves off what `get_client` was given."""
    return {"authorization": f"Bearer {TOKENS[who]}"} if transport == "websocket" else {}


async def interrupt_of(thread: Any) -> Any:
    async with asyncio.timeout(20):
        while not thread.interrupted:
            await asyncio.sleep(0.05)
    return thread.interrupts[-1]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_client_starts_answers_and_reads_the_end(ana, transport):
    async with ana.threads.stream(
        assistant_id="slow-talk", transport=transport, headers=by_header(transport)
    ) as thread:
        begun = await thread.run.start(input={"input": "Hello"})
        interrupt = await interrupt_of(thread)
        assert interrupt["value"]["action_request"]["args"]["question"] == "Which city?"
        answered = await thread.run.respond("Rome")
        assert answered["run_id"] != begun["run_id"]
        async with asyncio.timeout(20):
            values = await thread.output
        assert values["messages"][-1]["content"] == "Rome it is."
        runs = await ana.runs.list(thread.thread_id)
        assert [run["run_id"] for run in runs] == [answered["run_id"], begun["run_id"]]
