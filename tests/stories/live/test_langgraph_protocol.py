"""The event protocol of LangGraph's newer clients on the running product, through the package that
LangGraph's people wrote, unmodified; and AG-UI at `/langgraph/agui/<template>`, through that
protocol's own client from npm, unmodified (issue 21).
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import pytest
from ag_ui_validate import create_validator
from langchain_protocol.protocol import CommandResponse, ErrorResponse, Event
from langgraph_sdk import get_client, get_sync_client
from pydantic import TypeAdapter
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.databases.copies import TOKENS
from tests.node import INSTALLED
from tests.servers.stack import SlowStack
from tests.stories.live.cutting import cutting
from tests.stories.live.node_programs import came

pytestmark = [pytest.mark.stack, pytest.mark.one_database]

TRANSPORTS = ["sse", "websocket"]
CHANNELS = [
    *("values", "updates", "messages", "tools", "lifecycle", "input"),
    *("checkpoints", "tasks", "custom"),
]


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
        while not thread.interrupted:  # noqa: ASYNC110  # it has no event
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


def test_the_client_that_waits_does_the_same(server: SlowStack):
    with (
        get_sync_client(url=f"{server.url}/langgraph", api_key=TOKENS["ana"]) as ana,
        ana.threads.stream(assistant_id="slow-talk") as thread,
    ):
        thread.run.start(input={"input": "Hello"})
        end = time.monotonic() + 20
        while not thread.interrupted and time.monotonic() < end:
            time.sleep(0.05)
        thread.run.respond("Rome", interrupt_id=thread.interrupts[0]["interrupt_id"])
        assert thread.output["messages"][-1]["content"] == "Rome it is."


async def test_words_come_as_messages_and_values_as_they_stand(ana):
    async with ana.threads.stream(assistant_id="slow-chat") as thread:
        await thread.run.start(input={"input": "Trends"})
        async with asyncio.timeout(20):
            messages = [message async for message in thread.messages]
            # it stops reading when its other stream has the question: that tells of it later
            said = [await message.text for message in messages]
        assert said and all(said)
        await interrupt_of(thread)
        state = await ana.threads.get_state(thread.thread_id)
        assert state["tasks"][0]["interrupts"][0]["id"] == thread.interrupts[0]["interrupt_id"]


async def test_child_runs_are_found_with_how_they_ended(ana):
    async with ana.threads.stream(assistant_id="slow-crew") as thread:
        await thread.run.start(input={})
        async with asyncio.timeout(20):
            children = [child async for child in thread.subgraphs]
        assert {child.graph_name for child in children} == {"north", "south"}
        assert {child.status for child in children} == {"completed"}


class Raw:
    """The wire itself, as Ana or somebody else."""

    def __init__(self, server: SlowStack, who: str = "ana", *, url: str = "") -> None:
        headers = {"x-api-key": str(TOKENS.get(who, who))}
        base = f"{url or server.url}/langgraph"
        self.http = httpx.AsyncClient(base_url=base, headers=headers)

    async def command(self, thread: str, method: str, **params: Any) -> dict[str, Any]:
        body = {"id": 7, "method": method, "params": params}
        answer = await self.http.post(f"/threads/{thread}/commands", json=body)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        TypeAdapter(CommandResponse | ErrorResponse).validate_python(told)
        assert told["id"] == 7
        return told

    async def events(self, thread: str, *, until: str, **given: Any) -> list[dict[str, Any]]:
        """Up to the first event of the root's lifecycle that says so."""
        told: list[dict[str, Any]] = []
        await self._read(thread, told, until, given)
        assert told[-1]["params"]["data"].get("event") == until, "the stream ended"
        return told

    async def in_spite_of_cuts(self, thread: str, *, until: str) -> list[dict[str, Any]]:
        """The same, beginning anew behind the last event where the connection breaks."""
        told: list[dict[str, Any]] = []
        while not told or told[-1]["params"]["data"].get("event") != until:
            with suppress(httpx.TransportError):
                since = told[-1]["seq"] if told else 0
                await self._read(thread, told, until, {"since": since})
        return told

    async def _read(
        self, thread: str, told: list[dict[str, Any]], until: str, given: dict[str, Any]
    ) -> None:
        given = {"channels": CHANNELS, **given}
        async with (
            asyncio.timeout(20),
            self.http.stream("POST", f"/threads/{thread}/stream/events", json=given) as answer,
        ):
            assert answer.status_code == 200, await answer.aread()
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    with suppress(json.JSONDecodeError):  # cut in its middle
                        told.append(json.loads(line.removeprefix("data: ")))
                    if told and told[-1]["params"]["data"].get("event") == until:
                        return


