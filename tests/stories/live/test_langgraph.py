"""The door for LangGraph's clients, `/langgraph`, on the running product, through the packages that
LangGraph's people wrote for Python and for JavaScript, with its hooks for React, unmodified (issue
21).
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import httpx
import pytest
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.errors import APIStatusError

from checkpoints import ids
from tests.databases.copies import TOKENS
from tests.extensions.langgraph.released.versions import HELD, INSTALLED, RELEASES, of_one
from tests.node import INSTALLED as NODE
from tests.servers.stack import SlowStack
from tests.stories.live.node_programs import PATH, came

SENT_ALONG = {
    "raise_error": True,
    "strict_resume": True,
    "feedback_keys": [],
    "langsmith_tracer": None,
    "context": {},
}
"""What released clients send, and nothing here follows from."""
EVERY_MODE = [
    "values",
    "updates",
    "checkpoints",
    "tasks",
    "debug",
    "custom",
    "messages-tuple",
    "events",
]
pytestmark = [pytest.mark.stack, pytest.mark.one_database]


def client_of(server: SlowStack, who: str) -> Any:
    return get_client(url=f"{server.url}/langgraph", api_key=TOKENS.get(who, who))


@pytest.fixture
async def ana(server: SlowStack) -> AsyncIterator[Any]:
    async with client_of(server, "ana") as client:
        yield client


@pytest.fixture
async def ben(server: SlowStack) -> AsyncIterator[Any]:
    async with client_of(server, "ben") as client:
        yield client


def words(error: pytest.ExceptionInfo[Any]) -> tuple[int, str]:
    response = error.value.response
    return response.status_code, response.json()["detail"]


async def told(stream: Any) -> list[Any]:
    return [part async for part in stream]


async def test_a_run_ends_at_its_question_and_the_answer_is_the_next_one(server: SlowStack, ana):
    wire = str(uuid.uuid4())
    thread = await ana.threads.create(thread_id=wire, metadata={"colour": "red"})
    assert (thread["thread_id"], thread["status"]) == (wire, "idle")
    assert thread["metadata"] == {"colour": "red"}
    (talk,) = await ana.assistants.search(graph_id="slow-talk")
    assert (await ana.assistants.get(talk["assistant_id"]))["graph_id"] == "slow-talk"
    begun: list[Any] = []
    parts = await told(
        ana.runs.stream(
            wire,
            talk["assistant_id"],
            input={"input": "Hello"},
            stream_mode=["values", "updates", "tasks"],
            on_run_created=begun.append,
        )
    )
    assert parts[0].event == "metadata" and parts[0].data["run_id"] == begun[0]["run_id"]
    assert [part.event for part in parts[1:]] == [
        "values", "tasks", "updates", "values",
    ]  # fmt: skip
    (interrupt,) = parts[-1].data["__interrupt__"]
    assert interrupt["value"]["action_request"]["args"]["question"] == "Which city?"
    assert interrupt["value"]["config"]["allow_respond"]
    state = await ana.threads.get_state(wire)
    assert (state["next"], state["tasks"][0]["interrupts"]) == (["ask"], [interrupt])
    assert state["values"]["messages"][0]["type"] == "human"
    run = await ana.runs.get(wire, begun[0]["run_id"])
    thread = await ana.threads.get(wire)
    assert (run["status"], thread["status"]) == ("success", "interrupted")
    (waits,) = await ana.threads.search(status="interrupted", metadata={"colour": "red"})
    assert waits["thread_id"] == wire
    with pytest.raises(APIStatusError) as busy:
        await ana.runs.create(wire, "slow-talk", input={"input": "Hello?"})
    assert words(busy)[0] == 409 and "command.resume" in words(busy)[1]
    values = await ana.runs.wait(wire, "slow-talk", command={"resume": "Rome"})
    assert values["messages"][-1]["content"] == "Rome it is."
    runs = await ana.runs.list(wire)
    assert [run["status"] for run in runs] == ["success", "success"]
    assert runs[1]["run_id"] == begun[0]["run_id"]
    decision = server.call("GET", "/api/v1/decisions", token=TOKENS["ana"])[1]["results"][0]
    assert (decision["via"], decision["feedback"]) == ("langgraph", "Rome")
    history = await ana.threads.get_history(wire)
    assert [state["metadata"]["step"] for state in history] == list(range(len(history) - 2, -2, -1))
    assert history[0]["next"] == [] and history[0]["tasks"] == []
    assert {state["metadata"]["run_id"] for state in history} == {run["run_id"] for run in runs}
    asked = next(state for state in history if state["tasks"])
    assert asked["tasks"][0]["result"] == {"decision": "answer"}
    again = await ana.threads.get_state(wire, checkpoint_id=asked["checkpoint"]["checkpoint_id"])
    assert again["values"] == asked["values"]
    with pytest.raises(APIStatusError) as late:
        await ana.runs.create(wire, "slow-talk", command={"resume": "Paris"})
    assert words(late)[0] == 409 and "Ana" in words(late)[1]


async def test_langgraphs_remote_graph_resumes_by_its_command(server: SlowStack, ana):
    graph = RemoteGraph("slow-talk", client=ana)
    wire = str(uuid.uuid4())
    config: Any = {"configurable": {"thread_id": wire}, "metadata": {"why": "trip"}, "tags": ["a"]}
    asked = await graph.ainvoke({"input": "Hello"}, config)
    (interrupt,) = asked["__interrupt__"]
    assert (await graph.aget_state(config)).next == ("ask",)
    (begun,) = await ana.runs.list(wire)
    assert begun["metadata"]["why"] == "trip"
    done = await graph.ainvoke(Command(resume={interrupt["id"]: "Rome"}), config)
    assert done["messages"][-1]["content"] == "Rome it is."
    assert (await graph.aget_state(config)).next == ()
    config = {"configurable": {"thread_id": str(uuid.uuid4())}}
    with get_sync_client(url=f"{server.url}/langgraph", api_key=TOKENS["ana"]) as client:
        graph = RemoteGraph("slow-talk", sync_client=client)
        await asyncio.to_thread(graph.invoke, {"input": "Hello"}, config)
        done = await asyncio.to_thread(graph.invoke, Command(resume="Paris"), config)
    assert done["messages"][-1]["content"] == "Paris it is."


async def test_what_is_told_live_is_told_again_from_any_frame(ana):
    """P9: a reader that comes with an id gets exactly the rest."""
    thread = (await ana.threads.create())["thread_id"]
    modes = ["values", "updates", "messages-tuple", "custom", "events", "checkpoints"]
    live = await told(
        ana.runs.stream(thread, "slow-chat", input={"input": "Trends"}, stream_mode=modes)
    )
    run = live[0].data["run_id"]
    assert any(part.event == "messages" for part in live)
    assert await told(ana.runs.join_stream(thread, run, stream_mode=modes)) == live
    for place in range(0, len(live), 13):
        rest = await told(
            ana.runs.join_stream(thread, run, stream_mode=modes, last_event_id=live[place].id)
        )
        assert rest == live[place + 1 :]
    answered = await told(ana.runs.stream(thread, "slow-chat", command={"resume": "Yes"}))
    assert answered[-1].data["messages"][-1]["type"] == "ai"
    assert answered[0].data["run_id"] != run


@pytest.mark.parametrize("modes", ["custom", ["updates", "tasks"], ["values", "custom"]])
async def test_a_run_is_told_as_it_was_begun_to_whoever_joins_without_modes(ana, modes):
    """As clients come back that a proxy cut off: by `Location`, with an id and without modes."""
    thread = (await ana.threads.create())["thread_id"]
    begun = ana.runs.stream(thread, "slow-chat", input={"input": "Trends"}, stream_mode=modes)
    live = await told(begun)
    run = live[0].data["run_id"]
    assert await told(ana.runs.join_stream(thread, run)) == live
    for place in range(0, len(live), 7):
        rest = await told(ana.runs.join_stream(thread, run, last_event_id=live[place].id))
        assert rest == live[place + 1 :]
    every = await told(ana.runs.join_stream(thread, run, stream_mode=EVERY_MODE))
    by_id = {part.id: part for part in every}
    assert len(by_id) == len(every)
    assert [by_id[part.id] for part in live] == live


async def heard(stream: Awaitable[Any], *, ends: int) -> list[Any]:
    """A thread's stream, up to where so many runs have ended."""
    parts: list[Any] = []
    async with asyncio.timeout(30):
        async for part in await stream:
            parts.append(part)
            ends -= part.event == "metadata" and part.data.get("status") == "run_done"
            if not ends:
                break
    return parts


