"""The door for agents, `/mcp`, on the running product, through the client of the protocol's own
package and by both of its eras (issue 21).
"""

from __future__ import annotations

import asyncio
import http.client
import json
import uuid
from functools import partial
from typing import Any

import psycopg
import pytest

from hitl.models import ApiToken
from tests.databases.copies import TOKENS
from tests.doors.mcp import ERAS, agent, given, posted, refused, spoken
from tests.servers.stack import Stack, until

pytestmark = [pytest.mark.stack, pytest.mark.one_database]

AGENTS = {
    "ana asks": ("ana", "ask"),
    "ana writes": ("ana", "write"),
    "ana reads": ("ana", "read"),
    "ben answers": ("ben", "answer"),
    "zoe asks": ("zoe", "ask"),
}
SECRETS = {name: f"wst_{name.replace(' ', '-')}" for name in AGENTS}
ASKS = ["request_approval", "ask_human", "wait_for_answer", "withdraw_request"]
ORDERS = ["start_work_order", "get_work_order"]
ANSWERS = ["list_waiting", "get_question", "answer"]
GRANT = """
INSERT INTO hitl_apitoken (id, user_id, name, scope, digest, created_at)
SELECT %s, id, %s, %s, %s, now() FROM auth_user WHERE username = %s
"""


@pytest.fixture(scope="module")
def server(stack: Stack) -> Stack:
    with psycopg.connect(stack.environment["DATABASE_URL"]) as database:
        for name, (user, scope) in AGENTS.items():
            digest = ApiToken.digest_of(SECRETS[name])
            database.execute(GRANT, [uuid.uuid4(), name, scope, digest, user])
    return stack


def refund(**more: Any) -> dict[str, Any]:
    """A request that no other test makes; the same call again is the same one."""
    call = {"action": "refund", "arguments": {"amount": 5, "order": uuid.uuid4().hex}}
    return {**call, "team": "platform", "wait_seconds": 0, "key": uuid.uuid4().hex, **more}


async def answered(stack: Stack, request_id: str, decision: str, who: str = "ben", **more: Any):
    """The answer of a person, as the page and REST take it."""
    return await asyncio.to_thread(
        partial(
            stack.call,
            "POST",
            f"/api/v1/pauses/{request_id}/decisions",
            {"decision": decision, **more},
            token=TOKENS.get(who, who),
        )
    )


def about(decision: str, **more: Any) -> dict[str, Any]:
    return {"input": {"calls": {"call": {"decision": decision, **more}}}}


@pytest.mark.parametrize("mode", ERAS.values(), ids=ERAS)
async def test_an_agent_acts_with_what_a_person_approved(server: Stack, mode: str):
    """Before, what an agent did was approved by whoever sat beside it, or by nobody: its request is
    a question like any other, and the same call finds it again, answered or not (F0, P1).
    """
    wanted = refund(why="It came **late**.", editable=["/amount"])
    async with agent(server.url, SECRETS["ana asks"], mode=mode) as ana:
        asked = await given(ana, "request_approval", **wanted)
    assert (asked["status"], asked["arguments"]) == ("pending", None)
    assert "/threads/thr_" in asked["url"] and "wait_for_answer" in asked["message"]
    # after a crash: another connection, the same words
    async with agent(server.url, SECRETS["ana asks"], mode=mode) as ana:
        again = await given(ana, "request_approval", **wanted)
        assert again["request_id"] == asked["request_id"]
        question = server.call("GET", f"/api/v1/pauses/{asked['request_id']}", token=TOKENS["ben"])[
            1
        ]
        assert question["calls"][0]["arguments"] == wanted["arguments"]
        assert question["facts"] == {"Asked by the agent": "ana asks"}
        edited = {**wanted["arguments"], "amount": 3}
        waiting = asyncio.create_task(given(ana, "wait_for_answer", request_id=asked["request_id"]))
        status, said = await answered(
            server, asked["request_id"], "answer", **about("edit", arguments=edited)
        )
        assert status == 201, said
        approved = await waiting
        assert (approved["status"], approved["arguments"]) == ("approved", edited)
        assert approved["decided_by"] == "Ben"
        assert await given(ana, "request_approval", **wanted) == approved
        fresh = await given(ana, "request_approval", **{**wanted, "key": "once more"})
        assert fresh["status"] == "pending" and fresh["request_id"] != asked["request_id"]


