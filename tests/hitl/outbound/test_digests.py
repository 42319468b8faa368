"""Many questions at once are told of in one message, and one that came and went before anybody was
told in none. F30.
"""

from __future__ import annotations

import pytest
from django.core import mail
from django.urls import reverse

from checkpoints.state import encryption
from hitl.decisions import notifications
from hitl.models.outbound import Delivery
from hitl.outbound import endpoints, links, sending
from hitl.outbound import mail as letters
from hitl.outbound.addresses import CannotReach
from runs.models import Pause
from tests.conftest import drive, pause_of
from tests.databases.encryption_keys import NEW, keys
from tests.worlds.histories.whole_story import answer
from tests.worlds.mailing import chatting as chatting
from tests.worlds.mailing import later, relay
from tests.worlds.mailing import slack as slack

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("reachable")]


def to():
    return sorted(one.to[0] for one in mail.outbox)


def statuses():
    return sorted(Delivery.objects.values_list("status", flat=True))


def test_many_questions_at_once_are_one_mail_with_a_link_each(make_order, ana, ben):
    """F30: no storm; each question still has its own link and its own follow-up."""
    orders = [drive(make_order()) for _ in range(6)]
    relay()
    assert to() == ["ana@example.org", "ben@example.org"]
    assert {one.subject for one in mail.outbox} == {"6 questions wait for you"}
    assert all(
        one.body.count("/l/") == one.alternatives[0].content.count("/l/") == 6
        for one in mail.outbox
    )
    assert set(statuses()) == {"sent"}
    answer(orders[0], ana)
    relay()
    assert mail.outbox[2].subject.startswith("Answered: ")


def test_a_digest_leaves_out_what_was_answered_meanwhile_and_is_tried_again_as_one(
    make_order, ana, ben, monkeypatch
):
    """F30: it holds nothing that its reader could not answer any more."""
    endpoints.switch_mail(ana, on=False)
    orders = [drive(make_order()) for _ in range(6)]
    notifications.announce()
    answer(orders[3], ana)
    real = letters.send_digest
    monkeypatch.setattr(
        letters, "send_digest", lambda *_: (_ for _ in ()).throw(CannotReach("away"))
    )
    sending.deliver(seconds=10)
    assert statuses() == ["cancelled", *["queued"] * 5]
    monkeypatch.setattr(letters, "send_digest", real)
    later()
    sending.deliver(seconds=10)
    assert [one.subject for one in mail.outbox] == ["5 questions wait for you"]


def test_a_digest_of_which_nothing_can_be_made_is_no_mail(make_order, ana, ben):
    """It said “0 questions wait for you”, at each try anew, until the key was back."""
    with keys(NEW):
        for _ in range(6):
            drive(make_order())
        notifications.announce()
    sending.deliver(seconds=10)
    assert not mail.outbox and set(statuses()) == {"queued"}
    later()
    with keys(NEW):
        sending.deliver(seconds=10)
    assert {one.subject for one in mail.outbox} == {"6 questions wait for you"}


@pytest.mark.parametrize(("count", "listed", "more"), [(5, 5, ""), (12, 8, "… and 4 more")])
def test_many_questions_at_once_are_one_message_in_a_chat(
    make_order, ana, ben, slack, chatting, count, listed, more
):
    """F30: it fits services that cut at a thousand characters."""
    endpoints.switch_mail(ana, on=False)
    endpoints.switch_mail(ben, on=False)
    orders = [drive(make_order(title=f"Order {number}: {'long ' * 30}")) for number in range(count)]
    relay()
    [(_, title, text)] = chatting
    lines = text.splitlines()
    assert title == f"{count} questions wait"
    asked = pause_of(orders[0]).question
    assert {line.partition(":")[0] for line in lines[:listed]} <= {
        f"• {asked} · Order {number}" for number in range(count)
    }
    assert len(set(lines[:listed])) == listed
    assert lines[listed:] == [*([more] if more else []), links.absolute(reverse("hitl:inbox"))]
    assert len(text) < 1_000
    assert set(statuses()) == {"sent"}
    answer(orders[0], ben)
    relay()
    assert [title.partition(":")[0] for _, title, _ in chatting[1:]] == ["Answered"]


def test_a_chat_hears_of_no_question_that_was_answered_meanwhile_and_no_words_that_are_encrypted(
    make_order, ana, ben, slack, chatting
):
    """F30."""
    endpoints.switch_mail(ana, on=False)
    endpoints.switch_mail(ben, on=False)
    orders = [drive(make_order(title="Secret")) for _ in range(6)]
    notifications.announce()
    answer(orders[3], ana)
    with keys(NEW):
        assert encryption.in_use()
        sending.deliver(seconds=10)
    [(_, title, text)] = chatting
    assert title == "5 questions wait"
    assert "Secret" not in text and text.count("A question waits for you") == 5


def test_what_was_sent_back_before_anybody_was_told_is_told_once(paused, ana):
    """F30: people hear of the open question alone."""
    notifications.announce()
    for words in ("shorter", "longer"):
        answer(paused, ana, "revise", words)
        drive(paused)
        notifications.announce()
    sending.deliver(seconds=10)
    assert Pause.objects.count() == 3
    assert to() == ["ana@example.org", "ben@example.org"]
    assert statuses() == [*["cancelled"] * 4, *["sent"] * 2]
    assert set(Delivery.objects.filter(status="sent").values_list("pause", flat=True)) == {
        pause_of(paused).pk
    }
