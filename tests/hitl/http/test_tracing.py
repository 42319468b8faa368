"""`X-Trace-Id`: on every response, and the run's where the request is about a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from checkpoints.telemetry import spans
from hitl.http import tracing
from tests.conftest import pause_of
from tests.doors.rest import ORDERS

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

V1 = "/api/v1"
OWN = re.compile(r"req_[0-9a-hjkmnp-tv-z]{26}")
WAIT = {
    "run_id": "booking-4711",
    "node_id": "decide",
    "blocking_reason": "missing_supplier_data",
    "state": {},
}


def addresses(order):
    run, pause = order.latest_run, pause_of(order)
    return [
        f"{V1}/runs/{run.shown_id}",
        f"{V1}/runs/{run.shown_id}/events",
        f"{V1}/runs/{run.shown_id}/checkpoints",
        f"{V1}/pauses/{pause.shown_id}",
        f"{V1}/checkpoints/{pause.checkpoint.shown_id}",
        f"{V1}/work-orders/{order.shown_id}",
        f"{V1}/work-orders/{order.shown_id}/pause-state",
        f"/api/agent-work-orders/{order.shown_id}/pause-state",
        f"{V1}/workflows/{run.shown_id}",
    ]


def test_each_answer_about_a_run_names_it(paused, api, ana):
    """S2-11, S2-22: only streams had a trace, and it was the thread's."""
    client, run = api(ana), paused.latest_run.shown_id
    assert {url: client.get(url)["X-Trace-Id"] for url in addresses(paused)} == dict.fromkeys(
        addresses(paused), run
    )
    assert (
        client.get(f"{V1}/threads/{paused.thread.shown_id}")["X-Trace-Id"] == paused.thread.shown_id
    )
    state = f"{V1}/work-orders/{paused.shown_id}/pause-state"
    unchanged = client.get(state, headers={"If-None-Match": client.get(state)["ETag"]})
    assert (unchanged.status_code, unchanged["X-Trace-Id"]) == (304, run)
    answered = client.post(
        f"{V1}/work-orders/{paused.shown_id}/resume", {"decision": "approve"}, format="json"
    )
    assert (answered.status_code, answered["X-Trace-Id"]) == (200, run)


def test_a_page_about_an_order_names_its_run(paused, client, ana):
    """S2-22: pages too."""
    client.force_login(ana)
    assert (
        client.get(f"/work-orders/{paused.shown_id}/")["X-Trace-Id"] == paused.latest_run.shown_id
    )
    assert OWN.fullmatch(client.get("/work-orders/")["X-Trace-Id"])


def test_a_decision_its_repetition_and_its_refusal_name_the_run(paused, api, ana):
    """S2-22: also what is answered from under an Idempotency-Key, and a 409."""
    client, run = api(ana), paused.latest_run.shown_id
    url = f"{V1}/pauses/{pause_of(paused).shown_id}/decisions"
    told = [
        client.post(url, {"decision": "approve"}, format="json", headers={"Idempotency-Key": "k"})
        for _ in range(2)
    ]
    told.append(client.post(url, {"decision": "cancel"}, format="json"))
    assert [(answer.status_code, answer["X-Trace-Id"]) for answer in told] == [
        (201, run),
        (201, run),
        (409, run),
    ]
    decided = told[0].json()["id"]
    assert client.get(f"{V1}/decisions/{decided}")["X-Trace-Id"] == run


def test_what_begins_a_run_names_the_new_one_and_a_prompt_takes_that_name(api, ana, templates):
    """S2-22: the header's id goes back in as `traceId`."""
    client = api(ana)
    opened = client.post(f"{V1}/workflows/wait", WAIT, format="json")
    trace = opened["X-Trace-Id"]
    assert trace == opened.json()["waystation_run_id"]
    assert client.get(f"{V1}/workflows/booking-4711")["X-Trace-Id"] == trace
    words = {"traceId": trace, "promptId": opened.json()["pause_id"], "response": "approve"}
    answered = api(ana).post(f"{V1}/resume", words, format="json")
    assert (answered.status_code, answered["X-Trace-Id"]) == (200, trace)
    made = client.post(ORDERS, {"template": "writing"}, format="json")
    assert made["X-Trace-Id"] == client.get(f"{ORDERS}/{made.json()['id']}")["X-Trace-Id"] != trace


def test_no_run_is_named_to_who_may_not_see_it(paused, api, zoe, client):
    """F4: and a made-up one is not repeated."""
    stranger = api(zoe)
    for url in addresses(paused):
        for answer in (
            stranger.get(url),
            client.get(url),
            stranger.post(url, {}, format="json", headers={"X-Trace-Id": "run_x"}),
        ):
            assert answer.status_code in {401, 403, 404, 405}
            assert OWN.fullmatch(answer["X-Trace-Id"])


def test_every_other_response_has_an_id_of_its_own(client, subtests):
    """S2-22: refusals and redirections too; no two have the same."""
    for url in [
        "/nowhere",
        "/api/v1/nowhere",
        "/login",
        "/api/schema/",
        "/api/v1/runs",
        "/static/js/page.js",
        "/admin/",
    ]:
        with subtests.test(ascii(url)[:60]):
            both = [client.get(url) for _ in range(2)]
            for answer in both:
                answer.close()
            first, second = (answer["X-Trace-Id"] for answer in both)
            assert OWN.fullmatch(first)
            assert OWN.fullmatch(second)
            assert first != second


@pytest.mark.parametrize(
    ("address", "route"),
    [
        ("/static/css/app.css", "/static/<path>"),
        ("/api/v1/threads", "/api/v1/threads"),
        ("/threads/thr_01m80tjaghfs8v8fct10r6c3jb/", "/threads/<thr:thread_id>/"),
        ("/a-secret-that-somebody-typed?token=wst_1", tracing.NOWHERE),
    ],
)
def test_each_span_has_its_route_and_no_address(client, db, monkeypatch, address, route):
    """S0-70: also what is answered before a view is looked for; one was called `GET`."""
    named: list[str] = []

    class Span:
        def update_name(self, name: str) -> None:
            named.append(name)

        def set_attribute(self, name: str, value: object) -> None:
            assert "secret" not in str(value) and "01m80tjagh" not in str(value)

    class Spans:
        @contextmanager
        def request(self, method: str, headers: object) -> Iterator[Span]:
            yield Span()

        def fail(self, kind: str, words: str = "") -> None:
            """Note nothing."""

        def note(self, name: str, value: str) -> None:
            """Note nothing."""

        def ids(self) -> dict[str, str]:
            return {}

    monkeypatch.setattr(spans, "tracing", Spans())
    client.get(address).close()
    assert named == [f"GET {route}"]
