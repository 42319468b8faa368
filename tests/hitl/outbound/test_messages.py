"""Telling people: who is told of what, once each, and what becomes of it when the question is
closed.

Long, since who is told depends on all that happens to a question: the same few people and one
question go through all of it.
"""

from __future__ import annotations

import datetime as dt
import re
import smtplib

import pytest
from django.contrib.auth.models import Group, User
from django.core import mail
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection
from django.urls import set_script_prefix
from django.utils import timezone

from checkpoints.state import encryption
from hitl import outbound
from hitl.decisions import notifications, services
from hitl.decisions.services import Answer
from hitl.identity import languages
from hitl.models import Via
from hitl.models.outbound import Delivery, Endpoint, Link
from hitl.operations import invariants
from hitl.outbound import endpoints, sending
from hitl.outbound import mail as letters
from hitl.outbound.addresses import CannotReach
from hitl.outbound.requests import CannotSend
from hitl.tasks import announce, deliver
from hitl.threads import erasure
from runs.models import Pause
from runs.states import NotificationStage, PauseStatus
from tests.conftest import drive, pause_of
from tests.databases.encryption_keys import NEW, keys
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.worlds.histories.whole_story import answer
from tests.worlds.mailing import chatting as chatting
from tests.worlds.mailing import later, relay
from tests.worlds.mailing import slack as slack

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("reachable")]


def to():
    return sorted(one.to[0] for one in mail.outbox)


def statuses(**which):
    return sorted(Delivery.objects.filter(**which).values_list("status", flat=True))


def test_a_question_is_mailed_to_those_who_may_answer_and_to_nobody_else(paused):
    """S3-11, S3-28, F30: nobody is told who could not answer."""
    relay()
    assert to() == ["ana@example.org", "ben@example.org"]
    assert statuses() == ["sent", "sent"]


def test_each_is_told_in_the_language_that_they_chose(paused, ben):
    """Issue 19, 7: one question, a mail in German and one in English."""
    languages.choose(ben, "de")
    relay()
    said = {one.to[0]: one for one in mail.outbox}
    assert "Antworten auf diese E-Mail" in said["ben@example.org"].body
    assert "Antworten auf" not in said["ana@example.org"].body


def test_nothing_is_told_twice(paused):
    """Whoever plans again, or relays again, adds nothing."""
    relay()
    Pause.objects.update(told=0)  # as after a crash between two steps that are one transaction
    outbound.plan(pause_of(paused), "asked")
    assert relay() == 0
    assert len(mail.outbox) == 2


def test_the_named_reviewers_are_asked_instead_of_the_team(paused, ben, zoe):
    """S3-28: the right actor."""
    Pause.objects.update(review={"reviewers": {"users": ["zoe"]}})
    relay()
    assert to() == ["zoe@example.org"]


def test_who_has_no_address_or_is_switched_off_gets_nothing(paused, ana, ben):
    User.objects.filter(pk=ana.pk).update(email="")
    notifications.announce()
    User.objects.filter(pk=ben.pk).update(is_active=False)
    sending.deliver(seconds=10)
    assert (to(), statuses()) == ([], ["cancelled"])


def test_a_mail_says_what_is_asked_and_how_to_get_there(paused, settings):
    """The content is sanitised; the state is not in it."""
    settings.WAYSTATION_URL = "https://example.org/ways"
    Pause.objects.update(
        content="# Plan\n\n<script>alert(1)</script> **bold** ![x](https://track.example/p.png)"
    )
    relay()
    sent = mail.outbox[0]
    html = sent.alternatives[0].content
    assert sent.subject == f"{pause_of(paused).question} · {paused.title}"
    assert "Also asked: Ben." in sent.body or "Also asked: Ana Ruiz." in sent.body
    assert "https://example.org/ways/l/" in sent.body
    assert "https://example.org/ways/l/" in html
    assert "<strong>bold</strong>" in html
    assert "<script" not in html and "<img" not in html
    assert sent.extra_headers["Auto-Submitted"] == "auto-generated"
    assert not {"drafts", "state"} & set(sent.body.split())


