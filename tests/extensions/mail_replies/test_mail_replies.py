"""Replies to mails: they answer as the person whom the mail went to, and as nobody else."""

from __future__ import annotations

import datetime as dt
import email.policy
import json
import re
from email.message import EmailMessage
from functools import partial
from typing import Any

import pytest
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.db import IntegrityError
from django.test import Client
from django.utils import timezone

from extensions.mail_replies import mailbox, reading, taking, tasks
from hitl.channels.protocol import Outcome
from hitl.decisions import services
from hitl.decisions.reviewers import policy
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from hitl.models.outbound import Delivery, InboundMail, Link
from hitl.outbound import signatures
from hitl.threads import erasure
from runs import env, limits
from runs.env import Mailbox
from runs.models import Pause
from runs.workflows.wait_for_input import wait_for_input
from tests.conftest import drive, fresh, pause_of
from tests.databases.undone import undone
from tests.databases.whole import at_once, rows
from tests.databases.whole import file_database as file_database
from tests.extensions.mail_replies.imap_server import PASSWORD, Box, serving
from tests.worlds.mailing import relay
from tests.worlds.scripted_step import order_that as order_that

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("reachable", "replies")]
DOOR = "/api/v1/channels/mail"
SECRET = "whsec_" + "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4"
LOW = {"risk": "low", "link_answers": True}
PROVEN = {"Authentication-Results": "mx.example.org; dmarc=pass header.from=example.org"}


@pytest.fixture
def replies(settings):
    settings.WAYSTATION_REPLY_ADDRESS = "reply@ways.example"
    settings.WAYSTATION_REPLY_SECRETS = [SECRET]


@pytest.fixture
def easy(paused):
    Pause.objects.update(review=LOW)
    relay()
    return paused


def sent_to(name):
    return next(one for one in reversed(mail.outbox) if one.to == [f"{name}@example.org"])


def reply(text, *, to="", sender="Ben <ben@example.org>", key="<1@mail.example.org>", **headers):
    """What a mail program sends that answers the latest mail to Ben."""
    asked = sent_to("ben")
    message = EmailMessage(policy=email.policy.SMTP)
    message["From"], message["To"] = sender, to or asked.reply_to[0]
    message["Subject"], message["Message-ID"] = f"Re: {asked.subject}", key
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    quoted = "\n".join(f"> {line}" for line in str(asked.body).splitlines())
    message.set_content(f"{text}\n\nOn Mon, 2 Nov 2026 at 09:00, Waystation wrote:\n\n{quoted}\n")
    return message.as_bytes()


def hand_over(raw, *, secret=SECRET, at=None, kind="message/rfc822", **headers):
    at = at or timezone.now()
    made = signatures.headers("m1", int(at.timestamp()), raw, [secret])
    return Client().post(DOOR, raw, content_type=kind, headers={**made, **headers})


def outcome(raw, **how):
    answer = hand_over(raw, **how)
    assert answer.status_code == 200, answer.content
    return answer.json()["outcome"]


def told():
    """The mail that said what became of the latest reply."""
    before = len(mail.outbox)
    relay()
    said = [one for one in mail.outbox[before:] if "About your reply" in one.subject]
    assert len(said) == 1 and said[0].to == ["ben@example.org"]
    return str(said[0].body)