async def test_whoever_asks_never_approves(server: Stack):
    """A token approves nothing that it asked, whatever its scope and through whichever door; nor
    does its person, unless operators say so (P6).
    """
    async with agent(server.url, SECRETS["ana writes"]) as ana:
        asked = (await given(ana, "request_approval", **refund()))["request_id"]
        question = (await given(ana, "get_question", question_id=asked))["question"]
        seen = {"revision": 1, "content_digest": question["content_digest"]}
        said = await refused(ana, "answer", question_id=asked, decision="approve", **seen)
        assert "asked the question, so it does not answer it" in said
        for secret, code in [
            (SECRETS["ana writes"], "own_question"),
            (SECRETS["ana asks"], "scope_ask_cannot_answer"),
            ("ana", "self_approval"),
        ]:
            status, problem = await answered(server, asked, "approve", secret)
            assert (status, problem["code"]) == (403, code)
        run = question["run_id"]
        approve = {"content": "APPROVE"}
        status, problem = server.call(
            "POST", f"/api/v1/runs/{run}/input", approve, token=SECRETS["ana writes"]
        )
        assert (status, problem["code"]) == (403, "own_question")
        looked = await given(ana, "wait_for_answer", request_id=asked, wait_seconds=0)
        assert looked["status"] == "pending"
        said = await refused(ana, "request_approval", **{**refund(), "team": ""})
        assert "Nobody could answer this question" in said
        for body in ({"run_id": "token:x:y"}, {"run_id": f"token:{uuid.uuid4().hex}:{'0' * 64}"}):
            wait = {"node_id": "approval", "blocking_reason": "x", **body}
            status, problem = server.call(
                "POST", "/api/v1/workflows/wait", wait, token=SECRETS["ana writes"]
            )
            assert (status, problem["code"]) == (422, "wait_invalid")


async def test_a_question_is_answered_with_data_of_its_schema(server: Stack):
    schema = {
        "type": "object",
        "properties": {"vat_id": {"type": "string"}},
        "required": ["vat_id"],
    }
    async with agent(server.url, SECRETS["ana asks"], query="?team=platform") as ana:
        ask = partial(given, ana, "ask_human", wait_seconds=0)
        mine = uuid.uuid4().hex
        form = await ask(question=f"Which VAT id? {mine}", schema=schema)
        text = await ask(question=f"What is it called? {mine}")
        chosen = await ask(question=f"Red or blue? {mine}", choices=["red", "blue"])
        given_data = {
            form["request_id"]: {"vat_id": "DE123456789"},
            text["request_id"]: {"answer": "Waystation"},
            chosen["request_id"]: {"answer": "blue"},
        }
        status, problem = await answered(
            server, chosen["request_id"], "answer", input={"answer": "green"}
        )
        assert (status, problem["code"]) == (422, "input_invalid")
        for request_id, data in given_data.items():
            assert (await answered(server, request_id, "answer", input=data))[0] == 201
            found = await given(ana, "wait_for_answer", request_id=request_id)
            assert (found["status"], found["answer"]) == ("answered", data)
        rejected = await ask(question=f"May I see the salaries? {mine}")
        await answered(server, rejected["request_id"], "cancel", feedback="Not for you.")
        found = await given(ana, "wait_for_answer", request_id=rejected["request_id"])
        assert (found["status"], found["feedback"]) == ("rejected", "Not for you.")