def test_links_are_right_under_a_path_and_behind_a_proxy(paused, settings):
    """F2: a worker knows no request, a request knows the path already."""
    settings.WAYSTATION_URL = "https://example.org/ways"
    set_script_prefix("/ways/")
    try:
        relay()
    finally:
        set_script_prefix("/")
    assert "https://example.org/ways/l/" in mail.outbox[0].body


def test_a_subject_is_one_line_whatever_the_question_says(paused):
    Pause.objects.update(question="Ship it?\r\nBcc: everybody@example.org")
    relay()
    assert mail.outbox[0].subject.startswith("Ship it? Bcc: everybody@example.org")
    assert "Bcc" not in mail.outbox[0].extra_headers


def test_with_encryption_at_rest_a_mail_tells_no_content(paused):
    Pause.objects.update(question="Fire Zoe?", content="Secret plan")
    with keys(NEW):
        assert encryption.in_use()
        relay()
    for text in (
        mail.outbox[0].subject,
        mail.outbox[0].body,
        mail.outbox[0].alternatives[0].content,
    ):
        assert "Fire Zoe" not in text and "Secret plan" not in text and paused.title not in text


def test_those_who_were_asked_are_told_who_answered_in_the_same_thread_of_mails(paused, ana, ben):
    """F20: who answered needs no mail about it."""
    relay()
    asked = next(one for one in mail.outbox if one.to == ["ben@example.org"])
    mail.outbox.clear()
    answer(paused, ana)
    relay()
    assert to() == ["ben@example.org"]
    assert "Ana Ruiz answered “Approve” on" in mail.outbox[0].body
    assert mail.outbox[0].extra_headers["References"] == asked.extra_headers["Message-ID"]
    assert "/l/" not in mail.outbox[0].body


def test_what_was_not_sent_when_the_answer_came_is_never_sent(paused, ana):
    notifications.announce()
    answer(paused, ana)
    assert relay() == 0
    assert (to(), statuses()) == ([], ["cancelled", "cancelled"])
    assert not Pause.objects.untold().exists()


def test_an_answer_that_comes_between_planning_and_sending_stops_the_mail(paused, ana):
    """P6: looked at again when it is sent."""
    notifications.announce()
    answer(paused, ana)
    sending.deliver(seconds=10)
    assert (to(), statuses()) == ([], ["cancelled", "cancelled"])


def test_a_question_that_was_closed_before_anybody_looked_is_not_told(paused, ana):
    answer(paused, ana)
    assert relay() == 0
    assert not Delivery.objects.exists()


def test_a_follow_up_waits_for_the_mail_that_is_just_going_out(paused, ana, ben):
    notifications.announce()
    Delivery.objects.filter(recipient=ana).delete()
    claimed = sending._claim(Delivery.objects.get().pk)
    answer(paused, ana)
    notifications.announce()
    sending.deliver(seconds=10)
    assert mail.outbox == []
    assert claimed is not None
    sending._record(claimed, sending.SENT, sent_at=timezone.now())
    later()
    sending.deliver(seconds=10)
    assert [one.subject.split(":")[0] for one in mail.outbox] == ["Answered"]


@pytest.mark.parametrize(
    ("action", "occasion"),
    [("approve", "answered"), ("revise", "answered"), ("cancel", "cancelled")],
)
def test_each_end_has_its_own_word(paused, ana, action, occasion):
    """F9: cancelled is not answered."""
    relay()
    answer(paused, ana, action, "shorter")
    relay()
    assert set(Delivery.objects.exclude(occasion="asked").values_list("occasion", flat=True)) == {
        occasion
    }


def test_an_expired_question_is_told_as_expired(paused):
    """F9, F11."""
    relay()
    now = timezone.now()
    Pause.objects.update(
        status=PauseStatus.EXPIRED, closed_at=now, deadline_at=now, extendable_until=now
    )
    relay()
    assert {one.subject.split(":")[0] for one in mail.outbox[2:]} == {"Expired"}