def test_approve_in_the_first_line_answers_as_who_the_mail_went_to(easy, ben):
    """S3-22. The same mail again, by any way and however often, does nothing more."""
    asked = sent_to("ben")
    assert re.fullmatch(r"reply\+[a-z2-7]{32}@ways\.example", asked.reply_to[0])
    assert str(asked.body).startswith("— Write your answer above this line —")
    assert asked.reply_to != sent_to("ana").reply_to
    raw = reply("Approve.\n\n-- \nBen\nHead of everything")
    assert outcome(raw) == "answered"
    decision = Decision.objects.get()
    assert (decision.action, decision.decided_by, decision.via, decision.revision) == (
        "approve", ben, Via.MAIL, 1,
    )  # fmt: skip
    assert decision.feedback == ""
    assert fresh(easy).latest_run.status == "pending"
    assert "was recorded as your answer" in told()
    before = rows()
    assert outcome(raw) == "repeated"
    assert rows() == before
    again = reply("approve", key="<2@mail.example.org>", to=asked.reply_to[0])
    assert outcome(again) == "link_ended"
    assert Link.objects.get(purpose="reply", recipient=ben).used_at is not None


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_four_copies_at_once_are_one_answer_and_one_mail(easy):
    raw = reply("approve")
    answers = at_once(*[lambda: hand_over(raw)] * 4)
    assert {answer.status_code for answer in answers} == {200}
    assert Decision.objects.count() == InboundMail.objects.count() == 1
    assert Delivery.objects.filter(occasion="replied").count() == 1


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_copies_that_saw_different_things_are_noted_one_after_the_other(easy):
    """They locked two rows in different orders, and one of them got a 503."""
    link = Link.objects.get(purpose="reply", recipient__username="ben")
    late = Outcome(False, "link_ended", "It was answered.")
    for number in range(20):
        Link.objects.update(mails_back=0, used_at=None)
        done = at_once(
            *(
                partial(taking._tell, link, f"{number}", outcome)
                for outcome in (Outcome(True, "answered", "Yours."), late) * 2
            )
        )
        noted = [one for one in done if not isinstance(one, IntegrityError)]
        assert noted in (["answered"], ["link_ended"]), done


def test_a_copy_that_comes_while_the_first_is_at_work_tells_the_same(easy, monkeypatch):
    """It was told that the question had ended, by the answer of the very same mail."""
    raw, tell = reply("approve"), taking._tell
    copies: list[str] = []

    def after_a_copy(*arguments):
        if not copies:
            copies.append("begun")
            copies.append(outcome(raw))
        return tell(*arguments)

    monkeypatch.setattr(taking, "_tell", after_a_copy)
    assert outcome(raw) == "repeated"
    assert copies == ["begun", "answered"]
    assert InboundMail.objects.get().outcome == "answered"
    assert Link.objects.get(purpose="reply", recipient__username="ben").used_at is not None
    assert "was recorded as your answer" in told()
    # another mail, when that has been said, is late
    assert outcome(reply("approve", key="<2@x>")) == "link_ended"


@pytest.mark.parametrize(
    "text", ["Revise: shorter, please", "revise:\nshorter, please", "Please make it shorter"]
)
def test_revise_or_free_text_is_feedback(easy, text):
    """C16: only what is not a yes or no of some kind."""
    first = outcome(reply(text))
    if text.startswith("Please"):
        assert first == "unclear"
        assert outcome(reply("The plan must be shorter", key="<2@x>")) == "answered"
    decision = Decision.objects.get()
    assert decision.action == "revise" and "shorter" in decision.feedback
    assert "wrote:" not in decision.feedback and ">" not in decision.feedback


def test_what_is_unclear_changes_nothing_and_gets_a_calm_answer(easy, subtests):
    for text in (
        "ok", "Yes!", "approve, but change the date", "approve: not quite", "no", "cancel", "",
        "Thanks, looks good to me overall", "👍", "revise",
    ):  # fmt: skip
        with subtests.test(text), undone():
            assert outcome(reply(text)) == "unclear"
            assert pause_of(easy).status == "open" and not Decision.objects.exists()
            said = told()
            assert "Nothing was decided" in said and "/l/" in said


def test_a_question_for_a_text_takes_the_text(order_that, ben):
    schema = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    order = order_that(
        lambda state, context: wait_for_input(
            state, context, required_inputs=schema, blocking_reason="missing", question="VAT id?"
        )
    )
    drive(order)
    Pause.objects.update(review=LOW)
    relay()
    assert outcome(reply("yes")) == "answered"
    assert Decision.objects.get().payload == {"input": "yes"}
    assert drive(order).latest_run is not None