async def test_a_thread_is_followed_over_all_its_runs(ana, ben):
    """Whoever began them; a reader that comes with an id gets exactly the rest (P9)."""
    thread = (await ana.threads.create(metadata={"waystation_team": "platform"}))["thread_id"]
    follow = functools.partial(ana.threads.join_stream, thread)
    live = asyncio.create_task(heard(follow(last_event_id="-"), ends=2))
    begun = (await ana.runs.create(thread, "slow-talk", input={"input": "Hello"}))["run_id"]
    asked = await ana.runs.join(thread, begun)
    assert asked["__interrupt__"]
    answered = (await ben.runs.create(thread, "slow-talk", command={"resume": "Rome"}))["run_id"]
    parts = await live
    about = [part.data for part in parts if part.event == "metadata"]
    done = {"status": "run_done"}
    assert about == [
        {"run_id": begun, "attempt": 1},
        {**done, "run_id": begun},
        {"run_id": answered, "attempt": 1},
        {**done, "run_id": answered},
    ]
    values = [part.data for part in parts if part.event == "values"]
    assert values[-1]["messages"][-1]["content"] == "Rome it is."
    assert await heard(follow(last_event_id="-"), ends=2) == parts
    for place in range(0, len(parts) - 1, 3):
        ends = sum(part.data.get("status") == "run_done" for part in parts[place + 1 :])
        assert await heard(follow(last_event_id=parts[place].id), ends=ends) == parts[place + 1 :]
    lifecycle = await heard(follow(last_event_id="-", stream_mode="lifecycle"), ends=2)
    assert lifecycle == [part for part in parts if part.event == "metadata"]
    modes = ["lifecycle", "state_update"]
    states = await heard(follow(last_event_id="-", stream_mode=modes), ends=2)
    (state, *_) = [part.data for part in reversed(states) if part.event == "state_update"]
    assert state["thread_id"] == thread
    newest = await ana.threads.get_state(thread)
    assert state["state"]["checkpoint_id"] == newest["checkpoint_id"]
    assert len({part.id for part in parts}) == len(parts)
    with pytest.raises(APIStatusError) as unknown:
        await heard(follow(stream_mode="surprise"), ends=1)
    assert words(unknown)[0] == 422