def test_the_next_revision_is_asked_anew(paused, ana):
    relay()
    answer(paused, ana, "revise", "shorter")
    drive(paused)
    mail.outbox.clear()
    relay()
    assert (
        sorted(one.subject.split(":")[0] for one in mail.outbox if one.to == ["ben@example.org"])[0]
        == "Answered"
    )
    assert Delivery.objects.filter(pause=pause_of(paused), status="sent").count() == 2


def test_reminders_are_apart_and_reach_whoever_may_answer_by_then(paused, zoe):
    relay()
    Pause.objects.update(
        stage=1,
        review={
            "reviewers": {"users": ["ben"]},
            "escalation": [{"after": "PT1H", "users": ["zoe"]}],
        },
    )
    pause = pause_of(paused)
    assert outbound.plan(pause, "reminded", mark="1", to=[zoe]) == 1
    outbound.plan(pause, "reminded", mark="1", to=[zoe])
    outbound.plan(pause, "reminded", mark="2", to=[zoe])
    outbound.plan(pause, "escalated")
    mail.outbox.clear()
    relay()
    told = [one.subject.split(":")[0] for one in mail.outbox if one.to == ["zoe@example.org"]]
    assert told == [
        "Reminder",
        "Reminder",
        "Escalated to you",
    ]


def test_a_failing_mail_server_is_tried_again_later_and_given_up_in_the_end(
    paused, monkeypatch, settings, ben
):
    settings.WAYSTATION_OUTBOUND_TRIES = 3

    def refuse(self, messages):
        raise smtplib.SMTPServerDisconnected("away")

    monkeypatch.setattr("django.core.mail.backends.locmem.EmailBackend.send_messages", refuse)
    relay()
    waits = [(one.next_at - timezone.now()).total_seconds() for one in Delivery.objects.all()]
    assert statuses() == ["queued", "queued"]
    assert all(14 < wait <= 30 for wait in waits)
    for _ in range(2):
        later()
        relay()
    assert statuses() == ["dead", "dead"]
    assert (
        Delivery.objects.first().error == "The mail server did not take it: SMTPServerDisconnected."
    )
    monkeypatch.undo()
    settings.WAYSTATION_OUTBOUND_TRIES = 3
    dead = Delivery.objects.get(recipient=ben)
    assert sending.send_again(dead)
    assert not sending.send_again(dead)
    relay()
    assert (to(), statuses()) == (["ben@example.org"], ["dead", "sent"])


def test_an_address_that_the_server_refuses_for_good_is_given_up_at_once(paused, monkeypatch):
    def refuse(self, messages):
        raise smtplib.SMTPRecipientsRefused({"x": (550, b"no such user")})

    monkeypatch.setattr("django.core.mail.backends.locmem.EmailBackend.send_messages", refuse)
    relay()
    assert statuses() == ["dead", "dead"]


def test_tries_are_further_and_further_apart(paused, monkeypatch):
    monkeypatch.setattr(letters, "send", lambda *_: (_ for _ in ()).throw(CannotReach("away")))
    waits = []
    for _ in range(8):
        later()
        relay()
        waits.append((Delivery.objects.first().next_at - timezone.now()).total_seconds())
    assert all(15 * 2**at - 1 < wait <= 30 * 2**at for at, wait in enumerate(waits))


def test_a_worker_that_dies_while_sending_loses_nothing(paused, monkeypatch):
    """At least once: the same id again, after the lease."""

    def die(delivery, message):
        raise KeyboardInterrupt

    monkeypatch.setattr(letters, "send", die)
    with pytest.raises(KeyboardInterrupt):
        relay()
    monkeypatch.undo()
    assert statuses() == ["queued", "sending"]
    relay()
    # not before its lease is over
    assert (len(mail.outbox), statuses()) == (1, ["sending", "sent"])
    Delivery.objects.filter(status="sending").update(lease_until=timezone.now())
    relay()
    assert (len(mail.outbox), statuses()) == (2, ["sent", "sent"])