VALID = TypeAdapter(Event)


async def test_what_is_told_live_is_told_again_from_any_number(server: SlowStack):
    """P9, of the protocol: numbers are the thread's, whatever a reader follows."""
    ana = Raw(server)
    thread = str(uuid.uuid4())
    begun = await ana.command(thread, "run.start", assistant_id="slow-chat", input="Trends")
    since = begun["meta"]["applied_through_seq"]
    live = await ana.events(thread, until="interrupted", since=since)
    for event in live:
        if event["method"] != "input.answered":  # of a later version than the package
            VALID.validate_python(event)
    numbers = [event["seq"] for event in live]
    assert numbers == sorted(set(numbers)) and min(numbers) > since
    assert len({event["event_id"] for event in live}) == len(live)
    assert {
        "lifecycle",
        "messages",
        "values",
        "input.requested",
        "checkpoints",
        "tasks",
        "tools",
    } <= {event["method"] for event in live}
    assert await ana.events(thread, until="interrupted") == live
    for place in range(0, len(live) - 1, 11):
        rest = await ana.events(thread, until="interrupted", since=live[place]["seq"])
        assert rest == live[place + 1 :]
    few = await ana.events(thread, until="interrupted", channels=["lifecycle", "input"])
    assert few == [one for one in live if one["method"] in {"lifecycle", "input.requested"}]
    deep = ["values", "lifecycle"]
    root = await ana.events(
        thread, until="interrupted", channels=deep, namespaces=[[], ["x"]], depth=0
    )
    assert [one["method"] for one in root] == [
        one["method"] for one in live if one["method"] in deep
    ]
    asked = next(one for one in live if one["method"] == "input.requested")
    key = asked["params"]["data"]["interrupt_id"]
    done = await ana.command(
        thread, "input.respond", interrupt_id=key, response="Yes", namespace=[]
    )
    ended = await ana.events(thread, until="completed", since=live[-1]["seq"])
    answered = next(one for one in ended if one["method"] == "input.answered")
    assert answered["params"]["data"] == {"interrupt_ids": [key]}
    assert done["meta"]["applied_through_seq"] < answered["seq"]
    assert await ana.events(thread, until="completed") == live + ended
    begun_ids = {
        one["params"]["data"]["id"]
        for one in live + ended
        if one["params"]["data"].get("event") == "message-start"
    }
    values = [one["params"]["data"] for one in ended if one["method"] == "values"][-1]
    # a client shows what was streamed and what stands in the state as one
    assert begun_ids == {one["id"] for one in values["messages"] if one["type"] == "ai"}
    # behind it, and from behind the end, comes what comes next
    again = await ana.command(thread, "run.start", assistant_id="slow-broken", input={})
    after = again["meta"]["applied_through_seq"]
    stopped = await ana.events(thread, until="interrupted", since=after)
    states = [one["params"]["data"]["event"] for one in stopped if one["method"] == "lifecycle"]
    assert states == ["started", "running", "interrupted"]
    await ana.http.aclose()


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_connection_that_breaks_loses_nothing_and_doubles_nothing(server, transport):
    async with (
        cutting(server.port, [40, 700, 1500, 2900]) as (url, cutter),
        get_client(url=f"{url}/langgraph", api_key=TOKENS["ana"]) as ana,
        ana.threads.stream(
            assistant_id="slow-chat", transport=transport, headers=by_header(transport)
        ) as thread,
    ):
        await thread.run.start(input={"input": "Trends"})
        told = []
        async with asyncio.timeout(30):
            async for event in thread.subscribe(CHANNELS):
                told.append(event)
                if event["params"]["data"].get("event") == "interrupted":
                    break
        raw = Raw(server)
        # the package stops reading as soon as its other stream has the question: what this one
        # had not told by then stands behind its last number
        whole = await raw.events(thread.thread_id, until="interrupted")
        assert told and told == whole[: len(told)]
        if len(told) < len(whole):
            rest = await raw.events(thread.thread_id, until="interrupted", since=told[-1]["seq"])
            assert told + rest == whole
        await interrupt_of(thread)
        await thread.run.respond("Yes", interrupt_id=thread.interrupts[-1]["interrupt_id"])
        async with asyncio.timeout(20):
            assert (await thread.output)["messages"][-1]["type"] == "ai"
        assert cutter.cuts == 4
        whole = await raw.events(thread.thread_id, until="completed")
        await raw.http.aclose()
    if transport == "websocket":
        return  # the other one begins anew over the same wire
    every = [40, *range(300, 12_000, 2400)]
    async with cutting(server.port, every) as (url, cutter):
        raw = Raw(server, url=url)
        assert await raw.in_spite_of_cuts(thread.thread_id, until="completed") == whole
        assert cutter.cuts > 3
        await raw.http.aclose()


