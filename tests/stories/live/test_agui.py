"""AG-UI at `/langgraph/agui/<template>` on the running product, through that protocol's own client
from npm, unmodified (issue 21, 6).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from ag_ui_validate import create_validator

from tests.databases.copies import TOKENS
from tests.node import INSTALLED
from tests.servers.stack import SlowStack, standing_alone
from tests.stories.live.langgraph_loads import LOADS
from tests.stories.live.node_programs import came

pytestmark = [pytest.mark.stack, pytest.mark.one_database]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    if not (INSTALLED / "node_modules" / "@ag-ui" / "client").exists():
        pytest.skip("AG-UI's package could not be installed: see .venv/node/why-not.txt")
    with standing_alone(tmp_path_factory.mktemp("agui"), LOADS) as stack:
        yield stack


@pytest.fixture(scope="module")
def told(server: SlowStack, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the client came to."""
    return came(tmp_path_factory.mktemp("client"), server, "agui_client.mjs")


def test_its_client_begins_is_asked_answers_and_is_refused(server: SlowStack, told: Any):
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