def test_who_lost_the_lease_records_nothing(paused):
    notifications.announce()
    key = Delivery.objects.first().pk
    slow = sending._claim(key)
    assert sending._claim(key) is None
    Delivery.objects.filter(pk=key).update(lease_until=timezone.now())
    quick = sending._claim(key)
    assert slow is not None and quick is not None
    sending._record(slow, sending.DEAD, error="late")
    assert Delivery.objects.get(pk=key).status == "sending"
    sending._record(quick, sending.SENT, sent_at=timezone.now())
    assert (Delivery.objects.get(pk=key).status, Delivery.objects.get(pk=key).attempts) == (
        "sent",
        2,
    )


def test_a_message_that_kills_its_workers_is_given_up(paused, settings):
    settings.WAYSTATION_OUTBOUND_TRIES = 2
    notifications.announce()
    Delivery.objects.update(status="sending", attempts=2, lease_until=timezone.now())
    sending.deliver(seconds=10)
    assert (mail.outbox, statuses()) == ([], ["dead", "dead"])


def test_one_place_that_hangs_does_not_hold_up_the_others(make_order, ana, ben, monkeypatch):
    for _ in range(3):
        drive(make_order())
    real, asked = letters.send, []

    def send(delivery, message):
        asked.append(delivery.recipient_id)
        if delivery.recipient_id == ana.pk:
            raise CannotReach("hangs")
        real(delivery, message)

    monkeypatch.setattr(letters, "send", send)
    relay()
    assert (asked.count(ana.pk), asked.count(ben.pk)) == (1, 3)


def test_a_pause_that_cannot_be_read_does_not_hold_up_the_others(make_order, caplog):
    broken, other = drive(make_order()), drive(make_order())
    Pause.objects.filter(run=broken.latest_run).update(review=[])
    relay()
    assert set(Delivery.objects.values_list("pause", flat=True)) == {pause_of(other).pk}
    assert "was passed over" in caplog.text


def test_chat_gets_the_question_and_later_its_end(paused, ana, ben, slack, chatting):
    """F20: what was said in a chat is followed up."""
    relay()
    answer(paused, ben)
    relay()
    assert [title.split(":")[0] for _, title, _ in chatting] == [pause_of_text(paused), "Answered"]
    assert "/l/" in chatting[0][2]
    assert "Ben answered “Approve”" in chatting[1][2]


def pause_of_text(order):
    return f"{Pause.objects.filter(run__thread=order.thread_id).first().question} · {order.title}"


def test_a_teams_chat_carries_no_link_of_anybodys(paused, ana, team, chatting, django_user_model):
    """F19: what many read names nobody's link."""
    root = django_user_model.objects.create_superuser("root")
    endpoints.make(
        root,
        channel="apprise",
        target="discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
        scope="team",
        team=team,
    )
    relay()
    assert len(chatting) == 1
    assert "/l/" not in chatting[0][2] and f"/work-orders/{paused.shown_id}/" in chatting[0][2]


def test_a_team_hears_of_its_own_questions_only(make_order, ana, chatting, django_user_model):
    root = django_user_model.objects.create_superuser("root")
    other = Group.objects.create(name="other")
    endpoints.make(
        root,
        channel="apprise",
        target="discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
        scope="team",
        team=other,
    )
    order = drive(make_order())
    relay()
    assert chatting == []
    Pause.objects.filter(pk=pause_of(order).pk).update(
        told=0, review={"reviewers": {"groups": ["other"]}}
    )
    relay()
    assert len(chatting) == 1


def test_a_person_may_have_mail_switched_off(paused, ana):
    endpoints.switch_mail(ana, on=False)
    relay()
    assert to() == ["ben@example.org"]
    endpoints.switch_mail(ana, on=True)
    assert endpoints.mail_is_on(ana)


def test_an_endpoint_is_told_only_what_it_wants(paused, ana, ben, chatting):
    endpoints.make(
        ana,
        channel="apprise",
        target="discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
        occasions=["answered"],
    )
    relay()
    assert chatting == []


def test_an_endpoint_that_was_switched_off_or_removed_meanwhile_gets_nothing(
    paused, slack, chatting
):
    notifications.announce()
    endpoints.switch(slack, on=False)
    relay()
    assert (chatting, statuses(channel="apprise")) == ([], ["cancelled"])
    Delivery.objects.filter(channel="apprise").update(status="queued")
    slack.delete()
    relay()
    assert Delivery.objects.get(channel="apprise").error == "The endpoint was removed."