async def test_rules_hold_here_as_behind_every_door(server: SlowStack):
    """P6: who asked does not approve; who was late is told; a reader reads."""
    ana, ben = Raw(server), Raw(server, "ben")
    read, ask, answer = (Raw(server, f"wst_ana-{scope}") for scope in ("read", "ask", "answer"))
    made = await ana.http.post("/threads", json={"metadata": {"waystation_team": "platform"}})
    thread = made.json()["thread_id"]
    start = {"assistant_id": "two-people", "input": {"input": "Pay"}}
    for who in (read, answer):
        refused = await who.command(thread, "run.start", **start)
        assert refused["error"] == "permission_denied"
    await ana.command(thread, "run.start", **start)
    live = await ben.events(thread, until="interrupted")
    key = next(one for one in live if one["method"] == "input.requested")["params"]["data"][
        "interrupt_id"
    ]
    for who in (ana, read, ask):
        refused = await who.command(thread, "input.respond", interrupt_id=key, response=True)
        assert refused["error"] == "permission_denied", refused
    assert (await answer.command(thread, "state.get"))["error"] == "permission_denied"
    unfit = await ben.command(thread, "input.respond", interrupt_id=key, response={"type": "no"})
    assert unfit["error"] == "invalid_argument"
    state = await read.command(thread, "state.get", namespace=[], keys=["input"])
    listed = await ana.command(thread, "state.listCheckpoints", limit=2)
    assert listed["result"]["checkpoints"][0]["id"] == state["result"]["checkpoint"]["id"]
    tree = (await ana.command(thread, "agent.getTree"))["result"]["tree"]
    assert (tree["graph_name"], tree["status"]) == ("two-people", "interrupted")
    both = [{"interrupt_id": key, "response": True, "namespace": []}]
    done = await ben.command(thread, "input.respond", responses=both)
    await ben.events(thread, until="completed", since=done["meta"]["applied_through_seq"])
    late = await ben.command(thread, "input.respond", interrupt_id=key, response=True)
    assert late["error"] == "no_such_interrupt" and "Ben" in late["message"]
    given = server.call("GET", "/api/v1/decisions", token=TOKENS["ben"])[1]["results"][0]
    assert (given["via"], given["decided_by"]) == ("langgraph", "ben")
    # from where it stood before it asked
    oldest = (await ana.command(thread, "state.listCheckpoints", limit=50))["result"]
    forked = await ana.command(thread, "state.fork", checkpoint_id=oldest["checkpoints"][-1]["id"])
    assert forked["result"]["thread_id"] == thread
    since = forked["meta"]["applied_through_seq"]
    await ana.events(thread, until="interrupted", since=since)
    cancelled = await ana.http.post(f"/threads/{thread}/runs/{forked['result']['run_id']}/cancel")
    assert cancelled.status_code == 404  # it ended at its question
    ended = await ana.http.post(f"/threads/{thread}/state", json={"as_node": "__end__"})
    assert ended.status_code == 200
    (*_, failed) = await ana.events(thread, until="failed", since=since)
    assert "cancelled" in failed["params"]["data"]["error"].lower()
    for who in (ana, ben, read, ask, answer):
        await who.http.aclose()


