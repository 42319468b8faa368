"""What people say about lines of a patch, and which of its files they have seen."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Comment, Decision, SeenFile, Via
from hitl.threads import export
from runs.models import Pause
from tests.conftest import drive, pause_of
from tests.worlds.ruled_order import browser, rest

pytestmark = pytest.mark.django_db
AT = {"path": "x", "line": 1, "side": "new"}


@pytest.fixture
def order(paused, ana):
    """One whose changes are reviewed: file `x`, one line taken out and one put in."""
    services.decide(pause_of(paused).pk, Answer("approve", Via.PAGE), by=ana)
    return drive(paused)


@pytest.fixture
def pause(order) -> Pause:
    return pause_of(order)


@pytest.mark.both_databases
def test_a_comment_at_a_line_goes_back_with_revise_and_names_its_place(order, pause, ana, ben):
    """Issue 19: by page and REST; the step is told file and line, and so is the ledger."""
    url = f"/pauses/{pause.shown_id}/comment"
    said = browser(ana).post(url, {"text": "Why b?", **AT}, follow=True)
    assert 'data-said-at="new:1" data-said-in="x"' in said.content.decode()
    body = {"text": "It was right.", "path": "x", "line": 1, "side": "old"}
    made = rest(ben).post(f"/api/v1/pauses/{pause.shown_id}/comments", body, format="json")
    assert (made.status_code, made.json()["path"], made.json()["side"]) == (201, "x", "old")
    general = rest(ben).post(
        f"/api/v1/pauses/{pause.shown_id}/comments", {"text": "All in all fine."}, format="json"
    )
    assert (general.json()["line"], general.json()["side"]) == (None, "")
    fields = {"action": "revise", "wish": "Again", "revision": 1}
    fields["comments_until"] = general.json()["id"]
    browser(ben).post(f"/pauses/{pause.shown_id}/decide", fields)
    words = Decision.objects.get(action="revise").feedback
    assert "- Ana Ruiz at x, line 1: Why b?" in words
    assert "- Ben at x, line 1 before the change: It was right." in words
    assert "- Ben: All in all fine." in words
    [said_of] = [row for row in export.export(order.thread_id)["pauses"] if row["comments"]]
    places = [(row["path"], row["line"], row["side"]) for row in said_of["comments"]]
    assert places == [("x", 1, "new"), ("x", 1, "old"), ("", None, "")]


def test_a_place_that_the_patch_does_not_show_is_refused(pause, ana, subtests):
    """Before there were places. The page keeps what was typed."""
    cases: list[tuple[Any, ...]] = [
        ({"path": "y"}, "no such file"),
        ({"line": 2}, "line"),
        ({"line": 0}, "line"),
        ({"side": "up"}, "side"),
        ({"path": ""}, "no such file"),
    ]
    for about, words in cases:
        with subtests.test(ascii(about)[:60]):
            refused = rest(ana).post(
                f"/api/v1/pauses/{pause.shown_id}/comments",
                {"text": "Hm", **AT, **about},
                format="json",
            )
            assert refused.status_code in {400, 422}
            assert words in refused.content.decode()
            if about != {"path": ""}:  # where a form names no file, its comment is about the whole
                page = browser(ana).post(
                    f"/pauses/{pause.shown_id}/comment", {"text": "Hm", **AT, **about}
                )
                assert page.status_code == 422
                assert "Hm" in page.content.decode()
            assert not Comment.objects.exists()


def test_a_question_without_a_patch_has_no_lines(paused, ana):
    refused = rest(ana).post(
        f"/api/v1/pauses/{pause_of(paused).shown_id}/comments", {"text": "Hm", **AT}, format="json"
    )
    assert refused.status_code == 422


@pytest.mark.both_databases
def test_files_seen_are_kept_for_each_person_and_over_revisions(order, pause, ana, ben, zoe):
    """Issue 19: a file that reads the same in the next revision is seen still."""

    def seen(who):
        text = browser(who).get(f"/work-orders/{order.shown_id}/").content.decode()
        [button] = re.findall(r'name="file" value="([0-9a-f]{64}(?::0)?)"', text)
        [count] = re.findall(r"(\d) of 1 seen", text)
        return button, count

    digest, count = seen(ana)
    assert count == "0"
    url = f"/pauses/{pause.shown_id}/seen"
    answered = browser(ana).post(url, {"file": digest})
    assert answered["Location"].endswith("#patch")
    assert browser(ana).post(url, {"file": digest}).status_code == 302  # twice is once
    assert seen(ana) == (f"{digest}:0", "1")
    assert seen(ben) == (digest, "0")
    assert browser(ana).post(url, {"file": "0" * 64}).status_code == 404
    assert browser(zoe).post(url, {"file": digest}).status_code == 404
    services.decide(pause.pk, Answer("revise", Via.PAGE, feedback="Again"), by=ben)
    assert pause_of(drive(order)).revision == 2
    assert seen(ana) == (f"{digest}:0", "1")
    browser(ana).post(f"/pauses/{pause_of(order).shown_id}/seen", {"file": f"{digest}:0"})
    assert seen(ana) == (digest, "0")
    assert not SeenFile.objects.exists()