async def test_two_that_wait_get_the_same_answer_and_one_that_is_withdrawn_asks_nobody(
    server: Stack,
):
    """Both waiters are woken by the one answer, long before their 50 seconds are over."""
    async with (
        agent(server.url, SECRETS["ana asks"]) as one,
        agent(server.url, SECRETS["ana asks"], mode="legacy") as other,
    ):
        wanted = refund(risk="high")
        asked = await given(one, "request_approval", **wanted)
        waiting = [
            asyncio.create_task(given(one, "wait_for_answer", request_id=asked["request_id"])),
            asyncio.create_task(given(other, "request_approval", **{**wanted, "wait_seconds": 50})),
        ]
        status, problem = await answered(server, asked["request_id"], "approve")
        assert (status, problem["code"]) == (422, "unknown_answer")  # of high risk: one by one
        reject = about("reject", reason="Too much.")
        assert (await answered(server, asked["request_id"], "answer", **reject))[0] == 201
        async with asyncio.timeout(20):
            found = await asyncio.gather(*waiting)
        assert found[0] == found[1]
        assert (found[0]["status"], found[0]["feedback"]) == ("rejected", "Too much.")

        asked = await given(one, "request_approval", **refund())
        gone = await given(
            one, "withdraw_request", request_id=asked["request_id"], reason="not needed"
        )
        assert gone["status"] == "withdrawn"
        assert await given(other, "withdraw_request", request_id=asked["request_id"]) == gone
        status, problem = await answered(server, asked["request_id"], "approve")
        assert (status, problem["code"]) == (409, "pause_closed")


def question_about(stack: Stack, arguments: dict[str, Any]) -> str:
    """The id of the open question about a call with these arguments; "" where there is none yet."""
    found = stack.call("GET", "/api/v1/pauses?open=1&kind=tools", token=TOKENS["ben"])[1]["results"]
    return next((one["id"] for one in found if one["calls"][0]["arguments"] == arguments), "")


async def prompted(client: Any, tool_use_id: str, **given_input: Any) -> dict[str, Any]:
    """What Claude Code's prompt tool gives: one block of text, never an error."""
    call = {"tool_name": "Bash", "input": given_input, "tool_use_id": tool_use_id}
    result = await client.call_tool(
        "permission_prompt", {key: value for key, value in call.items() if value}
    )
    assert not result.is_error and len(result.content) == 1
    answer: dict[str, Any] = json.loads(result.content[0].text)
    return answer


@pytest.mark.parametrize("mode", ERAS.values(), ids=ERAS)
async def test_the_prompt_of_claude_code_is_answered_by_a_person(server: Stack, mode: str):
    """It cannot be told "pending", so it waits; and all that is no approval denies."""
    mine = uuid.uuid4().hex
    async with agent(
        server.url, SECRETS["ana asks"], mode=mode, query="?team=platform&deadline=PT1M"
    ) as ana:
        edit = about("edit", arguments={"command": "ls"})
        deny = about("reject", reason="Not now.")
        allowed, edited = {"command": f"allow {mine}"}, {"command": "ls"}
        answers: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
            ("allow", "approve", {}, {"behavior": "allow", "updatedInput": allowed}),
            ("edit", "answer", edit, {"behavior": "allow", "updatedInput": edited}),
            ("deny", "answer", deny, {"behavior": "deny", "message": "Not now."}),
        ]
        for name, decision, more, expected in answers:
            command = f"{name} {mine}"
            waiting = asyncio.create_task(prompted(ana, command, command=command))
            asked = await asyncio.to_thread(
                until, partial(question_about, server, {"command": command}), what="the question"
            )
            status, said = await answered(server, asked, decision, **more)
            assert status == 201, said
            assert await waiting == expected
            assert await prompted(ana, command, command=command) == expected  # after a crash
        said = await prompted(ana, "", command="x")
        assert said["behavior"] == "deny" and "tool_use_id" in said["message"]
        said = await prompted(ana, mine, api_key="x")
        assert said["behavior"] == "deny" and "named like a secret" in said["message"]
    async with agent(server.url, SECRETS["ana asks"], mode=mode) as ana:
        said = await prompted(ana, f"nobody {mine}", command="x")
        assert said["behavior"] == "deny" and "Nobody could answer" in said["message"]
    short = "?reviewers=ben&deadline=PT1S"
    async with agent(server.url, SECRETS["ana asks"], mode=mode, query=short) as ana:
        said = await prompted(ana, f"late {mine}", command="x")
        assert said["behavior"] == "deny" and "Nobody answered in time" in said["message"]


