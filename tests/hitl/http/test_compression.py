"""Answers as gzip, for whoever takes it."""

from __future__ import annotations

import gzip

import pytest

from tests.conftest import pause_of

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

TAKES = {"accept-encoding": "gzip, deflate, br"}


def test_a_page_is_a_fraction_of_its_bytes_for_whoever_takes_gzip(paused, client, ana):
    client.force_login(ana)
    path = f"/work-orders/{paused.shown_id}/"
    plain, small = client.get(path), client.get(path, headers=TAKES)
    assert "Content-Encoding" not in plain.headers
    assert small["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in small["Vary"]
    assert int(small["Content-Length"]) == len(small.content) < len(plain.content) / 2
    assert gzip.decompress(small.content).startswith(plain.content[:500])


def test_its_length_tells_nothing_about_what_stands_in_it(paused, client, ana):
    """BREACH: the same page is of many lengths, and its token is another each time."""
    client.force_login(ana)
    answers = [client.get(f"/work-orders/{paused.shown_id}/", headers=TAKES) for _ in range(12)]
    assert len({len(answer.content) for answer in answers}) > 4
    tokens = {
        gzip.decompress(answer.content).partition(b"csrfmiddlewaretoken")[2][:90]
        for answer in answers
    }
    assert len(tokens) == len(answers)


def test_what_has_an_etag_keeps_it(paused, api, ana):
    """S4-67: what a client sends back is what it was given."""
    state = f"/api/v1/work-orders/{paused.shown_id}/pause-state"
    answer = api(ana).get(state, headers=TAKES)
    assert "Content-Encoding" not in answer.headers
    again = api(ana).get(state, headers={**TAKES, "if-none-match": answer["ETag"]})
    assert again.status_code == 304


def test_json_is_small_and_a_stream_comes_as_it_is(paused, api, ana, client):
    listed = api(ana).get("/api/v1/work-orders", headers=TAKES)
    assert listed["Content-Encoding"] == "gzip"
    question = api(ana).get(f"/api/v1/pauses/{pause_of(paused).shown_id}", headers=TAKES)
    assert (question["Content-Encoding"] == "gzip") != ("ETag" in question.headers)
    script = client.get("/static/js/page.js", headers=TAKES)
    assert script.streaming
    assert "Content-Encoding" not in script.headers
    script.close()


def test_what_is_given_again_under_a_key_is_the_same_and_names_its_run(api, ana, templates):
    """S2-22, S3-43: what is kept is no gzip, and what reads it before it goes out reads text."""
    first, again = (
        api(ana).post(
            "/api/v1/work-orders",
            {"template": "writing"},
            format="json",
            headers={**TAKES, "idempotency-key": "once"},
        )
        for _ in range(2)
    )
    assert first["Content-Encoding"] == again["Content-Encoding"] == "gzip"
    assert gzip.decompress(again.content) == gzip.decompress(first.content)
    assert again["X-Trace-Id"] == first["X-Trace-Id"]
    assert again["X-Trace-Id"].startswith("run_")