def test_machines_and_strangers_change_nothing_and_hear_nothing(easy, subtests):
    """F19: an absence note, a bounce, a guessed address; so no two machines write to each other."""
    before = rows()
    for headers, code in [
        ({"Auto_Submitted": "auto-replied"}, "automatic"),
        ({"Precedence": "bulk"}, "automatic"),
        ({"Return_Path": "<>"}, "automatic"),
        ({"X_Autoreply": "yes"}, "automatic"),
        ({"sender": "MAILER-DAEMON@example.org"}, "automatic"),
        ({"to": "reply@ways.example"}, "unknown_address"),
        ({"to": f"reply+{'a' * 32}@ways.example"}, "unknown_address"),
        ({"to": "somebody@else.example"}, "unknown_address"),
    ]:
        with subtests.test(ascii(headers)[:60]):
            assert outcome(reply("approve", **headers)) == code
            relay()
            assert rows() == before


def test_the_address_is_of_no_use_to_who_else_has_it(easy, subtests):
    """F19: in CC, forwarded, or quoted in a list; told to the recipient, not to the sender."""
    for sender in (
        "ana@example.org", "Ben <ben@example.org.evil.example>", "zoe@example.org, ben@example.org"
    ):  # fmt: skip
        with subtests.test(sender), undone():
            assert outcome(reply("approve", sender=sender)) == "wrong_sender"
            assert not Decision.objects.exists()
            assert "another address" in told()


def test_mails_back_end(easy):
    """However often somebody writes to one address, so many answers come, and then silence."""
    codes = [outcome(reply("hm", key=f"<{number}@x>")) for number in range(8)]
    assert codes == ["unclear"] * Link.MAILS_BACK + ["too_many"] * (8 - Link.MAILS_BACK)
    assert InboundMail.objects.count() == Delivery.objects.filter(occasion="replied").count() == 4
    relay()
    back = [one for one in mail.outbox if "About your reply" in one.subject]
    assert {one.extra_headers["Auto-Submitted"] for one in back} == {"auto-replied"}
    # what replies to those comes to the same address, so it has no further answers to spend
    assert {tuple(one.reply_to) for one in back} == {tuple(sent_to("ben").reply_to)}
    assert outcome(reply("hm", key="<9@x>", to=back[0].reply_to[0])) == "too_many"
    with pytest.raises(IntegrityError, match="link_mails_back_bounded"):
        Link.objects.filter(purpose="reply").update(mails_back=5)


def test_without_proof_a_reply_answers_what_its_link_may(paused, subtests):
    """F19: From is easily forged."""
    for review in ({}, {"risk": "normal"}, {"risk": "high"}, {"risk": "low"}):
        with subtests.test(f"{review}"), undone():
            Pause.objects.update(review=review)
            relay()
            assert "Replies answer nothing here" in str(sent_to("ben").body)
            assert outcome(reply("approve", **PROVEN)) == "login_needed"
            assert not Decision.objects.exists()
            assert "/l/" in told()


def test_with_proof_questions_of_normal_risk_are_answered(paused, settings, subtests):
    settings.WAYSTATION_REPLY_AUTHSERV = "mx.example.org"
    relay()
    for results, code in [
        ("mx.example.org; spf=pass; dmarc=pass (p=reject) header.from=example.org", "answered"),
        ("mx.example.org; dmarc=fail header.from=example.org", "not_proven"),
        ("mx.example.org; dmarc=pass header.from=evil.example", "not_proven"),
        ("other.example; dmarc=pass header.from=example.org", "not_proven"),
        ("mx.example.org; none (dmarc=pass header.from=example.org)", "not_proven"),
        ("x", "not_proven"),
    ]:
        with subtests.test(results), undone():
            assert outcome(reply("approve", Authentication_Results=results)) == code
            assert Decision.objects.exists() is (code == "answered")


