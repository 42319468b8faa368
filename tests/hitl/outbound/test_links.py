"""Links in mails: opened, forged, expired, replayed, passed on, and used to answer where the
template allows it.
"""

from __future__ import annotations

import datetime as dt
import re

import pytest
from django.contrib.auth.models import User
from django.db.models import Value
from django.db.models.functions import Concat
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from hitl.models.outbound import Delivery, Link
from hitl.outbound import links, send_request
from runs.models import Pause
from runs.workflows.base import Go
from runs.workflows.tool_calls import Call
from runs.workflows.wait_for_input import ask_about_calls
from tests.conftest import drive, fresh, pause_of
from tests.databases.undone import undone
from tests.databases.whole import at_once, rows
from tests.databases.whole import file_database as file_database
from tests.worlds.mailing import relay
from tests.worlds.outsiders import browser, link_to
from tests.worlds.scripted_step import order_that as order_that

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("reachable")]

LOW = {"risk": "low", "link_answers": True}
YES = {"action": "approve", "me": "yes"}


def link_of(name):
    """The path of the link that somebody was mailed."""
    return link_to(f"{name}@example.org")


@pytest.fixture
def asked(paused):
    """Ana and Ben were mailed; to answer one logs in."""
    relay()
    return paused


@pytest.fixture
def easy(paused):
    """Ana and Ben were mailed about a question that may be answered from its link."""
    Pause.objects.update(review=LOW)
    relay()
    return paused


def test_opening_a_link_changes_nothing(easy, ana, ben, zoe):
    """F1: scanners and prefetchers open links, whoever they are."""
    link = link_of("ben")
    for who in (None, ana, ben, zoe):
        client = browser(who)
        client.get("/")
        before = rows()
        for method in (client.get, client.head, client.options):
            for query in ("", "?action=approve&me=yes"):
                assert method(link + query).status_code < 500, who
        assert rows() == before, who


def test_the_address_is_kept_by_nobody_and_told_to_nobody(easy):
    page = browser().get(link_of("ben"))
    assert page["Cache-Control"] == "no-store"
    assert "noindex" in page["X-Robots-Tag"]
    # it has a form, whose POST would name no origin otherwise
    assert page["Referrer-Policy"] == "same-origin"
    Pause.objects.update(review={})
    assert browser().get(link_of("ben"))["Referrer-Policy"] == "no-referrer"
    assert not re.findall(r'(?:src|href)="https?://', page.content.decode()), (
        "no request leaves the host"
    )


def test_without_a_login_a_link_shows_the_question_and_the_way_in_only(asked):
    """What its holder sees is no more than the mail's subject said."""
    page = browser().get(link_of("ben")).content.decode()
    pause = pause_of(asked)
    assert pause.question in page and f"/work-orders/{asked.shown_id}/" in page
    assert "Plan 1" not in page and "<form" not in page.split("<main")[1].split("</main>")[0]


def test_its_recipient_who_is_logged_in_is_led_to_the_question(asked, ben):
    response = browser(ben).get(link_of("ben"))
    assert (response.status_code, response["Location"]) == (302, f"/work-orders/{asked.shown_id}/")


def test_what_needs_a_login_is_not_answered_without_one(paused):
    """F1: risk from medium up never decides without login."""
    unanswerable: list[dict[str, object]] = [
        {},
        {"risk": "high"},
        {"risk": "low"},
        {"risk": "normal", "link_answers": True},
    ]
    for review in unanswerable:
        with undone():
            Pause.objects.update(review=review)
            relay()
            before = rows()
            assert browser().post(link_of("ben"), YES).status_code == 403, review
            assert rows() == before, review


def test_a_rule_that_changed_since_counts(easy):
    """A link that was made for an answer gives none where the question allows it no more."""
    Pause.objects.update(review={})
    assert browser().post(link_of("ben"), YES).status_code == 403
    assert pause_of(easy).status == "open"


def test_a_low_risk_question_is_answered_from_its_link(easy, ben):
    page = browser().get(link_of("ben")).content.decode()
    assert "Plan 1" in page and 'name="me"' in page
    done = browser().post(link_of("ben"), YES)
    decision = Decision.objects.get()
    assert (done.status_code, decision.decided_by, decision.via, decision.revision) == (
        200,
        ben,
        Via.LINK,
        1,
    )
    assert "was recorded as your answer" in done.content.decode()
    assert Link.objects.get(recipient=ben).used_at is not None