async def test_without_an_id_a_thread_is_followed_from_now_on(server: SlowStack, ana):
    thread = (await ana.threads.create())["thread_id"]
    await ana.runs.wait(thread, "slow-talk", input={"input": "Hello"})
    token = {"x-api-key": str(TOKENS["ana"])}
    place = f"{server.url}/langgraph/threads/{thread}/stream"
    async with (
        asyncio.timeout(30),
        httpx.AsyncClient(headers=token) as http,
        http.stream("GET", place) as answer,
    ):
        answered = await ana.runs.create(thread, "slow-talk", command={"resume": "Rome"})
        lines = answer.aiter_lines()
        first = await anext(line async for line in lines if line.startswith("data: "))
        assert json.loads(first[6:]) == {"run_id": answered["run_id"], "attempt": 1}
    async with client_of(server, "zoe") as zoe:
        with pytest.raises(APIStatusError) as hidden:
            await heard(zoe.threads.join_stream(thread), ends=1)
    assert words(hidden)[0] == 404


async def test_rules_hold_here_as_behind_every_door(server: SlowStack, ana, ben):
    """P6: who asked does not approve, whatever the client sends; who was first is named."""
    thread = (await ana.threads.create(metadata={"waystation_team": "platform"}))["thread_id"]
    values = await ana.runs.wait(thread, "two-people", input={"input": "Pay"})
    config = values["__interrupt__"][0]["value"]["config"]
    assert (config["allow_accept"], config["allow_edit"]) == (True, True)
    value: Any
    for value in (True, [{"type": "accept", "args": None}], {"decision": "approve"}):
        with pytest.raises(APIStatusError) as refused:
            await ana.runs.create(thread, "two-people", command={"resume": value})
        assert words(refused)[0] == 403
    for value in ({"type": "no such"}, 7, {"decision": "nothing"}, [], {"decision": 3}):
        with pytest.raises(APIStatusError) as unfit:
            await ben.runs.create(thread, "two-people", command={"resume": value})
        assert words(unfit)[0] == 422, value
    with pytest.raises(APIStatusError) as stale:
        past = {"decision": "approve", "revision": 7}
        await ben.runs.create(thread, "two-people", command={"resume": past})
    assert words(stale)[0] == 409
    assert (await ana.threads.get(thread))["status"] == "interrupted"
    edit = {"type": "edit", "args": {"action": "x", "args": {"content": "As I say."}}}
    answer = {values["__interrupt__"][0]["id"]: [edit]}
    run = await ben.runs.create(thread, "two-people", command={"resume": answer})
    await ben.runs.join(thread, run["run_id"])
    given = server.call("GET", "/api/v1/decisions", token=TOKENS["ben"])[1]["results"][0]
    assert (given["edited_content"], given["decided_by"]) == ("As I say.", "ben")
    with pytest.raises(APIStatusError) as gone:
        await ben.runs.create(thread, "two-people", command={"resume": answer})
    assert words(gone)[0] == 409 and "Ben" in words(gone)[1]
    third = (await ana.threads.create())["thread_id"]
    with pytest.raises(APIStatusError) as unseen:
        await ben.threads.get(third)
    assert words(unseen)[0] == 404
    with pytest.raises(APIStatusError) as team:
        await ana.threads.create(metadata={"waystation_team": "others"})
    assert words(team)[0] == 422