def test_an_endpoint_belongs_to_one(ana, team):
    with pytest.raises(IntegrityError):
        Endpoint.objects.create(channel="email", owner=ana, team=team, target="x@example.org")


def test_an_answer_that_did_not_fit_is_told_to_the_others_with_what_was_wrong(paused, ana, ben):
    """S3-33: the refined question is sent; a storm of wrong answers is not."""
    Pause.objects.update(
        required_inputs={
            "type": "object",
            "properties": {"iban": {"type": "string"}},
            "required": ["iban"],
        }
    )
    relay()
    mail.outbox.clear()
    for _ in range(5):
        with pytest.raises(services.AnswerInvalid):
            services.decide(
                pause_of(paused).pk, Answer("approve", Via.REST, payload={"iban": 7}), by=ana
            )
    relay()
    assert to() == ["ben@example.org"] * notifications.REFINED_AT_MOST
    assert "An answer did not fit: Iban:" in mail.outbox[0].body


def test_requests_whose_long_marks_begin_alike_are_two(paused, ben):
    """Their ends were cut off: of the second nothing was sent."""
    run, alike = pause_of(paused).run_id, "invoices/2026/november/supplier-4711/"
    first, second = (
        outbound.send_request(run, "ben", mark=f"{alike}{name}") for name in ("iban", "vat")
    )
    assert len(first) == len(second) == 1
    assert outbound.send_request(run, "ben", mark=f"{alike}vat") == []


def test_a_request_goes_to_one_person_or_address(paused, ben):
    """S3-35."""
    run = pause_of(paused).run_id
    assert len(outbound.send_request(run, "supplier@example.com", "Which IBAN is yours?")) == 1
    assert outbound.send_request(run, "supplier@example.com", "Which IBAN is yours?") == []
    assert len(outbound.send_request(run, "ben", mark="please")) == 1
    sending.deliver(seconds=10)
    assert to() == ["ben@example.org", "supplier@example.com"]
    letter = next(one for one in mail.outbox if one.to == ["supplier@example.com"])
    assert "Which IBAN is yours?" in letter.body
    assert "Plan 1" not in letter.body, (
        "somebody without an account gets the question, not what others review"
    )


@pytest.mark.one_database
def test_who_has_no_account_and_no_link_to_answer_by_is_told_whom_to_answer(paused, client):
    """S3-28, S3-35: mail and page sent them to a login that they have not."""
    outbound.send_request(pause_of(paused).run_id, "supplier@example.com", "Which IBAN is yours?")
    sending.deliver(seconds=10)
    [letter] = mail.outbox
    found = re.search(r"/l/[\w-]+", str(letter.body))
    assert found is not None
    page = client.get(found[0]).content.decode()
    for text in (str(letter.body), letter.alternatives[0].content, page):
        assert "answer whoever had this sent to you" in text
        assert not re.search(
            "You log in to answer|Menu > Notifications|and to answer, log in", text
        )


@pytest.mark.one_database
def test_what_is_asked_again_is_asked_in_the_words_that_were_sent(paused, ana):
    """S3-33, S3-35: a supplier was asked again what it had not been asked."""
    Pause.objects.update(
        required_inputs={"type": "object", "properties": {"iban": {"type": "string"}}}
    )
    outbound.send_request(pause_of(paused).run_id, "supplier@example.com", "Which IBAN is yours?")
    sending.deliver(seconds=10)
    with pytest.raises(services.AnswerInvalid):
        services.decide(
            pause_of(paused).pk, Answer("approve", Via.REST, payload={"iban": 7}), by=ana
        )
    sending.deliver(seconds=10)
    assert "Asked again: Which IBAN is yours?" in mail.outbox[-1].subject
    assert "An answer did not fit: Iban:" in str(mail.outbox[-1].body)