def test_a_scanner_that_presses_buttons_answers_nothing(easy):
    """F1: some do; none ticks the box that says who one is."""
    before = rows()
    response = browser().post(link_of("ben"), {"action": "approve"})
    assert (response.status_code, "that it is you" in response.content.decode()) == (422, True)
    assert rows() == before


def test_what_is_no_answer_of_the_page_is_refused(easy, subtests):
    """To cancel ends everything, so it needs the login."""
    before = rows()
    for data in [
        {},
        {"me": "yes"},
        {"me": "yes", "action": "nonsense"},
        {"me": "yes", "action": "cancel"},
    ]:
        with subtests.test(ascii(data)[:60]):
            assert browser().post(link_of("ben"), data).status_code == 422
    assert rows() == before


def test_a_forged_or_cut_off_token_leads_nowhere(easy, subtests):
    """F2."""
    before, link = rows(), link_of("ben")
    for path in [
        "/l/x",
        "/l/" + "A" * 43,
        "/l/" + "A" * 42,
        "/l/" + "A" * 4000,
        "/l/" + "%00" * 43,
        "/l/" + "é" * 43,
        "/l/../../admin",
        "/l/" + "A" * 20 + "+" + "A" * 22,
        link[:-1],
        link + "A",
        link.swapcase(),
    ]:
        with subtests.test(ascii(path)[:60]):
            assert browser().get(path).status_code == 404
            assert browser().post(path, YES).status_code == 404
    assert rows() == before


def test_only_a_digest_of_the_token_is_kept(easy):
    token = link_of("ben").removeprefix("/l/")
    assert token not in str(rows())
    assert links.find(token) is not None


def test_an_expired_link_says_so(easy):
    Link.objects.update(
        made_at=timezone.now() - dt.timedelta(days=2),
        expires_at=timezone.now() - dt.timedelta(days=1),
    )
    before = rows()
    for response in (browser().get(link_of("ben")), browser().post(link_of("ben"), YES)):
        assert (response.status_code, "has expired" in response.content.decode()) == (410, True)
    assert rows() == before


def test_a_link_of_somebody_who_was_switched_off_says_so(easy, ben):
    """Found by a planted fault: nobody tried it."""
    link = link_of("ben")
    type(ben).objects.filter(pk=ben.pk).update(is_active=False)
    before = rows()
    for response in (browser().get(link), browser().post(link, YES)):
        assert response.status_code == 403
        assert "is switched off" in response.content.decode()
    assert rows() == before


def test_a_used_link_is_used_up(easy, ben):
    """F3: replayed, it answers nothing, not the next question either."""
    browser().post(link_of("ben"), YES)
    drive(easy)
    Pause.objects.filter(status="open").update(review=LOW)
    before = rows()
    for response in (browser().get(link_of("ben")), browser().post(link_of("ben"), YES)):
        assert response.status_code == 410
        assert "Ben answered “Approve”" in response.content.decode()
    assert rows() == before


def test_a_question_that_was_answered_elsewhere_says_by_whom(easy, ana):
    """F8."""
    services.decide(pause_of(easy).pk, Answer("approve", Via.PAGE), by=ana)
    before = rows()
    for response in (browser().get(link_of("ben")), browser().post(link_of("ben"), YES)):
        assert (
            response.status_code,
            "Ana Ruiz answered “Approve” on" in response.content.decode(),
        ) == (409, True)
    assert rows() == before


def test_a_link_to_an_earlier_revision_says_that_the_content_changed(easy, ana):
    """F2, F16: it answers the revision that was mailed, or nothing."""
    services.decide(pause_of(easy).pk, Answer("revise", Via.PAGE, feedback="shorter"), by=ana)
    drive(easy)
    before = rows()
    for response in (browser().get(link_of("ben")), browser().post(link_of("ben"), YES)):
        assert (response.status_code, "at revision 2 by now" in response.content.decode()) == (
            409,
            True,
        )
    assert rows() == before


def test_a_question_that_was_closed_without_an_answer_says_so(easy):
    now = timezone.now()
    Pause.objects.update(status="expired", closed_at=now, deadline_at=now, extendable_until=now)
    response = browser().get(link_of("ben"))
    assert (response.status_code, "(expired)" in response.content.decode()) == (410, True)


