"""What people say to each other at a question: it decides nothing, and a step gets it by a revision
alone.
"""

from __future__ import annotations

import uuid

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from checkpoints.models import Event
from hitl.decisions import services
from hitl.decisions.services import Answer, NotFound
from hitl.decisions.talk import comments
from hitl.models import Comment, Decision, Mention, Via
from hitl.models.outbound import Delivery, DeliveryStatus, Occasion
from hitl.outbound import messages, sending
from hitl.threads import erasure, export
from runs.models import Pause
from runs.services import PauseClosed
from tests.conftest import drive, pause_of
from tests.worlds.histories.whole_story import broken
from tests.worlds.people import group, person
from tests.worlds.ruled_order import browser, rest
from tests.worlds.ruled_order import ruled as ruled

pytestmark = pytest.mark.django_db


@pytest.fixture
def pause(paused) -> Pause:
    return pause_of(paused)


@pytest.fixture
def outsider(zoe: User, ana: User) -> User:
    """Somebody of another team of Ana's, who takes no part in the order."""
    legal = group("legal")
    zoe.groups.add(legal)
    ana.groups.add(legal)
    zoe.email = "zoe@example.org"
    zoe.save()
    return zoe


def said(by: User, pause: Pause, text: str = "Is the date right?", **more):
    return rest(by).post(
        f"/api/v1/pauses/{pause.shown_id}/comments", {"text": text, **more}, format="json"
    )


def told(what: str) -> list[Event]:
    events = Event.objects.filter(kind="pause_updated").order_by("seq")
    return [event for event in events if event.data["what"] == what]


@pytest.mark.both_databases
def test_a_comment_decides_nothing_and_everybody_at_the_question_reads_it(pause, ana, ben):
    made = said(ben, pause)
    assert made.status_code == 201
    assert made.json()["by"] == "ben"
    read = rest(ana).get(f"/api/v1/pauses/{pause.shown_id}/comments").json()["results"]
    assert [one["text"] for one in read] == ["Is the date right?"]
    assert pause_of(pause.run.work_order).status == "open"
    assert not Decision.objects.exists()
    [event] = told("commented")
    assert event.data["by"] == "Ben"
    assert "date" not in str(event.data)


def test_what_cannot_be_kept_is_refused_and_named(pause, ana, subtests):
    for text, words in [("  ", "blank"), ("x" * 4001, "4000"), ("a\x00b", "ull characters")]:
        with subtests.test(ascii(text)[:60]):
            refused = said(ana, pause, text)
            assert refused.status_code in {400, 422}
            assert words in refused.content.decode()
            assert not Comment.objects.exists()


def test_the_service_itself_refuses_what_cannot_be_kept(pause, ana):
    for text, words in (("  ", "empty"), ("x" * 4001, "4000"), ("a\x00b", "cannot be kept")):
        with pytest.raises(comments.CommentRefused, match=words):
            comments.add(pause.pk, text, by=ana)


def test_at_a_settled_question_nothing_more_is_said(pause, ana, ben):
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
    refused = said(ben, pause)
    assert (refused.status_code, refused.json()["code"]) == (409, "pause_closed")
    page = browser(ben).post(f"/pauses/{pause.shown_id}/comment", {"text": "Too late, it seems"})
    assert page.status_code == 409
    assert "Too late, it seems" in page.content.decode()


@pytest.mark.both_databases
def test_of_a_comment_and_an_answer_at_once_the_comment_loses(pause, ana, ben, monkeypatch):
    """The answer comes after the comment was looked at, and before it is kept."""

    def answered_meanwhile(*args):
        services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
        return []

    monkeypatch.setattr(comments, "_asked", answered_meanwhile)
    with pytest.raises(PauseClosed):
        comments.add(pause.pk, "Wait!", by=ben)
    assert not Comment.objects.exists()


@pytest.mark.both_databases
def test_a_question_takes_so_many_comments(pause, ana, monkeypatch):
    monkeypatch.setattr(comments, "MOST", 2)
    assert [said(ana, pause).status_code for _ in range(3)] == [201, 201, 409]
    assert said(ana, pause).json()["code"] == "too_many_comments"


def test_whom_a_comment_names_is_told_where_they_see_the_question(pause, ana, ben, zoe):
    """A name that says nothing, a stranger, and who writes it are not told."""
    for one in (ana, ben, zoe):
        one.email = f"{one.username}@example.org"
        one.save()
    made = said(ana, pause, "Look here, @ben. Or @zoe, @nobody and @ana; mail me@ben.example")
    assert made.json()["mentions"] == ["ben"]
    [delivery] = Delivery.objects.filter(occasion=Occasion.MENTIONED)
    assert delivery.recipient == ben
    message = messages.of(delivery)
    assert message.subject.startswith("Ana Ruiz mentions you: Look here, @ben.")
    assert message.content == ""
    assert "/l/" not in message.url