async def test_a_vote_where_others_must_agree_ends_at_once_with_the_question_open(server):
    ana, ben = Raw(server), Raw(server, "ben")
    made = await ana.http.post("/threads", json={"metadata": {"waystation_team": "platform"}})
    thread = made.json()["thread_id"]
    await ana.command(thread, "run.start", assistant_id="both-agree", input={"input": "Pay"})
    (*_, asked, _) = await ana.events(thread, until="interrupted", channels=["input", "lifecycle"])
    answer = {"interrupt_id": asked["params"]["data"]["interrupt_id"], "response": True}
    voted = await ana.command(thread, "input.respond", **answer)
    since = voted["meta"]["applied_through_seq"]
    told = await ana.events(thread, until="interrupted", since=since, channels=["lifecycle"])
    assert [one["params"]["data"]["event"] for one in told] == ["running", "interrupted"]
    twice = await ana.command(thread, "input.respond", **answer)
    assert twice["type"] == "error", twice
    await ben.command(thread, "input.respond", **answer)
    told = await ben.events(thread, until="completed", since=told[-1]["seq"])
    assert "input.answered" in {one["method"] for one in told}
    await ana.http.aclose()
    await ben.http.aclose()


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("run.start", {"assistant_id": "no-such", "input": {}}, "no_such_run"),
    ("run.start", {"input": {}}, "invalid_argument"),
    (
        "run.start",
        {"assistant_id": "slow-talk", "multitask_strategy": "rollback"},
        "invalid_argument",
    ),
    ("run.start", {"assistant_id": "slow-talk", "surprise": 1}, "invalid_argument"),
    ("run.begin", {}, "unknown_command"),
    ("input.inject", {"namespace": []}, "not_supported"),
    ("input.respond", {"interrupt_id": "x", "response": 1}, "no_such_interrupt"),
    ("input.respond", {"interrupt_id": "0" * 32, "response": 1}, "no_such_interrupt"),
    ("input.respond", {"interrupt_id": "0" * 32, "goto": "tell"}, "not_supported"),
    ("input.respond", {"responses": []}, "no_such_interrupt"),
    ("input.respond", {"interrupt_id": "0" * 32, "namespace": ["x"]}, "no_such_namespace"),
    ("state.get", {"namespace": ["x"]}, "no_such_namespace"),
    ("state.fork", {"checkpoint_id": str(uuid.UUID(int=5))}, "no_such_checkpoint"),
    ("state.fork", {"checkpoint_id": "x"}, "no_such_checkpoint"),
    ("agent.getTree", {"run_id": str(uuid.UUID(int=5))}, "no_such_run"),
    ("agent.getTree", {}, "no_such_run"),
    ("subscription.subscribe", {"channels": ["values"]}, "not_supported"),
]
MALFORMED: list[Any] = [
    None, [], {}, {"id": 1}, {"id": -1, "method": "state.get"}, {"id": "1", "method": 3},
    {"id": 1, "method": "state.get", "params": []}, {"method": "state.get"},
]  # fmt: skip
NO_FILTER: list[Any] = [
    None, {}, {"channels": []}, {"channels": "values"}, {"channels": ["odd"]},
    {"channels": ["custom:"]}, {"channels": ["values"], "since": -1},
    {"channels": ["values"], "depth": "x"}, {"channels": ["values"], "surprise": 1},
]  # fmt: skip