@pytest.mark.parametrize(
    ("recipient", "inputs", "words"),
    [
        ("zoe", None, 'Nobody named "zoe"'),
        ("nobody", None, "Nobody named"),
        ("a@b@c", None, "not a mail address"),
        ("x@example.org\nBcc: y@example.org", None, "not a mail address"),
        ("ben", {"type": "object"}, "asks for something else"),
    ],
)
def test_a_request_that_cannot_be_sent_is_refused(paused, recipient, inputs, words):
    with pytest.raises(CannotSend, match=words):
        outbound.send_request(pause_of(paused).run_id, recipient, required_inputs=inputs)
    assert not Delivery.objects.exists()


def test_a_run_that_asks_nothing_sends_nothing(paused, ana):
    run = pause_of(paused).run_id
    answer(paused, ana)
    with pytest.raises(CannotSend, match="asks nothing"):
        outbound.send_request(run, "ben")


def test_the_tasks_plan_and_send(paused, monkeypatch):
    sent = []
    monkeypatch.setattr(deliver, "delay", lambda: sent.append(1))
    announce()
    assert sent == [1]
    deliver()
    assert len(mail.outbox) == 2
    announce()
    assert sent == [1], "nothing is due, so no message is sent about it"


def test_the_relay_finds_what_is_new_by_an_index(paused, django_assert_num_queries):
    """One look, and no query per pause that was announced."""
    relay()
    with django_assert_num_queries(1):
        notifications.announce()
    closed = {
        "status": PauseStatus.ANSWERED,
        "closed_at": timezone.now(),
        "told": NotificationStage.END,
    }
    like = {
        field.attname: getattr(pause_of(paused), field.attname)
        for field in Pause._meta.concrete_fields
        if field.name != "id"
    }
    Pause.objects.bulk_create(Pause(**{**like, **closed}) for _ in range(2_000))
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            # of three rows it would read the table, or go by the key
            cursor.execute("ANALYZE runs_pause")
            cursor.execute("SET LOCAL enable_seqscan = off")
    assert (
        "pause_untold"
        in Pause.objects.untold().order_by("id").values_list("pk", flat=True)[:200].explain()
    )
    assert {"delivery_queued_by_time", "delivery_sending_by_lease"} <= set(
        re.findall(r"delivery_\w+", Delivery.objects.due(now=timezone.now()).explain())
    )


def test_send_test_says_what_came_of_it(ana, capsys, settings):
    call_command("send_test", "ana")
    assert ": sent." in capsys.readouterr().out
    assert mail.outbox[0].subject == "Waystation: a test"
    with pytest.raises(CommandError, match="within the last ten seconds"):
        call_command("send_test", "ana")
    with pytest.raises(CommandError, match="no active user"):
        call_command("send_test", "nobody")


def test_erasing_a_thread_takes_its_messages_and_links_along(paused, ana):
    relay()
    assert Link.objects.count() == 2
    answer(paused, ana, "cancel")
    relay()
    erasure.erase(paused.thread_id, by="dpo", reason="asked for")
    assert not Delivery.objects.exists() and not Link.objects.exists()


def test_what_nobody_relays_is_named(paused):
    def broken():
        return {
            one.invariant.code
            for one in invariants.check(now=timezone.now() + dt.timedelta(hours=2))
            if one.count
        }

    assert "not_announced" in broken()
    notifications.announce()
    assert "not_announced" not in broken() and "not_delivered" in broken()
    sending.deliver(seconds=10)
    assert not {"not_announced", "not_delivered", "sent_after_the_end"} & broken()
    Pause.objects.update(closed_at=timezone.now() - dt.timedelta(hours=1), status="cancelled")
    assert "sent_after_the_end" in broken()


def test_two_relays_at_once_send_each_message_once(file_database, make_order, monkeypatch):
    """Both plan and both send; each question is planned once and each message sent once."""
    monkeypatch.setattr(sending, "DIGEST", 100)
    for _ in range(6):
        drive(make_order())
    found = at_once(relay, relay, relay)
    assert [one for one in found if isinstance(one, BaseException)] == []
    assert (sum(found), len(mail.outbox), Delivery.objects.count()) == (12, 12, 12)
    assert len({one.extra_headers["Message-ID"] for one in mail.outbox}) == 12