def test_a_mention_is_not_told_once_it_was_taken_back(pause, ana, ben):
    ben.email = "ben@example.org"
    ben.save()
    made = said(ana, pause, "@ben please look").json()
    rest(ana).delete(f"/api/v1/comments/{made['id']}")
    [delivery] = Delivery.objects.filter(occasion=Occasion.MENTIONED)
    sending.deliver(seconds=10)
    delivery.refresh_from_db()
    assert delivery.status == DeliveryStatus.CANCELLED
    assert delivery.error == "The comment was taken back."


def test_who_is_asked_for_an_opinion_sees_the_question_and_cannot_answer_it(
    pause, ana, outsider, mailoutbox
):
    assert rest(outsider).get(f"/api/v1/pauses/{pause.shown_id}").status_code == 404
    made = said(ana, pause, "What do you think?", ask=["zoe"])
    assert made.json()["asked"] == ["zoe"]
    seen = rest(outsider).get(f"/api/v1/pauses/{pause.shown_id}").json()
    assert seen["review"]["may_answer"] == []
    for action in ("approve", "revise", "cancel"):
        body = {"decision": action, "feedback": "no"}
        refused = rest(outsider).post(
            f"/api/v1/pauses/{pause.shown_id}/decisions", body, format="json"
        )
        assert (refused.status_code, refused.json()["code"]) == (403, "not_a_reviewer")
    page = browser(outsider).get(f"/work-orders/{pause.run.work_order.shown_id}/")
    assert "What do you think?" in page.content.decode()
    assert said(outsider, pause, "Fine with me").status_code == 201
    assert rest(outsider).get("/api/v1/pauses?open=1").json()["results"] == []
    sending.deliver(seconds=10)
    [mail] = mailoutbox
    assert mail.to == ["zoe@example.org"]
    assert "asks for your opinion" in mail.subject
    assert broken() == {}


def test_a_comment_that_is_taken_back_asks_nobody_any_more(pause, ana, outsider):
    made = said(ana, pause, "What do you think?", ask=["zoe"]).json()
    answer = rest(ana).delete(f"/api/v1/comments/{made['id']}")
    assert (answer.status_code, answer.json()["text"]) == (200, "")
    assert rest(outsider).get(f"/api/v1/pauses/{pause.shown_id}").status_code == 404
    assert rest(ana).delete(f"/api/v1/comments/{made['id']}").status_code == 200
    assert len(told("comment_withdrawn")) == 1


def test_only_who_answers_or_asked_for_it_shows_it_to_colleagues_alone(ruled, ana, ben, outsider):
    ben.groups.add(group("legal"))
    pause = pause_of(ruled({"reviewers": {"users": ["ana"]}}))
    refused = said(ben, pause, "And you?", ask=["zoe"])
    assert (refused.status_code, refused.json()["code"]) == (422, "comment_refused")
    assert list(refused.json()["errors"]) == ["ask"]
    person("far")
    refused = said(ana, pause, "And you?", ask=["far"])
    assert refused.status_code == 422
    assert "not in any of your teams" in refused.json()["detail"]
    assert not Comment.objects.exists()
    assert not Mention.objects.exists()


def test_who_may_not_ask_is_not_offered_to(ruled, ana, ben):
    order = ruled({"reviewers": {"users": ["ana"]}})
    assert 'name="ask"' in browser(ana).get(f"/work-orders/{order.shown_id}/").content.decode()
    assert 'name="ask"' not in browser(ben).get(f"/work-orders/{order.shown_id}/").content.decode()


@pytest.mark.both_databases
def test_a_revision_takes_along_what_was_seen_and_the_ledger_says_it(pause, ana, ben):
    """What came after is not sent; the words of the decision are what the step gets."""
    said(ben, pause, "Too short.\nBy half.")
    seen = said(ana, pause, "And no date").json()["id"]
    gone = said(ana, pause, "Never mind")
    assert gone.status_code == 201
    body = {"decision": "revise", "feedback": "Please mend", "comments_until": seen}
    answer = rest(ana).post(f"/api/v1/pauses/{pause.shown_id}/decisions", body, format="json")
    assert answer.status_code == 201
    words = (
        "Please mend\n\nComments of the reviewers:\n- Ben: Too short.\n  By half.\n"
        "- Ana Ruiz: And no date"
    )
    assert Decision.objects.get().feedback == words
    drive(pause.run.work_order)
    assert broken() == {}
    again = pause_of(pause.run.work_order)
    assert again.revision == 2
    assert [one.text for one in comments.earlier(again)] == [
        "Too short.\nBy half.",
        "And no date",
        "Never mind",
    ]
    page = browser(ana).get(f"/work-orders/{pause.run.work_order.shown_id}/").content.decode()
    assert "3 at earlier revisions" in page


