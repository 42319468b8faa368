"""The revisions of a question: what changed, on the card, on a page of its own and in a refusal."""

from __future__ import annotations

import pytest
from django.test import Client

from checkpoints.database import clock
from hitl.decisions import revisions, services
from hitl.decisions.services import Answer
from hitl.models import Comment, Via
from runs.workflows import Go, Report
from tests.conftest import drive, pause_of
from tests.databases.whole import rows
from tests.doors.html import fold
from tests.doors.rest import problem
from tests.hitl.views.order_pages import text
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db


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


def test_who_saw_an_earlier_revision_is_shown_what_changed_and_what_they_asked_for(
    page, revised, ana
):
    """Issue 36: the second look began like the first."""
    shown = fold(text(page.get(f"/work-orders/{revised.shown_id}/")))
    assert '<section class="look changed first" id="look-changed"' in shown
    assert "Changed since revision 2, which you saw" in shown
    assert "<b>You asked at revision 2:</b>" in shown and "much shorter" in shown


def test_who_saw_none_is_shown_the_text_and_who_saw_the_first_all_since(page, revised, ana, ben):
    other = Client()
    other.force_login(ben)
    shown = fold(text(other.get(f"/work-orders/{revised.shown_id}/")))
    assert '<section class="look plan first" id="look-plan"' in shown
    assert "Ana Ruiz asked at revision 2:" in shown and "which you saw" not in shown
    first = revisions.earlier(pause_of(revised), 1)
    assert first is not None
    Comment.objects.create(pause=first, author=ben, by_name="Ben", text="Hm.", made_at=clock.now())
    shown = fold(text(other.get(f"/work-orders/{revised.shown_id}/")))
    assert "Changed since revision 1, which you saw" in shown
    assert "Ana Ruiz asked at revision 1:" in shown and "Ana Ruiz asked at revision 2:" in shown


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


@pytest.fixture
def asked_twice(order_that, ana):
    """Makes an order whose step is sent back once; gives it at revision 2."""

    def make(*reports, **used):
        said = iter(reports)
        order = drive(
            order_that(
                lambda state, context: Go(
                    update={name: state.get(name, 0) + more for name, more in used.items()},
                    report=next(said),
                ),
                pause_after=True,
                pause_phase="awaiting_review",
            )
        )
        services.decide(pause_of(order).pk, Answer("revise", Via.PAGE, feedback="again"), by=ana)
        return drive(order)

    return make


def test_each_revision_says_what_it_cost_and_not_what_all_of_them_did(page, asked_twice):
    """Pattern 23: cost per revision."""
    order = asked_twice(
        Report(content="One"),
        Report(content="Two"),
        input_tokens=1_200,
        output_tokens=30,
        cost=0.02,
    )
    shown = " ".join(text(page.get(f"/work-orders/{order.shown_id}/")).split())
    assert "This revision <b>$0.0200</b> (1,200 tokens in, 30 out)" in shown
    assert revisions.spent(pause_of(order)) == revisions.Spent(1_200, 30, 0.02)


def test_json_is_compared_by_its_names_and_not_by_how_it_is_written(asked_twice):
    """Pattern 11: the order of names, and white space, are no change."""
    order = asked_twice(
        Report(content='{"to": "acme", "amount": 10, "lines": [1, 2]}'),
        Report(content='```json\n{"amount": 20,\n "lines": [1,2], "to": "acme"}\n```'),
    )
    now = pause_of(order)
    before = revisions.earlier(now)
    assert before is not None
    told = revisions.changes_as_text(before, now).splitlines()
    assert [line.strip() for line in told if line[:1] in "+-" and line[1:2] != line[:1]] == [
        '-   "amount": 10,',
        '+   "amount": 20,',
    ]