def test_the_client_that_waits_starts_cancels_searches_and_deletes(server: SlowStack):
    """By the SDK's other half, which is not asynchronous."""
    with get_sync_client(url=f"{server.url}/langgraph", api_key=TOKENS["ana"]) as ana:
        mine = uuid.uuid4().hex
        thread = ana.threads.create(metadata={"mine": mine})["thread_id"]
        ana.threads.update(thread, metadata={"more": [1]})
        (found,) = ana.threads.search(metadata={"mine": mine, "more": [1]})
        assert found["thread_id"] == thread and ana.threads.count(metadata={"mine": mine}) == 1
        asleep = ana.runs.create(thread, "slow-sleep", input={}, metadata={"why": "night"})
        assert ana.runs.get(thread, asleep["run_id"])["metadata"] == {"why": "night"}
        assert ana.threads.search(metadata={"graph_id": "slow-sleep", "mine": mine})
        assert [one["thread_id"] for one in ana.threads.search(status="busy")] == [thread]
        with pytest.raises(APIStatusError) as busy:
            ana.runs.create(thread, "slow-sleep", input={}, multitask_strategy="reject")
        assert words(busy)[0] == 409
        behind = ana.runs.create(thread, "slow-talk", input={"input": "Next"})
        assert behind["status"] == "pending"
        ana.runs.cancel(thread, behind["run_id"])
        assert ana.runs.get(thread, behind["run_id"])["status"] == "interrupted"
        behind = ana.runs.create(thread, "slow-talk", input={"input": "Next"})
        with pytest.raises(APIStatusError) as alive:
            ana.runs.delete(thread, asleep["run_id"])
        assert words(alive)[0] == 409
        ended = ana.runs.list(thread)[-1]["run_id"]
        ana.runs.cancel_many(thread_id=thread, run_ids=[asleep["run_id"], ended])
        assert ana.runs.get(thread, asleep["run_id"])["status"] == "interrupted"
        # the one behind it had its turn, under the id that its client has
        assert ana.runs.join(thread, behind["run_id"])["__interrupt__"]
        ana.threads.update_state(thread, None, as_node="__end__")
        assert ana.threads.get(thread)["status"] == "idle"
        ana.runs.delete(thread, asleep["run_id"])
        assert asleep["run_id"] not in {run["run_id"] for run in ana.runs.list(thread)}
        failed = ana.threads.create()["thread_id"]
        ana.runs.wait(failed, "slow-broken", input={})
        with pytest.raises(Exception, match="refused at"):
            ana.runs.wait(failed, "slow-broken", command={"resume": True})
        assert ana.threads.get(failed)["status"] == "error"
        stopped: Any = ana.runs.wait(None, "slow-mixed", input={}, interrupt_before="*")
        assert stopped["__interrupt__"]
        ana.threads.delete(thread)
        with pytest.raises(APIStatusError) as hidden:
            ana.threads.get(thread)
        assert words(hidden)[0] == 404