def test_comments_alone_are_words_enough_for_a_revision(pause, ana):
    seen = said(ana, pause, "Shorter, please").json()["id"]
    answer = browser(ana).post(
        f"/pauses/{pause.shown_id}/decide",
        {"action": "revise", "wish": "", "revision": 1, "comments_until": seen},
    )
    assert answer.status_code == 302
    assert "Shorter, please" in Decision.objects.get().feedback


def test_an_approval_takes_no_comments_along(pause, ana):
    seen = said(ana, pause).json()["id"]
    body = {"decision": "approve", "comments_until": seen}
    address = f"/api/v1/pauses/{pause.shown_id}/decisions"
    refused = rest(ana).post(address, body, format="json")
    assert (refused.status_code, refused.json()["code"]) == (422, "answer_invalid")
    form = {"action": "approve", "revision": 1, "comments_until": seen}
    assert browser(ana).post(f"/pauses/{pause.shown_id}/decide", form).status_code == 302
    assert Decision.objects.get().feedback == ""


def test_comments_that_are_not_there_go_nowhere(pause, ana, subtests):
    for named in ["cmt_nonsense", f"cmt_{'0' * 26}", "wo_1"]:
        with subtests.test(ascii(named)[:60]):
            body = {"decision": "revise", "feedback": "x", "comments_until": named}
            address = f"/api/v1/pauses/{pause.shown_id}/decisions"
            assert rest(ana).post(address, body, format="json").status_code == 422
            form = {"action": "revise", "wish": "x", "revision": 1, "comments_until": named}
            page = browser(ana).post(f"/pauses/{pause.shown_id}/decide", form)
            assert page.status_code in {400, 422}
            assert not Decision.objects.exists()


def test_a_comment_of_another_question_goes_along_nowhere(pause, make_order, ana):
    other = pause_of(drive(make_order()))
    seen = said(ana, other).json()["id"]
    body = {"decision": "revise", "feedback": "x", "comments_until": seen}
    address = f"/api/v1/pauses/{pause.shown_id}/decisions"
    assert rest(ana).post(address, body, format="json").status_code == 422


def test_the_page_says_comments_and_takes_them_back_without_javascript(pause, ana, ben):
    order = f"/work-orders/{pause.run.work_order.shown_id}/"
    posted = browser(ben).post(f"/pauses/{pause.shown_id}/comment", {"text": "<b>Bold</b>?"})
    assert posted["Location"] == f"{order}#said"
    page = browser(ana).get(order).content.decode()
    assert "&lt;b&gt;Bold&lt;/b&gt;?" in page
    assert "Take back" not in page
    assert "Send this comment along with Revise" in page
    own = browser(ben).get(order).content.decode()
    assert "Take back" in own
    made = Comment.objects.get()
    assert browser(ben).post(f"/comments/{made.shown_id}/withdraw").status_code == 302
    assert "Taken back" in browser(ana).get(order).content.decode()
    empty = browser(ben).post(f"/pauses/{pause.shown_id}/comment", {"text": " "})
    assert empty.status_code == 422


@pytest.mark.both_databases
def test_a_comment_is_exported_and_erased_with_its_thread(pause, ana, outsider):
    said(ana, pause, "What do you think?", ask=["zoe"])
    services.decide(pause.pk, Answer("cancel", Via.PAGE), by=ana)
    drive(pause.run.work_order)
    document = export.export(pause.run.thread_id)
    [row] = [row for row in document["pauses"] if row["id"] == pause.shown_id]
    assert [(one["text"], one["asked"]) for one in row["comments"]] == [
        ("What do you think?", ["zoe"])
    ]
    erasure.erase(pause.run.thread_id, by="ana", reason="asked to")
    assert not Comment.objects.exists()
    assert not Mention.objects.exists()


@pytest.mark.both_databases
def test_what_was_taken_back_says_nothing_in_the_database(pause, ana):
    said(ana, pause)
    with (
        pytest.raises(IntegrityError, match=r"comment_withdrawn_says_nothing|CHECK constraint"),
        transaction.atomic(),
    ):
        Comment.objects.update(withdrawn_at=timezone.now())


def test_taking_back_what_is_not_there_finds_nothing(ana):
    with pytest.raises(NotFound):
        comments.withdraw(uuid.uuid4(), by=ana)
