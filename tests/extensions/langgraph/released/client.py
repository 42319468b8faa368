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


def has(client: Any, word: str, *methods: str) -> bool:
    """Whether this version has these methods; `no-` and the word where it has not."""
    found = all(hasattr(getattr(client, word, None), name) for name in methods)
    if not found:
        print(f"no-{word}", flush=True)
    return found


def keeps(client: Any, key: str) -> None:
    """What stands beside threads, and an edit of one on which nothing runs."""
    if has(client, "store", "put_item", "get_item", "search_items", "delete_item"):
        space = ["released", key]
        client.store.put_item(space, "city", {"name": "Rome"})
        item = client.store.get_item(space, "city")
        found = client.store.search_items(space)["items"]
        client.store.delete_item(space, "city")
        said("store", so=item["value"] == {"name": "Rome"} and found[0]["key"] == "city")
    if has(client, "assistants", "create", "update", "get_versions", "set_latest", "delete"):
        mine = client.assistants.create("slow-talk", metadata={"of": key})["assistant_id"]
        client.assistants.update(mine, metadata={"more": 1})
        back = client.assistants.set_latest(mine, 1)
        versions = [one["version"] for one in client.assistants.get_versions(mine)]
        found = client.assistants.search(metadata={"of": key})
        client.assistants.delete(mine)
        so = (back["version"], versions, len(found)) == (1, [2, 1], 1)
        said("assistants", so=so)
    if has(client, "crons", "create", "search", "delete"):
        yearly = {"schedule": "0 0 1 1 *", "input": {"input": "x"}, "metadata": {"name": key}}
        cron = client.crons.create("slow-talk", **yearly)["cron_id"]
        there = cron in {one["cron_id"] for one in client.crons.search(limit=100)}
        client.crons.delete(cron)
        gone = cron not in {one["cron_id"] for one in client.crons.search(limit=100)}
        said("crons", so=there and gone)
    client.threads.update_state(key, {"noted": "by hand"})
    said("edited", so=client.threads.get_state(key)["values"]["noted"] == "by hand")


def waits(client: Any) -> str:
    """By the client that waits; gives its thread."""
    thread = client.threads.create(metadata={"title": "Trip to Rome"})
    said("title", so=client.threads.get(thread["thread_id"])["metadata"]["title"] == "Trip to Rome")
    key = thread["thread_id"]
    asked = client.runs.wait(key, "slow-talk", input={"input": "Hello"})
    said("asked", so="question" in asked["__interrupt__"][0]["value"]["action_request"]["args"])
    values = client.runs.wait(key, "slow-talk", command={"resume": "Rome"})
    said("answered", so=values["messages"][-1]["content"] == "Rome it is.")
    keeps(client, key)
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