def test_a_question_of_high_risk_is_never_answered_by_mail(paused, settings, ben):
    """Also where its risk rose after the mail, and in `decide` itself."""
    settings.WAYSTATION_REPLY_AUTHSERV = "mx.example.org"
    relay()
    Pause.objects.update(review={"risk": "high"})
    assert outcome(reply("approve", **PROVEN)) == "login_needed"
    for via in (Via.MAIL, Via.SLACK, Via.TEAMS):
        with pytest.raises(policy.NotAllowed) as error:
            services.decide(pause_of(paused).pk, Answer("approve", via), by=ben)
        assert error.value.code == "high_risk_elsewhere"
    assert not Decision.objects.exists()
    assert "its page" in told()


def test_stale_expired_and_answered_questions_say_so(easy, ana, ben):
    first = sent_to("ben").reply_to[0]
    services.decide(pause_of(easy).pk, Answer("revise", Via.PAGE, feedback="shorter"), by=ana)
    drive(easy)
    assert pause_of(easy).revision == 2
    assert outcome(reply("approve", to=first)) == "link_ended"
    assert "revision 2" in told()
    Pause.objects.open().update(review=LOW)
    relay()
    second = sent_to("ben").reply_to[0]
    assert second != first
    Link.objects.filter(purpose="reply", revision=2).update(
        made_at=timezone.now() - dt.timedelta(days=9), expires_at=timezone.now()
    )
    assert outcome(reply("approve", to=second, key="<2@x>")) == "link_ended"
    assert "expired" in told()
    services.decide(pause_of(easy).pk, Answer("approve", Via.PAGE), by=ana)
    assert outcome(reply("approve", to=second, key="<3@x>")) == "link_ended"
    assert Decision.objects.filter(via=Via.MAIL).count() == 0


def test_who_may_not_see_it_any_more_answers_nothing(easy, ben):
    ben.groups.clear()
    assert outcome(reply("approve")) == "not_found"
    ben.is_active = False
    ben.save()
    assert outcome(reply("approve", key="<2@x>")) == "link_ended"
    assert not Decision.objects.exists()


