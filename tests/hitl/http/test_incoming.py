"""How large a request may be, what JSON is read, and what a client is told who sends more."""

from __future__ import annotations

import base64
import json

import pytest
from asgiref.testing import ApplicationCommunicator
from hypothesis import given, settings
from hypothesis import strategies as st

from hitl.http import incoming
from runs import limits

JSON = "application/json"


def test_an_invoice_of_five_megabytes_is_taken_over_rest_as_promised(templates, api, ana):
    """README promises files of 5 MB; Django refused every body over 2.5 MB, with an HTML page."""
    content = base64.b64encode(b"<Invoice>" + b" " * 4_999_000).decode()
    given_input = {"invoice": {"name": "a.xml", "content": content}}
    made = api(ana).post(
        "/api/v1/work-orders", {"template": "smart-booking", "input": given_input}, format="json"
    )
    assert made.status_code == 201, made.content[:300]
    large = api(ana).post(
        "/api/v1/work-orders",
        {"template": "smart-booking", "request": "x" * limits.ORDER_BYTES},
        format="json",
    )
    assert (large.status_code, large["Content-Type"]) == (413, "application/problem+json")
    assert (large.json()["code"], large.json()["limit"]) == ("too_large", limits.ORDER_BYTES)


def test_other_addresses_keep_their_small_limits_and_say_them(paused, api, ana, page):
    text = "x" * limits.BODY_BYTES
    refused = api(ana).post("/api/v1/threads", {"title": text}, format="json")
    assert (refused.status_code, refused.json()["limit"]) == (413, limits.BODY_BYTES)
    waiting = api(ana).post(
        "/api/v1/workflows/wait",
        {"run_id": "x", "content": "x" * limits.EVENT_BYTES},
        format="json",
    )
    assert (waiting.status_code, waiting.json()["limit"]) == (413, limits.EVENT_BYTES)
    keyed = api(ana).post(
        "/api/v1/threads", {"title": text}, format="json", headers={"Idempotency-Key": "k"}
    )
    assert (keyed.status_code, keyed["Content-Type"]) == (413, "application/problem+json")
    shown = page.post("/threads/", {"title": text})
    assert shown.status_code == 413
    assert "That was too large" in shown.content.decode()


def test_an_import_of_many_tiny_values_is_refused_before_they_are_made(
    api, admin_user, zoe, monkeypatch
):
    """20 MB of brackets became 450 MB of memory, also where the import was refused afterwards."""
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was parsed"))
    raw = b"[" + b"{}," * limits.IMPORT_PARTS + b"{}]"
    refused = [
        api(user).post("/api/v1/threads/import", raw, content_type=JSON)
        for user in (admin_user, zoe)
    ]
    monkeypatch.undo()
    assert [answer.status_code for answer in refused] == [413, 403], (
        "the right is asked for before anything is read"
    )
    assert refused[0].json()["code"] == "document_too_large"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("[" * 202 + "]" * 202, "nested"),
        ("[" * 100_000 + "]" * 100_000, "nested"),
        ("[1e400]", "too large"),
        ("9" * 301, "too large"),
        ("9" * 5_000, "not JSON"),
        ("[NaN]", "NaN is no JSON"),
        ("[" + "1," * limits.BODY_PARTS + "1]", "values"),
        (b"\xff", "not JSON"),
    ],
)
def test_what_no_service_could_keep_is_refused_by_the_reader(raw, words):
    with pytest.raises(incoming.UnreadableBody, match=words):
        incoming.read(raw)


async def test_a_body_that_tells_no_length_is_counted_while_it_comes():
    """A body in pieces was written to the server's disk without end, before any view was asked."""
    taken = []

    async def application(scope, receive, send):
        while (message := await receive())["type"] == "http.request" and message.get("more_body"):
            taken.append(len(message["body"]))

    scope = {
        "type": "http",
        "path": "/api/v1/threads",
        "headers": [(b"transfer-encoding", b"chunked")],
    }
    client = ApplicationCommunicator(incoming.bounded(application), scope)
    for _ in range(4):
        await client.send_input(
            {"type": "http.request", "body": b"x" * 1_000_000, "more_body": True}
        )
    started, body = await client.receive_output(), await client.receive_output()
    assert started["status"] == 413
    assert json.loads(body["body"])["limit"] == limits.BODY_BYTES
    assert sum(taken) <= limits.BODY_BYTES


TEXT = st.text(max_size=8) | st.sampled_from(
    ["\x00", "\ud800", "\udc80", "\u202e", "a" * 300, "..", "0" * 400, "1e400", "-" * 40]
)
NUMBER = (
    st.integers(-(10**299), 10**299)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([2**31, 2**63, -(2**63) - 1])
)
SCALAR = st.none() | st.booleans() | NUMBER | TEXT
FIELDS = (
    *(
        "title",
        "team",
        "template",
        "request",
        "input",
        "run_id",
        "node_id",
        "state",
        "question",
        "content",
        "recipients",
        "review",
    ),
    *(
        "deadline",
        "reviewers",
        "required_inputs",
        "key",
        "choices",
        "callback_url",
        "decision",
        "action",
        "feedback",
        "revision",
        "payload",
    ),
    *(
        "edited_content",
        "items",
        "pauses",
        "until",
        "reason",
        "writing",
        "tool",
        "arguments",
        "channel",
        "target",
        "name",
        "occasions",
    ),
    *("secret", "when_busy", "traceId", "promptId", "response", "resume_from", "checkpoint_id"),
)
NAMES = st.sampled_from(FIELDS)
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXT, inner, max_size=4),
    max_leaves=8,
)
BODY = st.dictionaries(NAMES, VALUE, max_size=6) | VALUE


@pytest.fixture
def doors(paused, api, ana):
    """Addresses that take a body, with what they need to get beyond their first check."""
    pause = paused.latest_run.pauses.get()
    return api(ana), {
        "/api/v1/work-orders": {"template": "writing"},
        "/api/v1/threads": {},
        f"/api/v1/threads/{paused.thread.shown_id}/runs": {"template": "writing", "input": "x"},
        "/api/v1/workflows/wait": {"run_id": "r", "node_id": "n", "blocking_reason": "b"},
        "/api/v1/workflows/r/resume": {"payload": {}},
        "/api/v1/resume": {"traceId": "r", "promptId": "p", "response": 1},
        f"/api/v1/pauses/{pause.shown_id}/decisions": {"decision": "revise", "feedback": "x"},
        f"/api/v1/pauses/{pause.shown_id}/snooze": {"until": "2999-01-01T00:00:00Z"},
        f"/api/v1/pauses/{pause.shown_id}/presence": {},
        "/api/v1/pauses/bulk": {"decision": "revise", "items": []},
        "/api/v1/tools/explain": {"tool": "clock"},
        "/api/v1/endpoints": {"channel": "email", "target": "a@example.org"},
        f"/api/v1/runs/{paused.latest_run.shown_id}/input": {"content": "x"},
    }


@pytest.mark.django_db(transaction=True)
def test_no_json_at_any_door_is_a_server_error(doors):
    """A number of 400 digits was one."""
    client, addresses = doors
    client.raise_request_exception = False

    @settings(max_examples=60, deadline=None)
    @given(st.sampled_from(sorted(addresses)), BODY)
    def send(address, body):
        whole = {**addresses[address], **body} if isinstance(body, dict) else body
        answer = client.post(address, json.dumps(whole), content_type=JSON)
        assert answer.status_code < 500, (address, whole, answer.content[:300])

    send()