async def test_tools_are_those_of_the_scope_and_requests_those_of_the_person(server: Stack):
    """What a token may not use is not listed, and refused where it is called all the same."""
    listed = {
        "ana asks": [*ASKS, "permission_prompt", *ORDERS],
        "ana writes": [*ASKS, "permission_prompt", *ORDERS, *ANSWERS],
        "ana reads": ["get_work_order", "list_waiting", "get_question"],
        "ben answers": ANSWERS,
    }
    for name, tools in listed.items():
        async with agent(server.url, SECRETS[name]) as client:
            told = (await client.list_tools()).tools
            assert [tool.name for tool in told] == tools
            assert all(len(tool.description or "") < 2_000 for tool in told)
            for tool in {*listed["ana writes"]} - {*tools} - {"permission_prompt"}:
                assert "This token" in await refused(client, tool)
    async with agent(server.url, SECRETS["ana asks"]) as ana:
        mine = await given(ana, "request_approval", **refund())
    async with agent(server.url, SECRETS["zoe asks"]) as zoe:
        for tool in ("wait_for_answer", "withdraw_request"):
            for request_id in (mine["request_id"], "pse_nothing", f"pse_{'0' * 26}"):
                said = await refused(zoe, tool, request_id=request_id)
                assert said == "There is no such request."
        said = await refused(zoe, "request_approval", **refund())
        assert "You are in no team of this name" in said
    # a question that no agent asked
    status, wait = server.call(
        "POST",
        "/api/v1/workflows/wait",
        {"run_id": uuid.uuid4().hex, "node_id": "x", "blocking_reason": "x"},
        token=TOKENS["ana"],
    )
    assert status == 201
    async with agent(server.url, SECRETS["ana asks"]) as ana:
        said = await refused(ana, "wait_for_answer", request_id=wait["pause_id"])
        assert said == "There is no such request."


async def test_a_persons_own_assistant_answers_what_it_showed(server: Stack):
    """An answer is bound to the content that was shown: another digest is no answer."""
    async with (
        agent(server.url, SECRETS["ana asks"]) as ana,
        agent(server.url, SECRETS["ben answers"]) as ben,
    ):
        asked = (await given(ana, "request_approval", **refund()))["request_id"]
        listed = await given(ben, "list_waiting", limit=50)
        assert asked in [question["question_id"] for question in listed["questions"]]
        shown = (await given(ben, "get_question", question_id=asked))["question"]
        seen = {"question_id": asked, "decision": "approve", "revision": shown["revision"]}
        said = await refused(ben, "answer", **seen, content_digest="0" * 64)
        assert "changed" in said or "no longer" in said or "revision" in said, said
        digest = {"content_digest": shown["content_digest"]}
        recorded = await given(ben, "answer", **seen, **digest)
        assert recorded["decision"]["via"] == "mcp"
        said = await refused(ben, "answer", **seen, **digest)
        assert "Ben" in said
        found = await given(ana, "wait_for_answer", request_id=asked)
        assert found["status"] == "approved"
        assert (
            await refused(ben, "get_question", question_id="pse_x") == "There is no such question."
        )