def test_what_is_not_signed_is_not_read(easy, settings):
    raw, before = reply("approve"), rows()
    other = signatures.new_secret()
    old = timezone.now() - dt.timedelta(minutes=6)
    for answer in (
        hand_over(raw, secret=other),
        hand_over(raw, at=old),
        hand_over(raw, **{"webhook-signature": "v1,x"}),
        hand_over(raw, **{"webhook-id": "another"}),
        Client().post(DOOR, raw, content_type="message/rfc822"),
        Client().post(DOOR, {"a": "b"}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (401, "signature_invalid")
        assert SECRET not in answer.content.decode()
    settings.WAYSTATION_REPLY_SECRETS = []
    assert hand_over(raw).status_code == 401
    assert Client().get(DOOR).status_code == 405
    assert rows() == before


def test_a_mail_that_is_too_long_is_refused(easy):
    """MAIL_BYTES."""
    raw = reply("approve") + b"x" * limits.MAIL_BYTES
    assert hand_over(raw).status_code == 413
    assert not Decision.objects.exists()


def test_gateways_may_hand_over_json(easy):
    body = {
        "from": "Ben <ben@example.org>", "to": sent_to("ben").reply_to[0], "subject": "Re: x",
        "text": "approve\r\n\r\n> quoted", "message_id": "<j@x>", "headers": {"From": "eve@x.org"},
    }  # fmt: skip
    broken: list[Any] = [{"text": 1}, {"headers": []}, {"headers": {"a": {}}}, {"to": [1]}, []]
    for wrong in broken:
        raw = json.dumps(wrong).encode()
        assert hand_over(raw, kind="application/json").status_code == 400
    assert hand_over(b"{", kind="application/json").status_code == 400
    raw = json.dumps({**body, "headers": {"Auto-Submitted": "auto-generated"}}).encode()
    assert outcome(raw, kind="application/json") == "automatic"
    assert outcome(json.dumps(body).encode(), kind="application/json") == "answered"


def test_the_reply_address_opens_no_page_and_goes_with_its_thread(easy, ana):
    token = sent_to("ben").reply_to[0].partition("+")[2].partition("@")[0]
    assert Client().get(f"/l/{token}").status_code == 404
    assert outcome(reply("hm")) == "unclear"
    services.decide(pause_of(easy).pk, Answer("cancel", Via.PAGE), by=ana)
    erasure.erase(easy.thread_id, by="root", reason="asked for")
    assert not InboundMail.objects.exists() and not Link.objects.exists()
    assert outcome(reply("approve", key="<2@x>")) == "unknown_address"


def test_mails_of_a_domain_of_their_own(paused, settings):
    settings.WAYSTATION_REPLY_ADDRESS = "@replies.example"
    Pause.objects.update(review=LOW)
    relay()
    address = sent_to("ben").reply_to[0]
    assert re.fullmatch(r"[a-z2-7]{32}@replies\.example", address)
    assert outcome(reply("approve", to=f"Waystation <{address.upper()}>")) == "answered"


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("approve\n\nAm 02.11.2026 um 09:00 schrieb Waystation:\n> x", "approve"),
        ("approve\n\n-----Original Message-----\nFrom: x", "approve"),
        ("approve\n________________________________\nx", "approve"),
        ("approve\nOn Mon, Nov 2 Waystation\n<reply@ways.example> a écrit :\n> x", "approve"),
        ("approve\nLe lun. Waystation\n<reply@ways.example> a écrit:\n> x", "approve"),
        ("approve\n\n— Write your answer above this line —\nQuestion", "approve"),
        ("revise: a\n\nb: c\n", "revise: a\n\nb: c"),
    ],
)
def test_what_is_quoted_is_cut_off(text, own):
    assert reading.Mail({}, text).words in {own, own + "\nOn Mon, Nov 2 Waystation"}


def test_hostile_mails_are_read_in_bounded_time():
    """F24: nesting, unknown charsets, HTML alone, headers without sense."""
    deep = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(3000)
    )
    reading.from_rfc822(deep)
    html = (
        b"From: a@b.example\nContent-Type: text/html; charset=punycode\n\n<style>x</style>"
        b"<div>approve</div><blockquote>quoted</blockquote>"
    )
    found = reading.from_rfc822(html)
    assert found is not None and found.words == "approve"
    odd = b"From: =?x?q?\xff?=\nFrom: <<<>>>,,\nTo: " + b"(" * 50_000 + b"\n\n\x00\xff approve"
    found = reading.from_rfc822(odd)
    assert found is not None and not found.automatic and len(found.key) == 64
    assert "\x00" not in found.words
    reading.Mail({"authentication-results": ["(" * 200_000]}, "x").proven("mx")


@pytest.mark.parametrize(
    "kind",
    [
        b"multipart/mixed; boundary*=utf-8''x; boundary*0=y",
        b"text/plain; charset*=utf-8''a; charset*0=b",
        b"text/plain; charset*=a\x00b''utf-8",
        b'text/plain; charset="utf\x008"',
    ],
)
def test_a_mail_that_the_library_cannot_read_is_none(kind):
    """Its error stayed: such a mail was fetched in every round, and a hundred of them were all that
    was ever read of a mailbox; a gateway got a 500.
    """
    raw = b"From: a@b.example\nContent-Type: " + kind + b"\n\napprove"
    found = reading.from_rfc822(raw)
    assert found is None or found.words == "approve"
    assert hand_over(raw).status_code in {200, 400}


@pytest.fixture
def box(settings):
    with serving(Box()) as box:
        settings.WAYSTATION_REPLY_MAILBOX = Mailbox(
            host="127.0.0.1",
            port=box.port,
            tls=False,
            user="answers",
            folder="In",
            password=PASSWORD,
        )
        yield box