def test_to_delete_a_thread_ends_what_runs_or_asks_there(server: SlowStack):
    """On the wire a run that asks has ended, so its client cannot cancel it first."""
    with get_sync_client(url=f"{server.url}/langgraph", api_key=TOKENS["ana"]) as ana:
        asks, busy = [ana.threads.create()["thread_id"] for _ in range(2)]
        ana.runs.wait(asks, "slow-talk", input={"input": "Hello"})
        ana.runs.create(busy, "slow-sleep", input={})
        ana.runs.create(busy, "slow-talk", input={"input": "Next"})
        for thread in (asks, busy):
            ana.threads.delete(thread)
            place = f"/api/v1/threads/{ids.show('thr', uuid.UUID(thread))}/runs"
            _, runs = server.call("GET", place, token=TOKENS["ana"])
            assert [run["status"] for run in runs["results"]] == ["cancelled"], thread


def test_a_copy_is_a_thread_of_ones_own_with_the_history_and_no_question(server: SlowStack):
    with get_sync_client(url=f"{server.url}/langgraph", api_key=TOKENS["ana"]) as ana:
        about = {"waystation_team": "platform", "colour": "red"}
        thread = ana.threads.create(metadata=about)["thread_id"]
        copy: Any = ana.threads.copy  # its annotation says that it gives nothing
        empty = copy(thread)
        assert (empty["status"], empty["metadata"]) == ("idle", about)
        ana.runs.wait(thread, "slow-talk", input={"input": "Hello"})
        copied = copy(thread)
        assert (copied["status"], copied["interrupts"]) == ("idle", {})
        assert copied["values"] == ana.threads.get(thread)["values"]
        history = [state["values"] for state in ana.threads.get_history(thread)]
        assert [one["values"] for one in ana.threads.get_history(copied["thread_id"])] == history
        idle = {one["thread_id"] for one in ana.threads.search(metadata=about, status="idle")}
        assert idle == {empty["thread_id"], copied["thread_id"]}
        assert ana.threads.get(thread)["status"] == "interrupted"
    with get_sync_client(url=f"{server.url}/langgraph", api_key=TOKENS["ben"]) as ben:
        assert ben.threads.get(thread)["thread_id"] == thread
        with pytest.raises(APIStatusError) as others:
            ben.threads.copy(thread)
        assert words(others)[0] == 403 and "right" in words(others)[1]