async def test_an_agent_starts_work_once_under_its_key(server: Stack):
    async with (
        agent(server.url, SECRETS["ana asks"]) as ana,
        agent(server.url, SECRETS["zoe asks"]) as zoe,
    ):
        wanted = {
            "template": "repo-tidy",
            "repository_url": f"file://{server.folder}/celery",
            "input": {"rules": "F401", "paths": "src/sample"},
            "key": uuid.uuid4().hex,
        }
        order = await given(ana, "start_work_order", **wanted)
        again = await given(ana, "start_work_order", **wanted)
        assert again["work_order_id"] == order["work_order_id"]
        said = await refused(ana, "start_work_order", **{**wanted, "title": "Other"})
        assert "This key was used for another work order" in said
        server.paused(order["work_order_id"], TOKENS["ana"], "awaiting_plan_approval")
        looked = await given(ana, "get_work_order", work_order_id=order["work_order_id"])
        assert looked["status"] == "paused" and len(looked["questions"]) == 1
        for order_id in (order["work_order_id"], "wo_x"):
            said = await refused(zoe, "get_work_order", work_order_id=order_id)
            assert said == "There is no such work order."
        said = await refused(ana, "start_work_order", template="none-of-this-name")
        assert "none-of-this-name" in said


BAD: dict[str, dict[str, Any]] = {
    "unknown": {"acton": "x"},
    "wrong type": {"arguments": []},
    "too long": {"action": "x" * 201},
    "waits too long": {"wait_seconds": 51},
    "NUL": {"why": "a\0b"},
    "half a character": {"action": "\ud800"},
    "secret": {"arguments": {"nested": {"password": "x"}}},
    "no duration": {"deadline": "soon"},
    "no pointer": {"editable": ["amount"]},
    "too large a number": {"arguments": {"n": 10**301}},
    "too deep": {"arguments": {"n": json.loads("[" * 190 + "]" * 190)}},
    "too large": {"arguments": {"n": "x" * 600_000}},
    "nobody's mail": {"recipients": ["a@b@c"]},
    "nobody": {"reviewers": ["nobody-of-this-name"]},
}
QUESTIONS: dict[str, dict[str, Any]] = {
    "no object": {"schema": {"type": "string"}},
    "no schema": {"schema": {"type": "object", "properties": {"a": {"type": "wrong"}}}},
    "owned": {"schema": {"type": "object", "properties": {"decided": {"type": "string"}}}},
    "twice": {"schema": {"type": "object", "properties": {}}, "choices": ["a"]},
}


async def test_bad_input_is_told_in_words(server: Stack):
    """Nothing that an agent sends is an error of the server's."""

    def opened() -> int:
        found = server.call("GET", "/api/v1/pauses?open=1&kind=tools", token=TOKENS["ben"])
        return len(found[1]["results"])

    before = opened()
    for name, wrong in BAD.items():
        status, said = posted(
            server, SECRETS["ana asks"], "request_approval", {**refund(), **wrong}
        )
        if status == 400:
            assert said["error"]["code"] == -32700, (name, said)
            continue
        assert status == 200, (name, status, said)
        reply = json.loads(said.partition("data: ")[2].partition("\r\n")[0])
        assert reply["result"]["isError"], (name, reply)
        words = reply["result"]["content"][0]["text"]
        assert "failed on the server" not in words, (name, words)
    assert opened() == before
    async with agent(server.url, SECRETS["ana asks"], query="?team=platform") as ana:
        for name, wrong in QUESTIONS.items():
            said = await refused(ana, "ask_human", question="?", wait_seconds=0, **wrong)
            assert "failed on the server" not in said, (name, said)
        with pytest.raises(Exception, match="There is no tool 'nothing'"):
            await ana.call_tool("nothing", {})