def test_a_mailbox_is_read_in_rounds_each_mail_once(easy, box, caplog, monkeypatch):
    """P12: one mail that fails, and one that is too long, hold up no other."""
    caplog.set_level("INFO")
    first = reply("approve")
    box.mails = [b"x" * (limits.MAIL_BYTES + 9), reply("ok", key="<2@x>"), first, first]
    failing, before = reading.from_rfc822, len(box.mails)

    def breaks(raw):
        assert b"<2@x>" not in raw, "of this one mail"
        return failing(raw)

    monkeypatch.setattr(reading, "from_rfc822", breaks)
    assert tasks.read_mailbox() is None
    assert box.seen == {1, 3, 4} and Decision.objects.get().via == Via.MAIL
    assert "mail 2 of the mailbox was passed over" in caplog.text
    monkeypatch.undo()
    box.commands.clear()
    mailbox.read(seconds=30)
    assert [one for one in box.commands if "FETCH" in one] == [
        f"UID FETCH 2 (BODY.PEEK[]<0.{limits.MAIL_BYTES + 1}>)"
    ]
    assert box.seen == {1, 2, 3, 4} and len(box.mails) == before
    assert mailbox.read(seconds=30) == 0
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize("drops", ["LOGIN", "SELECT", "UID FETCH", "UID STORE"])
def test_a_mailbox_that_breaks_off_loses_and_doubles_nothing(easy, box, caplog, drops):
    box.mails, box.drops = [reply("approve")], drops
    mailbox.read(seconds=30)
    assert "could not be read" in caplog.text and not box.seen
    box.drops = ""
    mailbox.read(seconds=30)
    assert box.seen == {1} and Decision.objects.count() == 1
    relay()
    assert Delivery.objects.filter(occasion="replied").count() == 1


@pytest.mark.parametrize("refuses", ["UID FETCH 1", "UID SEARCH"])
def test_a_mail_that_the_server_refuses_for_now_is_read_later(easy, box, refuses):
    """It was taken for one that is too long, marked as seen, and lost."""
    box.mails, box.refuses = [reply("approve"), b"From: a@b.example\n\nhi"], refuses
    mailbox.read(seconds=30)
    assert box.seen == ({2} if "FETCH" in refuses else set())
    box.refuses = ""
    mailbox.read(seconds=30)
    assert box.seen == {1, 2} and Decision.objects.get().via == Via.MAIL


def test_a_mailbox_that_refuses_is_told_without_its_password(easy, box, caplog, settings):
    wrong = Mailbox(
        host="127.0.0.1",
        port=box.port,
        tls=False,
        user="answers",
        folder="In",
        password="no such one",
    )
    settings.WAYSTATION_REPLY_MAILBOX = wrong
    assert mailbox.read(seconds=30) == 0
    assert "could not be read: error" in caplog.text
    assert "no such one" not in caplog.text + repr(wrong)
    settings.WAYSTATION_REPLY_MAILBOX = None
    assert mailbox.read(seconds=30) == 0


@pytest.mark.parametrize(
    ("name", "read", "good", "bad"),
    [
        ("REPLY_MAILBOX", env.mailbox, "imaps://me:p%40ss@mail.example/Sub", "pop3://me:p4ss@x"),
        ("REPLY_MAILBOX", env.mailbox, "imap://me:p%40ss@mail.example:1143", "imaps://me:p4ss@"),
        ("REPLY_ADDRESS", env.reply_address, "reply@example.org", "reply+a@example.org"),
        ("REPLY_ADDRESS", env.reply_address, "@example.org", "example.org"),
    ],
)
def test_a_setting_that_cannot_be_right_stops_the_start(monkeypatch, name, read, good, bad):
    monkeypatch.setenv("X", good)
    value = read("X")
    assert value and "p@ss" not in repr(value)
    monkeypatch.setenv("X", bad)
    with pytest.raises(ImproperlyConfigured) as error:
        read("X")
    assert "p4ss" not in str(error.value)