NOT_HERE: list[tuple[Any, ...]] = [
    ("PUT", "/store/items", {}, 422),
    ("GET", "/store/items", None, 422),
    ("GET", "/store/items/search", None, 405),
    ("POST", "/store/nothing", {}, 404),
    ("POST", "/assistants", {}, 404),
    ("POST", "/assistants", {"graph_id": "slow-talk", "context": {"model": "x"}}, 422),
    ("PATCH", "/assistants/slow-talk", {}, 403),
    ("DELETE", f"/assistants/{uuid.UUID(int=5)}", None, 404),
    ("POST", f"/threads/{uuid.UUID(int=5)}/runs/crons", {}, 422),
    ("POST", "/runs/crons/search", {}, 200),
    ("PATCH", "/runs/crons/no-id", {}, 422),
    ("DELETE", f"/runs/crons/{uuid.UUID(int=5)}", None, 404),
    ("POST", "/runs/batch", [], 501),
    ("POST", "/runs/cancel", {"status": "odd"}, 422),
    ("POST", "/runs/cancel?action=rollback", {}, 422),
    ("GET", "/nothing", None, 404),
    ("PUT", "/threads", {}, 405),
    ("POST", "/threads", {"ttl": 5}, 422),
    ("POST", "/threads", {"thread_id": "mine"}, 422),
    ("POST", "/threads", [], 422),
    ("POST", "/threads/search", {"values": {}}, 422),
    ("POST", "/threads/search", {"status": "odd"}, 422),
    ("POST", "/threads/search", {"metadata": {"a": "\0"}}, 200),
    ("GET", "/threads/no-id", None, 422),
    ("GET", f"/threads/{uuid.UUID(int=5)}", None, 404),
    ("GET", f"/threads/{uuid.UUID(int=5)}/history?limit=x", None, 404),
    ("POST", "/runs/wait", {"assistant_id": "slow-talk", "webhook": "https://x"}, 422),
    ("POST", "/runs/wait", {"assistant_id": "slow-talk", "stream_mode": "odd"}, 422),
    ("POST", "/runs/wait", {"assistant_id": "slow-talk", "surprise": 1}, 422),
    ("POST", "/runs", {"assistant_id": "slow-talk", "on_completion": "delete"}, 422),
    ("POST", "/runs", {"assistant_id": "slow-talk", "multitask_strategy": "rollback"}, 422),
    ("POST", "/runs", {"assistant_id": "slow-talk", "command": {"goto": "tell"}}, 422),
    ("POST", "/runs", {"assistant_id": "slow-talk", "command": {"goto": ["tell"]}}, 422),
    ("POST", "/runs", {"assistant_id": "slow-talk", "config": {"metadata": [1]}}, 422),
    ("POST", "/runs", {"assistant_id": "slow-talk", "command": {"resume": 1}}, 409),
    ("POST", "/runs", {"assistant_id": "slow-talk", "input": [1]}, 422),
    ("POST", "/runs", {"assistant_id": "slow-talk", "checkpoint_id": str(uuid.UUID(int=5))}, 422),
    ("POST", "/runs", {"assistant_id": "no-such"}, 404),
    ("POST", "/runs", {"assistant_id": "slow-talk", "context": {"model": "x"}}, 422),
    ("POST", "/runs", {"assistant_id": "slow-talk", "input": {"input": "x"}, **SENT_ALONG}, 200),
]
SCOPES: list[tuple[Any, ...]] = [
    ("read", "POST", "/threads", {}, 403),
    ("read", "POST", "/threads/search", {}, 200),
    ("read", "POST", "/runs/crons/count", {}, 200),
    ("ask", "POST", "/runs/crons", {"assistant_id": "slow-talk", "schedule": "0 0 1 1 *"}, 403),
    ("read", "POST", "/runs", {"assistant_id": "slow-talk", "input": {"input": "x"}}, 403),
    ("read", "POST", f"/threads/{uuid.UUID(int=5)}/copy", {}, 403),
    ("read", "GET", f"/threads/{uuid.UUID(int=5)}/stream", None, 404),
    ("read", "POST", "/runs/cancel", {"status": "all"}, 403),
    ("answer", "GET", f"/threads/{uuid.UUID(int=5)}/stream", None, 403),
    ("answer", "POST", f"/threads/{uuid.UUID(int=5)}/copy", {}, 403),
    ("nobody", "GET", f"/threads/{uuid.UUID(int=5)}/stream", None, 401),
    ("nobody", "POST", "/store/namespaces", {}, 401),
    ("answer", "POST", "/store/namespaces", {}, 403),
    ("read", "PUT", "/store/items", {}, 403),
    ("read", "POST", "/store/namespaces", {}, 200),
    ("ask", "POST", "/threads", {}, 200),
    ("ask", "DELETE", f"/threads/{uuid.UUID(int=5)}", None, 403),
    ("answer", "POST", "/threads", {}, 403),
    ("answer", "POST", "/threads/search", {}, 200),
    ("answer", "GET", f"/threads/{uuid.UUID(int=5)}/history", None, 403),
    ("nobody", "POST", "/threads/search", {}, 401),
    ("nobody", "GET", "/ok", None, 200),
]
"""The last column is what REST has for the same: `tests/matrix/test_scopes.py`."""


def test_what_is_not_here_says_so(server: SlowStack):
    """Every answer has `detail`, and none is a 500; a page of another site gets none at all."""
    wrong = []
    with httpx.Client(base_url=f"{server.url}/langgraph") as http:
        rows: list[tuple[Any, ...]] = [("ana", *row) for row in NOT_HERE]
        rows += [(f"wst_ana-{who}", *row) for who, *row in SCOPES]
        for who, method, path, body, status in rows:
            token = {"x-api-key": TOKENS.get(who, who)}
            given = {} if body is None else {"json": body}
            answer = http.request(method, path, headers=token, **given)
            if answer.status_code != status or (status >= 400 and not answer.json()["detail"]):
                wrong.append(f"{who} {method} {path} {body}: {answer.status_code} {answer.text}")
        assert not wrong, "\n".join(wrong)
        page = {"Origin": "https://ui.example"}
        asked = http.options("/threads", headers=page)
        assert asked.headers["access-control-allow-origin"] == page["Origin"]
        taken = asked.headers["access-control-allow-headers"].split(", ")
        assert {"x-api-key", "idempotency-key", "last-event-id"} <= set(taken)
        methods = asked.headers["access-control-allow-methods"].split(", ")
        assert set(methods) == {"GET", "POST", "PUT", "PATCH", "DELETE"}
        refused = http.post("/threads", headers=page, json={})
        assert (refused.status_code, refused.headers["vary"]) == (401, "Origin")
        elsewhere = {"Origin": "https://evil.example", "x-api-key": str(TOKENS["ana"])}
        assert http.post("/threads", headers=elsewhere, json={}).status_code == 403


