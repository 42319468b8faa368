"""The revisions of a question: what changed, on the card, on a page of its own and in a refusal."""

from __future__ import annotations

import pytest
from django.test import Client

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from tests.conftest import drive, pause_of
from tests.databases.whole import rows
from tests.doors.rest import problem

pytestmark = pytest.mark.django_db


def text(response):
    return response.content.decode()


@pytest.fixture
def revised(paused, ana):
    """A plan at revision 3; its text names the last feedback."""
    order = paused
    for words in ("shorter <b>", "much shorter"):
        services.decide(pause_of(order).pk, Answer("revise", Via.PAGE, feedback=words), by=ana)
        order = drive(order)
    return order


def test_the_card_shows_what_changed_since_the_revision_before(page, revised):
    shown = text(page.get(f"/work-orders/{revised.shown_id}/"))
    assert "Changed since revision 2" in shown
    assert "<ins>much" in shown
    assert "&lt;b" in shown


def test_the_first_revision_has_nothing_to_compare(page, paused):
    assert "Changed since revision" not in text(page.get(f"/work-orders/{paused.shown_id}/"))
    assert page.get(f"/pauses/{pause_of(paused).shown_id}/changes").status_code == 404


@pytest.mark.parametrize("query", ["", "?view=side", "?from=1", "?from=1&view=side"])
def test_the_page_of_changes_compares_with_any_earlier_revision_and_changes_nothing(
    page, revised, query
):
    """F1."""
    before = rows()
    shown = text(page.get(f"/pauses/{pause_of(revised).shown_id}/changes{query}"))
    assert f"revision {1 if 'from=1' in query else 2} against revision 3" in shown
    assert "<ins>" in shown
    assert rows() == before


@pytest.mark.parametrize("query", ["?from=3", "?from=99999", "?from=0", "?from=²"])
def test_a_revision_that_is_not_there_is_not_found(page, revised, query):
    found = page.get(f"/pauses/{pause_of(revised).shown_id}/changes{query}").status_code
    assert found == (200 if query == "?from=²" else 404)


def test_who_may_not_see_the_question_does_not_see_its_changes(revised, zoe):
    """F4."""
    client = Client()
    client.force_login(zoe)
    assert client.get(f"/pauses/{pause_of(revised).shown_id}/changes").status_code == 404


def test_who_answers_an_older_revision_is_told_what_changed_since(api, ana, revised):
    """P6: a decision names what was looked at."""
    url = f"/api/v1/pauses/{pause_of(revised).shown_id}/decisions"
    refused = problem(
        api(ana).post(url, {"decision": "approve", "revision": 1}, format="json"),
        409,
        "revision_mismatch",
    )
    assert "+ much shorter" in refused["changes"]
    assert refused["revision"] == 3
