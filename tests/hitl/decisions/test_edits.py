"""Approve with edits: both texts are kept, the next step gets the edited one, and the rules say
where it may be done.
"""

from __future__ import annotations

import re

import pytest

from hitl.decisions import services
from hitl.decisions.reviewers.policy import NotNow
from hitl.decisions.services import Answer
from hitl.models import Decision, Via, Vote
from tests.conftest import drive, fresh, pause_of
from tests.doors.html import join
from tests.worlds.histories.whole_story import broken
from tests.worlds.ruled_order import browser, rest
from tests.worlds.ruled_order import ruled as ruled
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db

EDITED = "# Plan 1\n\nfirst, but shorter"


def decide(pause, by, action="approve", **kwargs):
    return services.decide(pause.pk, Answer(action, Via.REST, **kwargs), by=by)


def test_both_texts_are_kept_and_the_next_step_finds_the_edited_one(ruled, ana):
    order = ruled({"edits": True})
    pause = pause_of(order)
    decision = decide(pause, ana, edited_content=EDITED)
    pause.refresh_from_db()
    assert (pause.content, decision.edited_content) == ("# Plan 1\n\nfirst", EDITED)
    assert state_of(order)["decided_content"] == {"planning": EDITED}
    assert fresh(drive(order)).status == "completed"
    assert state_of(order)["decided_content"] == {"planning": EDITED}
    assert broken() == {}


def test_a_text_that_reads_the_same_is_no_edit(ruled, ana):
    """A browser sends other line ends."""
    order = ruled({"edits": True})
    decision = decide(pause_of(order), ana, edited_content="# Plan 1\r\n\r\nfirst\r\n")
    assert decision.edited_content == ""
    assert "decided_content" not in state_of(order)


def test_an_edit_that_cannot_be_taken_decides_nothing(ruled, ana, subtests):
    strict, open_to_edits = pause_of(ruled({})), pause_of(ruled({"edits": True}))
    for pause, action, text, code in [
        (strict, "approve", EDITED, "edits_not_allowed"),
        (open_to_edits, "revise", EDITED, "edits_not_allowed"),
        (open_to_edits, "cancel", EDITED, "edits_not_allowed"),
        (open_to_edits, "approve", " \n", "edit_invalid"),
        (open_to_edits, "approve", "x" * 200_001, "edit_invalid"),
        (open_to_edits, "approve", "a\x00b", "edit_invalid"),
    ]:
        with subtests.test(f"{action}, {ascii(text)[:20]}"):
            with pytest.raises(services.AnswerInvalid) as refused:
                decide(pause, ana, action, feedback="x", edited_content=text)
            assert (refused.value.code, list(refused.value.errors)) == (code, ["edited_content"])
    assert not Decision.objects.exists()


def test_the_page_takes_an_edit_without_javascript_and_shows_it_word_by_word(ruled, ana, ben):
    order = ruled({"edits": True})
    pause = pause_of(order)
    page = browser(ana).get(f"/work-orders/{order.shown_id}/").content.decode()
    assert "Edit and approve" in page
    assert 'name="edited_content"' in page
    answered = browser(ana).post(
        f"/pauses/{pause.shown_id}/decide",
        {"edited": "approve", "edited_content": EDITED, "revision": 1},
    )
    assert answered.status_code == 302
    assert Decision.objects.get().edited_content == EDITED
    after = browser(ben).get(f"/work-orders/{order.shown_id}/").content.decode()
    assert f"/pauses/{pause.shown_id}/edits" in after
    for view in ("", "?view=side"):
        edits = browser(ben).get(f"/pauses/{pause.shown_id}/edits{view}").content.decode()
        assert "<ins>" in edits and "shorter" in edits