async def test_what_cannot_be_done_says_so_in_the_protocols_own_codes(server: SlowStack):
    ana, nobody = Raw(server), Raw(server, "nobody")
    thread = (await ana.http.post("/threads", json={})).json()["thread_id"]
    for method, params, code in REFUSED:
        refused = await ana.command(thread, method, **params)
        assert (refused["type"], refused["error"]) == ("error", code), (method, params, refused)
        assert refused["message"]
    for body in MALFORMED:
        answer = await ana.http.post(f"/threads/{thread}/commands", json=body)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_argument"), body
    for body in NO_FILTER:
        answer = await ana.http.post(f"/threads/{thread}/stream/events", json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument"), body
    elsewhere = f"/threads/{uuid.uuid4()}"
    unseen = await ana.http.post(f"{elsewhere}/stream/events", json={"channels": ["values"]})
    assert unseen.status_code == 404
    assert (await ana.command(str(uuid.uuid4()), "state.get"))["error"] == "no_such_run"
    unknown = await nobody.http.post(f"{elsewhere}/commands", json={})
    assert unknown.status_code == 401
    await ana.http.aclose()
    await nobody.http.aclose()


class Socket:
    def __init__(self, socket: Any) -> None:
        self.socket, self.events = socket, list[Any]()

    async def say(self, number: int, method: str, **params: Any) -> Any:
        await self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        return await self.answer()

    async def answer(self) -> Any:
        while True:
            told = json.loads(await self.socket.recv())
            if told["type"] != "event":
                return told
            self.events.append(told)

    async def until(self, status: str) -> None:
        while not any(one["params"]["data"].get("event") == status for one in self.events):
            self.events.append(json.loads(await self.socket.recv()))


async def test_a_socket_takes_every_command_and_begins_before_its_thread(server: SlowStack):
    """With the token as a browser brings it: an offered subprotocol."""
    thread = str(uuid.uuid4())
    url = f"{server.url}/langgraph/threads/{thread}/stream/events".replace("http", "ws", 1)
    offers: Any = ["waystation", f"bearer.{TOKENS['ana']}"]
    async with asyncio.timeout(60), connect(url, subprotocols=offers) as wire:
        ana = Socket(wire)
        early = await ana.say(1, "subscription.subscribe", channels=["lifecycle"])
        assert early["error"] == "no_such_run"
        begun = await ana.say(2, "run.start", assistant_id="slow-talk", input="Hello")
        assert begun["type"] == "success", begun
        followed = await ana.say(3, "subscription.subscribe", channels=["lifecycle", "input"])
        await ana.until("interrupted")
        asked = next(one for one in ana.events if one["method"] == "input.requested")
        key = asked["params"]["data"]["interrupt_id"]
        answered = await ana.say(4, "input.respond", interrupt_id=key, response="Rome")
        assert answered["type"] == "success", answered
        await ana.until("completed")
        raw = Raw(server)
        assert ana.events == await raw.events(
            thread, until="completed", channels=["lifecycle", "input"]
        )
        await raw.http.aclose()
        gone = {"subscription_id": followed["result"]["subscription_id"]}
        assert (await ana.say(5, "subscription.unsubscribe", **gone))["result"] == {}
        again = await ana.say(6, "subscription.unsubscribe", **gone)
        assert again["error"] == "no_such_subscription"
        assert (await ana.say(7, "subscription.reconnect", run_id="x"))["result"] == {
            "restored": False
        }
        odd = await ana.say(8, "subscription.subscribe", channels=["odd"])
        assert odd["error"] == "invalid_argument"
        await wire.send("no JSON")
        malformed = await ana.answer()
        assert (malformed["id"], malformed["error"]) == (None, "invalid_argument")
    nobody: Any = ["waystation", "bearer.nobody"]
    for offered in (None, nobody):
        with pytest.raises(ConnectionClosed) as closed:
            async with connect(url, subprotocols=offered) as wire:
                await wire.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4401
    other = dict(TOKENS)["ben"]
    async with connect(url, additional_headers={"x-api-key": other}) as wire:
        unseen = await Socket(wire).say(1, "subscription.subscribe", channels=["values"])
        assert unseen["error"] == "no_such_run"


@pytest.fixture(scope="module")
def told(server: SlowStack, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What AG-UI's client came to."""
    if not (INSTALLED / "node_modules" / "@ag-ui" / "client").exists():
        pytest.skip("AG-UI's package could not be installed: see .venv/node/why-not.txt")
    return came(tmp_path_factory.mktemp("client"), server, "agui_client.mjs")


def test_the_client_of_ag_ui_begins_is_asked_answers_and_is_refused(server: SlowStack, told: Any):
    """The client checks the form and the order of all events itself."""
    first, second = told["first"], told["second"]
    assert first["events"][0] == "RUN_STARTED" and first["events"][-1] == "RUN_FINISHED"
    assert {"STEP_STARTED", "STEP_FINISHED", "STATE_SNAPSHOT"} < set(first["events"])
    assert (told["asked"]["reason"], told["asked"]["message"].splitlines()[0]) == (
        "input", "Which city?",
    )  # fmt: skip
    assert told["again"] == first, "the same run's id begins nothing, and is told the same"
    assert second["outcome"] == {"type": "success"}
    assert told["said"] == ["Hello", "Rome", "Rome it is."]
    assert "HTTP 409" in told["late"]["refused"] and "by Ana" in told["late"]["refused"]
    decisions = server.call("GET", "/api/v1/decisions", token=TOKENS["ana"])[1]["results"]
    assert ("langgraph", "Rome") in [(one["via"], one["feedback"]) for one in decisions]


def test_words_and_tools_come_in_their_order_and_a_call_is_asked_about(told):
    streamed = told["streamed"]
    events = streamed["events"]
    words = [events.index(f"TEXT_MESSAGE_{part}") for part in ("START", "CONTENT", "END")]
    calls = [events.index(f"TOOL_CALL_{part}") for part in ("START", "ARGS", "END", "RESULT")]
    assert words == sorted(words) and calls == sorted(calls) and words[1] < calls[0]
    assert events.count("TEXT_MESSAGE_START") == events.count("TEXT_MESSAGE_END") == 2
    # what was streamed and what is kept are one message
    assert streamed["ids"] and set(streamed["ids"]) <= set(streamed["kept"])
    assert streamed["outcome"]["type"] == "interrupt"


def test_a_rule_keeps_out_who_asked_also_here_and_what_is_left_is_cancelled(told):
    """Four eyes: the same `decide` as behind every door."""
    assert told["waits"]["outcome"]["interrupts"][0]["reason"] == "approval"
    assert "HTTP 403" in told["own"]["refused"]
    assert told["dropped"]["outcome"] == {"type": "cancelled"}


def asked(server: SlowStack, who: str, body: Any, template: str = "slow-talk") -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(
        f"{server.url}/langgraph/agui/{template}",
        content=content,
        headers={"Authorization": f"Bearer {TOKENS.get(who, who)}"},
        timeout=30,
    )


def events_of(answer: httpx.Response) -> list[Any]:
    lines = answer.text.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


HELLO = {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "Hi"}]}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, ""),
        ([], 422, "body"),
        ({**HELLO, "threadId": ""}, 422, "threadId"),
        ({**HELLO, "runId": "r" * 300}, 422, "runId"),
        ({**HELLO, "messages": []}, 422, "messages"),
        ({**HELLO, "messages": [{"role": "assistant", "content": "Hi"}]}, 422, "messages"),
        ({**HELLO, "tools": [{"name": "x"}]}, 422, "tools"),
        ({**HELLO, "wish": 1}, 422, "wish"),
        ({**HELLO, "resume": [{"interruptId": "no", "status": "resolved"}]}, 422, "no interrupt"),
        ({**HELLO, "resume": [{"interruptId": "0" * 32, "status": "resolved"}]}, 409, "no such"),
        ({**HELLO, "resume": [{"interruptId": "0" * 32, "status": "maybe"}]}, 422, "status"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_in_words_and_begins_nothing(server, body, status, words):
    before = server.call("GET", "/api/v1/runs", token=TOKENS["ben"])[1]["results"]
    answer = asked(server, "ben", body)
    assert (answer.status_code, words in answer.json()["detail"]) == (status, True), answer.text
    assert server.call("GET", "/api/v1/runs", token=TOKENS["ben"])[1]["results"] == before


def test_who_may_not_begin_a_run_begins_none(server):
    assert asked(server, "wst_nobody", HELLO).status_code == 401
    for scope in ("read", "answer"):
        assert asked(server, f"wst_ana-{scope}", HELLO).status_code == 403
    mine = {**HELLO, "threadId": "by a token that asks"}
    told = asked(server, "wst_ana-ask", mine).text
    key = json.loads(told.strip().rpartition("data: ")[2])["outcome"]["interrupts"][0]["id"]
    answer = {**mine, "runId": "2", "resume": [{"interruptId": key, "status": "resolved"}]}
    assert asked(server, "wst_ana-ask", answer).status_code == 403
    assert asked(server, "ana", HELLO, template="no-such").status_code == 404
    got = httpx.get(f"{server.url}/langgraph/agui/slow-talk",
                    headers={"Authorization": f"Bearer {TOKENS['ana']}"})  # fmt: skip
    assert got.status_code == 405


def test_an_answer_under_the_id_of_the_run_that_asked_counts_once(server):
    """CopilotKit answers so: the question was told again, and nothing was decided."""
    hello = {**HELLO, "threadId": "one id", "runId": "1"}
    key = events_of(asked(server, "ana", hello))[-1]["outcome"]["interrupts"][0]["id"]
    resume = {"interruptId": key, "status": "resolved", "payload": "Rome"}
    told = [asked(server, "ana", {**hello, "resume": [resume]}) for _ in range(2)]
    assert [events_of(one)[-1]["outcome"] for one in told] == [{"type": "success"}] * 2
    assert (
        asked(server, "ana", {**hello, "resume": [{**resume, "payload": "Oslo"}]}).status_code
        == 409
    )
    assert events_of(asked(server, "ana", hello))[-1]["outcome"]["type"] == "interrupt"


def test_two_people_may_call_their_threads_the_same(server):
    threads = []
    for who in ("ana", "ben"):
        answer = asked(server, who, {**HELLO, "threadId": "the same name", "runId": "1"})
        assert answer.status_code == 200 and '"type":"interrupt"' in answer.text
        threads.append(server.call("GET", "/api/v1/threads", token=TOKENS[who])[1]["results"][0])
    assert threads[0]["id"] != threads[1]["id"]


def test_of_one_runs_id_sent_many_times_at_once_one_begins(server):
    """P4: a page that is impatient, or two of its tabs."""
    hello = {**HELLO, "threadId": "at once", "runId": "1"}
    before = server.call("GET", "/api/v1/runs", token=TOKENS["ana"])[1]["results"]
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda _: asked(server, "ana", hello), range(8)))
    assert {answer.status_code for answer in answers} <= {200, 409}
    # live, or told again: the same events at the same times
    first, *others = [events_of(answer) for answer in answers if answer.status_code == 200]
    assert all(other == first for other in others)
    assert first[-1]["outcome"]["type"] == "interrupt"
    runs = server.call("GET", "/api/v1/runs", token=TOKENS["ana"])[1]["results"]
    assert len([run for run in runs if run not in before]) == 1
    assert asked(server, "ana", hello).status_code == 200


@pytest.mark.parametrize("template", ["slow-talk", "slow-chat", "slow-broken"])
def test_another_ones_validator_finds_nothing_in_our_streams(server, template):
    """`ag-ui-validate` from PyPI, with all its rules: no error, no warning, no remark."""
    given: dict[str, Any] = {**HELLO, "threadId": f"valid {template}"}
    if template == "slow-broken":
        given |= {"messages": [], "forwardedProps": {"input": {}}}
    streams = [asked(server, "ana", {**given, "runId": "1"}, template)]
    key = events_of(streams[0])[-1]["outcome"]["interrupts"][0]["id"]
    payload = "Rome" if template == "slow-talk" else True
    resume = [{"interruptId": key, "status": "resolved", "payload": payload}]
    answer = {**given, "messages": [], "runId": "2", "resume": resume}
    streams.append(asked(server, "ana", answer, template))
    for stream in streams:
        validator = create_validator()
        for event in events_of(stream):
            validator.feed(event)
        validator.finalize()
        report = validator.report()
        assert (report.diagnostics, report.internal_errors) == ([], [])
        assert report.event_count == len(events_of(stream))