def test_the_door_lets_in_whom_the_other_doors_let_in(server: Stack):
    """Hosts, origins, tokens, sizes and methods are judged as at all other doors."""
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"Accept": "application/json, text/event-stream"}

    def code(token: str = SECRETS["ana asks"], method: str = "POST", body: Any = ping, **headers):
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        status, said = server.call(method, "/mcp", body, token=token, headers={**accept, **sent})
        return status, said.get("code") if isinstance(said, dict) else None

    assert code()[0] == 200
    assert code(token="") == (401, "not_authenticated")
    assert code(token="wst_wrong") == (401, "not_authenticated")
    assert code(method="GET") == (405, "method_not_allowed")
    assert code(method="DELETE") == (405, "method_not_allowed")
    assert code(Host="evil.example") == (400, "host_refused")
    assert code(Origin="https://evil.example") == (403, "origin_refused")
    assert code(Origin=server.url)[0] == 200
    assert code(body={**ping, "x": "x" * 1_100_000}) == (413, "too_large")
    status, said = server.call("POST", "/mcp", [], token=SECRETS["ana asks"], headers=accept)
    assert status == 400 and said["error"]["code"] < 0


async def test_a_request_is_a_task_for_a_client_that_declares_tasks(server: Stack):
    """SEP-2663: the task is there before its id is told, says where the question stands, and is
    nobody else's.
    """

    def asked(secret: str, **more: Any) -> Any:
        params = {"name": "request_approval", "arguments": refund(wait_seconds=50)}
        return spoken(server, secret, "tools/call", params, name="request_approval", **more)

    def task(method: str, task_id: str, secret: str = SECRETS["ana asks"], **more: Any) -> Any:
        more = {"name": task_id, **more}
        status, said = spoken(server, secret, f"tasks/{method}", {"taskId": task_id}, **more)
        return said["result"] if status == 200 and "result" in said else said["error"]["code"]

    created = asked(SECRETS["ana asks"])[1]["result"]
    assert (created["resultType"], created["status"]) == ("task", "working")
    task_id = created["taskId"]
    assert created["ttlMs"] is None and "result" not in task("get", task_id)
    # whose it is not, who knows no tasks, whose header names another, what there is not
    assert task("get", task_id, SECRETS["zoe asks"]) == -32602
    assert task("get", task_id, SECRETS["ben answers"]) == -32602
    assert task("get", task_id, tasks=False) == -32021
    assert task("get", task_id, name="pse_other") == -32020
    assert task("get", "pse_none") == task("cancel", "pse_none") == -32602
    assert task("update", task_id)["resultType"] == "complete"
    assert (await answered(server, task_id, "approve"))[0] == 201
    done = task("get", task_id)
    assert done["status"] == "completed" and done["result"]["isError"] is False
    assert done["result"]["structuredContent"]["status"] == "approved"
    assert task("cancel", task_id)["resultType"] == "complete"
    assert task("get", task_id)["status"] == "completed"

    gone = asked(SECRETS["ana asks"])[1]["result"]["taskId"]
    assert task("cancel", gone)["resultType"] == "complete"
    assert task("get", gone)["status"] == "cancelled"
    async with agent(server.url, SECRETS["ana asks"]) as ana:  # which declares none
        assert (await given(ana, "request_approval", **refund()))["status"] == "pending"


async def test_an_agent_finds_its_question_after_the_server_was_killed(
    server: Stack, beside: Stack
):
    """P2: the question is in the database before anybody waits for it, and the answer is no
    server's own.
    """
    wanted, killed = refund(), beside.web()
    first = asyncio.create_task(
        asyncio.to_thread(
            posted,
            beside,
            SECRETS["ana asks"],
            "request_approval",
            {**wanted, "wait_seconds": 50},
        )
    )
    asked = await asyncio.to_thread(
        until, partial(question_about, server, wanted["arguments"]), what="the question"
    )
    beside.kill(killed)
    with pytest.raises((OSError, http.client.HTTPException)):
        await first
    async with agent(server.url, SECRETS["ana asks"]) as ana:
        again = await given(ana, "request_approval", **wanted)
        assert (again["request_id"], again["status"]) == (asked, "pending")
        assert (await answered(server, asked, "approve"))[0] == 201
        found = await given(ana, "request_approval", **{**wanted, "wait_seconds": 50})
        assert found["status"] == "approved"