def test_somebody_elses_link_is_nobodys_who_is_logged_in(easy, ana, zoe):
    """F19: passed on, it does not answer in its recipient's name."""
    for who in (ana, zoe):
        client = browser(who)
        client.get("/")
        before = rows()
        for response in (client.get(link_of("ben")), client.post(link_of("ben"), YES)):
            assert (response.status_code, "not yours" in response.content.decode()) == (403, True)
        assert rows() == before, who


def test_who_may_not_answer_any_more_is_told_so(easy, ben, team):
    ben.groups.clear()
    before = rows()
    assert browser().post(link_of("ben"), YES).status_code == 403
    assert rows() == before


def test_the_form_of_a_link_takes_data(paused):
    schema = {
        "type": "object",
        "properties": {"iban": {"type": "string", "minLength": 4, "title": "IBAN"}},
        "required": ["iban"],
    }
    Pause.objects.update(review=LOW, required_inputs=schema)
    relay()
    assert "IBAN" in browser().get(link_of("ben")).content.decode()
    refused = browser().post(link_of("ben"), {**YES, "input.iban": "x"})
    assert (refused.status_code, Decision.objects.count()) == (422, 0)
    assert browser().post(link_of("ben"), {**YES, "input.iban": "DE89"}).status_code == 200
    assert Decision.objects.get().payload == {"iban": "DE89"}


def test_a_revision_from_a_link_needs_words(easy):
    assert browser().post(link_of("ben"), {"action": "revise", "me": "yes"}).status_code == 422
    assert (
        browser()
        .post(link_of("ben"), {"action": "revise", "me": "yes", "feedback": "shorter"})
        .status_code
        == 200
    )
    assert Decision.objects.get().feedback == "shorter"


def test_a_mail_that_is_sent_again_carries_the_same_link(easy, ben):
    first = link_of("ben")
    Delivery.objects.filter(recipient=ben).update(status="queued", sent_at=None)
    relay()
    assert (link_of("ben"), Link.objects.filter(recipient=ben).count()) == (first, 1)


def test_a_link_for_somebody_without_an_account_shows_the_question_and_answers_nothing(paused):
    Pause.objects.update(review=LOW)
    send_request(pause_of(paused).run_id, "supplier@example.org", "Which IBAN?")
    relay()
    before = rows()
    assert browser().get(link_of("supplier")).status_code == 200
    assert browser().post(link_of("supplier"), YES).status_code == 403
    assert rows() == before


def test_of_two_who_use_a_link_at_once_one_wins(file_database, make_order):
    """F0: the loser gets the calm truth."""
    drive(make_order())
    Pause.objects.update(review=LOW)
    relay()
    path = link_of("ben")
    found = at_once(*[lambda: browser().post(path, YES).status_code for _ in range(4)])
    assert (
        sorted(found)[0],
        set(found) <= {200, 409, 410},
        found.count(200),
        Decision.objects.count(),
    ) == (200, True, 1, 1)


@pytest.fixture
def calling(order_that, ana, ben):
    """Ben is mailed about two calls, which may be decided from the link; of high risk where `risk`
    is given.
    """

    def make(risk="normal"):
        wanted = [
            Call(id="mail", tool="send_mail", arguments={"to": "x"}, risk=risk),
            Call(id="list", tool="list_files", arguments={}),
        ]
        User.objects.update(email=Concat("username", Value("@example.org")))
        order = drive(
            order_that(lambda state, context: ask_about_calls(state, context, calls=wanted) or Go())
        )
        Pause.objects.update(review=LOW)
        relay()
        return order

    return make


def test_calls_are_decided_one_by_one_from_a_link(calling):
    """S2-26: the same choices as on the card; what is left out leaves the question open."""
    order = calling()
    client, path = browser(), link_of("ben")
    shown = client.get(path).content.decode()
    names = re.findall(r'name="([^"]+)\.decision"', shown)
    first, second = dict.fromkeys(names)
    sent = {"action": "answer", "me": "yes", f"{first}.decision": "approve"}
    assert client.post(path, sent).status_code == 422
    sent |= {f"{second}.decision": "reject", f"{second}.reason": "no need"}
    assert client.post(path, sent).status_code == 200
    assert Decision.objects.get().via == "link"
    assert {
        name: one["decision"] for name, one in Decision.objects.get().payload["calls"].items()
    } == {"mail": "approve", "list": "reject"}
    assert fresh(order).status != "paused"


def test_a_call_of_high_risk_is_not_decided_from_a_link(calling):
    calling(risk="high")
    shown = browser().get(link_of("ben")).content.decode()
    assert "Log in to answer" in shown
    assert ".decision" not in shown