def test_the_plain_button_takes_the_text_as_it_stands_in_its_field(ruled, ana):
    """The edit beside it was gone without a word."""
    pause = pause_of(ruled({"edits": True}))
    url = f"/pauses/{pause.shown_id}/decide"
    typed = {"edited_content": EDITED, "revision": 1}
    back = browser(ana).post(url, {**typed, "change": "reset"}).content.decode()
    assert "but shorter" not in back and "Approve with" not in back
    again = browser(ana).post(url, {**typed, "change": ""}).content.decode()
    assert re.search(r"Approve with \d edits?<", join(again))
    answered = browser(ana).post(url, {**typed, "action": "approve"}, follow=True)
    assert "You approved with your edits." in answered.content.decode()
    assert Decision.objects.get().edited_content == EDITED


def test_an_untouched_field_is_no_edit(ruled, ana):
    """A browser sends the field always, and with other line ends."""
    pause = pause_of(ruled({"edits": True}))
    browser(ana).post(
        f"/pauses/{pause.shown_id}/decide",
        {"action": "approve", "edited_content": pause.content.replace("\n", "\r\n")},
    )
    assert Decision.objects.get().edited_content == ""


def test_an_answer_that_takes_no_edit_says_so_first(ruled, ana):
    """Before: Revise dropped it."""
    pause = pause_of(ruled({"edits": True}))
    url, body = (
        f"/pauses/{pause.shown_id}/decide",
        {"action": "revise", "wish": "Shorter.", "edited_content": EDITED, "revision": 1},
    )
    asked = browser(ana).post(url, body).content.decode()
    assert "Your edit of the text" in asked and "first, but shorter" in asked
    assert not Decision.objects.exists()
    assert browser(ana).post(url, {**body, "sure": "yes"}).status_code == 302
    assert (Decision.objects.get().feedback, Decision.objects.get().edited_content) == (
        "Shorter.",
        "",
    )


def test_without_the_rule_there_is_nothing_to_edit(paused, ana):
    assert (
        "Edit and approve"
        not in browser(ana).get(f"/work-orders/{paused.shown_id}/").content.decode()
    )
    services.decide(pause_of(paused).pk, Answer("approve", Via.PAGE), by=ana)
    assert (
        browser(ana).get(f"/pauses/{Decision.objects.get().pause.shown_id}/edits").status_code
        == 404
    )


def test_the_api_takes_and_shows_an_edit(ruled, ana):
    order = ruled({"edits": True})
    pause = pause_of(order)
    answered = rest(ana).post(
        f"/api/v1/pauses/{pause.shown_id}/decisions",
        {"decision": "approve", "edited_content": EDITED},
        format="json",
    )
    assert (answered.status_code, answered.json()["edited_content"]) == (201, EDITED)
    assert rest(ana).get(f"/api/v1/pauses/{pause.shown_id}").json()["edited_content"] == EDITED


def test_an_approval_without_an_edit_takes_back_an_older_one(ruled, ana):
    """A step that is asked again after a fork finds no text that nobody approved this time."""
    order = ruled({"edits": True})
    first = pause_of(order)
    decide(first, ana, edited_content=EDITED)
    drive(order)
    run = services.fork(
        first.checkpoint_id, by=ana, reason="again", state={**state_of(order), "decided": {}}
    )
    again = pause_of(drive(fresh(order)))
    assert again.run_id == run.pk
    decide(again, ana)
    assert state_of(order)["decided_content"] == {}


def test_under_a_quorum_all_approve_the_same_text(ruled, ana, ben):
    order = ruled({"edits": True, "quorum": 2})
    vote = decide(pause_of(order), ana, edited_content=EDITED)
    assert isinstance(vote, Vote)
    assert "shorter" in browser(ben).get(f"/work-orders/{order.shown_id}/").content.decode()
    with pytest.raises(NotNow, match="approved another text"):
        decide(pause_of(order), ben, edited_content="a third one")
    assert decide(pause_of(order), ben).edited_content == EDITED
    assert state_of(order)["decided_content"] == {"planning": EDITED}
