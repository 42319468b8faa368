"""What a page's server does with LangGraph's client for Python, in the words that all its released
versions have: `python client.py URL TOKEN` says what held, word by word.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from langgraph_sdk import get_client, get_sync_client


def said(word: str, *, so: bool) -> None:
    if not so:
        sys.exit(f"{word} is not so")
    print(word, flush=True)


def waits(client: Any) -> str:
    """By the client that waits; gives its thread."""
    thread = client.threads.create(metadata={"title": "Trip to Rome"})
    said("title", so=client.threads.get(thread["thread_id"])["metadata"]["title"] == "Trip to Rome")
    key = thread["thread_id"]
    asked = client.runs.wait(key, "slow-talk", input={"input": "Hello"})
    said("asked", so="question" in asked["__interrupt__"][0]["value"]["action_request"]["args"])
    values = client.runs.wait(key, "slow-talk", command={"resume": "Rome"})
    said("answered", so=values["messages"][-1]["content"] == "Rome it is.")
    return str(key)


async def streams(client: Any, key: str) -> None:
    chat = (await client.threads.create())["thread_id"]
    given = {"input": {"input": "Trends"}, "stream_mode": "custom"}
    live = [
        (part.event, part.data) async for part in client.runs.stream(chat, "slow-chat", **given)
    ]
    said("custom", so={event for event, _ in live} == {"metadata", "custom"})
    run = live[0][1]["run_id"]
    again = [(part.event, part.data) async for part in client.runs.join_stream(chat, run)]
    said("joined", so=[one for one in again if one[0] == "custom"] == live[1:])
    state = await client.threads.get_state(chat)
    said("state", so=bool(state["interrupts"] if "interrupts" in state else state["tasks"]))
    said("history", so=len(await client.threads.get_history(key)) > 2)
    found = await client.threads.search(metadata={"title": "Trip to Rome"}, limit=1)
    said("found", so=found[0]["thread_id"] == key)
    begun = await client.runs.create(key, "slow-sleep", input={})
    await client.runs.cancel(key, begun["run_id"])
    said("cancelled", so=(await client.runs.get(key, begun["run_id"]))["status"] != "running")


async def main(url: str, token: str) -> None:
    client = get_sync_client(url=url, api_key=token)
    key = await asyncio.to_thread(waits, client)
    await streams(get_client(url=url, api_key=token), key)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