async def test_the_store_keeps_what_its_account_put_also_of_many_puts_at_once(ana, ben):
    space = ["memories", uuid.uuid4().hex]
    puts = (ana.store.put_item(space, "same", {"n": number}) for number in range(6))
    assert await asyncio.gather(*puts) == [None] * 6
    item = await ana.store.get_item(space, "same", refresh_ttl=False)
    assert (await ana.store.search_items(space[:1]))["items"] == [item]
    assert (await ana.store.list_namespaces(suffix=space[1:]))["namespaces"] == [space]
    assert await ben.store.get_item(space, "same") is None
    assert (await ben.store.search_items(space))["items"] == []
    assert await ana.store.delete_item(space, "same") is None
    assert await ana.store.get_item(space, "same") is None
    assert (await ana.http.get("/info"))["flags"]["store"] is True


async def test_of_two_answers_at_once_one_is_taken(ana):
    """P1, through this door too."""
    thread = (await ana.threads.create())["thread_id"]
    await ana.runs.wait(thread, "slow-talk", input={"input": "Hello"})
    both: list[Any] = await asyncio.gather(
        *(ana.runs.create(thread, "slow-talk", command={"resume": city}) for city in ("A", "B")),
        return_exceptions=True,
    )
    (lost,) = [one for one in both if isinstance(one, APIStatusError)]
    assert lost.response.status_code == 409


TRIED = RELEASES if os.environ.get("RELEASED") else [("python", INSTALLED)]


@pytest.mark.parametrize(("language", "release"), TRIED)
def test_a_released_client_does_what_its_words_mean(server, tmp_path, language, release):
    where = [f"{server.url}/langgraph", str(TOKENS["olga"])]  # who may make schedules
    assert of_one(tmp_path / "client", language, release, where) == {"held": HELD}


HOOK = "langgraph_hook.mjs"
from_npm = pytest.mark.skipif(
    shutil.which("node", path=PATH) is None
    or not (NODE / "node_modules" / "@langchain" / "react").exists(),
    reason="LangGraph's packages could not be installed: see .venv/node/why-not.txt",
)


@from_npm
def test_the_package_starts_answers_and_reads_over_every_wire(server: SlowStack, tmp_path):
    told = came(tmp_path, server, "langgraph_sdk.mjs")
    assert told["runs"] == {
        "followed": ["begun", "run_done"] * 2,
        "question": "Which city?",
        "said": "Rome it is.",
        "runs": ["success", "success"],
        "found": [True],
        "steps": True,
    }
    assert told["store"] == {
        "name": "Rome",
        "dated": True,
        "found": ["city"],
        "namespaces": [["javascript"]],
        "left": None,
    }
    by_events = {
        "question": "Which city?",
        "said": "Oslo it is.",
        "once": True,
        "late": "no_such_interrupt",
        "tree": "completed",
    }
    assert (told["sse"], told["websocket"]) == (by_events, by_events)


@from_npm
@pytest.mark.parametrize("package", ["@langchain/react", "@langchain/langgraph-sdk/react"])
def test_a_page_of_react_asks_is_answered_and_reads_the_end(server, tmp_path, package):
    """The hook of the event protocol, and the one before it."""
    assert came(tmp_path, server, HOOK, package, "slow-talk", "Rome it is") == {
        "question": "Which city?",
        "said": ["Hello", "Rome", "Rome it is."],
        "error": None,
        "wasLoading": True,
        "known": True,
        "asks": False,
    }


@from_npm
def test_a_page_of_react_shows_once_what_an_agent_says_as_it_comes(server, tmp_path):
    """What was streamed is what stands in the state: by its id; and what four tools said."""
    told = came(tmp_path, server, HOOK, "@langchain/react", "slow-chat", "Based on my research")
    assert (told["known"], told["error"], len(told["said"])) == (True, None, 6 + 4)
