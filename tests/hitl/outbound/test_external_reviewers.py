"""People without an account who answer by a signed link: what they see, what they may do, and where
it is told (S3-28, 49..51).
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from hitl.decisions import notifications, services, undo
from hitl.decisions.reviewers import external_access, policy
from hitl.decisions.reviewers.outsiders import Outsider
from hitl.decisions.services import Answer
from hitl.ledger import export, verification
from hitl.models import Decision, Via, Vote
from hitl.models.outbound import Delivery, Link
from hitl.threads import erasure
from runs.models import Pause
from runs.workflows.base import Ask, Outside, Report, StepFailed
from runs.workflows.external_reviewers import asked, is_address
from runs.workflows.reviews.rules import ReviewInvalid, check
from tests.conftest import drive, fresh, pause_of
from tests.databases.whole import file_database as file_database
from tests.databases.whole import rows
from tests.worlds.books.booking import state_of
from tests.worlds.histories.whole_story import broken
from tests.worlds.mailing import relay
from tests.worlds.outsiders import SUPPLIER, browser, link_to, mails_to
from tests.worlds.scripted_step import order_that as order_that

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("reachable")]

SCHEMA = {
    "type": "object",
    "properties": {"iban": {"type": "string", "minLength": 4, "title": "IBAN"}},
    "required": ["iban"],
}
YES = {"action": "answer", "me": "yes", "input.iban": "DE89"}


def question(state, context, **changes):
    told = Outside(
        to=[SUPPLIER.upper()],
        question="Where shall we pay to?",
        content="Your **bill** lacks an IBAN.",
        answers=["answer"],
    )
    report = Report(
        content="# Internal notes\n\nThey are late again.",
        facts={"Margin": "12 %"},
        effects=["Pays."],
    )
    answers = {"approve": "finish", "answer": "finish", "revise": context.step, "reject": ""}
    return Ask(
        question="IBAN of the supplier?",
        answers=answers,
        report=report,
        required_inputs=SCHEMA,
        **{"outside": told, **changes},
    )


@pytest.fixture
def wanted(order_that, ana):
    """An order that asks the supplier, who was mailed."""

    def make(review=None, *, named=False, **changes):
        """With `named` the rules name the supplier too, not the step alone."""
        review = {**(review or {}), **({"external": [SUPPLIER]} if named else {})}
        order = order_that(lambda state, context: question(state, context, **changes))
        drive(order)
        if review:
            Pause.objects.update(review=review)
        relay()
        return fresh(order)

    return make


def outsiders_answer(
    pause,
    by=Outsider(SUPPLIER),  # noqa: B008  # a frozen value
    action="answer",
    **changes,
):
    fields = {"revision": pause.revision, "payload": {"iban": "DE89"}, **changes}
    return services.decide(pause.pk, Answer(action, Via.LINK, **fields), by=by)


def test_whoever_holds_the_link_answers_under_the_address_it_was_sent_to(wanted):
    """§5 outbound, S3-28: nobody logs in; the run goes on with what came."""
    order = wanted()
    page = browser().get(link_to())
    assert page.status_code == 200 and "Where shall we pay to?" in page.content.decode()
    done = browser().post(link_to(), YES)
    assert (done.status_code, "was recorded as your answer" in done.content.decode()) == (200, True)
    decision = Decision.objects.get()
    assert (decision.decided_by, decision.external, decision.via, decision.payload) == (
        None,
        SUPPLIER,
        Via.LINK,
        {"iban": "DE89"},
    )
    assert state_of(drive(order))["iban"] == "DE89"


def test_neither_mail_nor_page_shows_anything_of_the_house(wanted, ana, ben):
    """They see their words and the form."""
    order = wanted()
    (message,) = mails_to()
    shown = browser().get(link_to()).content.decode()
    ended = browser().get("/l/" + "A" * 43).content.decode()
    for text in (message.subject, str(message.body), message.alternatives[0][0], shown, ended):
        for inside in (
            "Internal notes",
            "12 %",
            "Pays.",
            "IBAN of the supplier",
            order.title,
            "Ana",
            "Ben",
            str(order.definition),
            order.shown_id,
        ):
            assert not re.search(rf"(?<!\w){re.escape(inside)}(?!\w)", text), inside
    assert (
        "lacks an IBAN" in shown
        and 'value="reject"' not in shown
        and "Log in" not in shown.split("<main")[1]
    )


def test_its_page_is_told_to_nobody_and_takes_no_form_from_elsewhere(wanted):
    """Origin and token are checked, the address stays on the page."""
    wanted()
    page = browser().get(link_to())
    assert (page["Cache-Control"], page["Referrer-Policy"], "noindex" in page["X-Robots-Tag"]) == (
        "no-store",
        "same-origin",
        True,
    )
    before = rows()
    assert browser(enforce_csrf_checks=True).post(link_to(), YES).status_code == 403
    client = browser(enforce_csrf_checks=True)
    client.get(link_to())
    body = {**YES, "csrfmiddlewaretoken": client.cookies["csrftoken"].value}
    assert (
        client.post(link_to(), body, headers={"origin": "https://elsewhere.example"}).status_code
        == 403
    )
    assert rows() == before
    assert client.post(link_to(), body, headers={"origin": "http://testserver"}).status_code == 200


def test_where_the_rules_alone_name_them_they_see_the_question_itself(order_that):
    order = order_that(
        lambda state, context: question(state, context, outside=None),
        review={"external": [SUPPLIER]},
    )
    drive(order)
    relay()
    page = browser().get(link_to()).content.decode()
    assert "IBAN of the supplier?" in page and "Internal notes" in page and 'value="reject"' in page
    assert "12 %" not in page and "Pays." not in page


def test_what_does_not_fit_leaves_the_question_open_and_is_said_at_the_field(wanted):
    """S3-33: counted, and asked anew in words."""
    order = wanted()
    refused = browser().post(link_to(), {**YES, "input.iban": "x"})
    assert (refused.status_code, Decision.objects.count(), pause_of(order).attempts) == (422, 0, 1)
    assert browser().post(link_to(), {"action": "answer", "input.iban": "DE89"}).status_code == 422
    assert browser().post(link_to(), {**YES, "input.iban": "DE89"}).status_code == 200


def test_answers_that_are_for_others_are_not_theirs(wanted, subtests):
    wanted()
    before = rows()
    for action in ["cancel", "approve", "reject", "revise", "nonsense", ""]:
        with subtests.test(ascii(action)[:60]):
            assert browser().post(
                link_to(), {**YES, "action": action, "feedback": "because"}
            ).status_code in {403, 422}
    assert rows() == before


def test_a_link_answers_once(wanted):
    """F3: replayed, it says when it was used."""
    wanted()
    path = link_to()
    browser().post(path, YES)
    before = rows()
    for response in (browser().get(path), browser().post(path, YES)):
        assert (
            response.status_code,
            "Your answer was recorded on" in response.content.decode(),
        ) == (410, True)
    assert rows() == before


def test_who_has_an_account_does_not_answer_as_somebody_outside(wanted, request, subtests):
    """F19: passed on to people of the house, it is not theirs."""
    wanted()
    for who in ["ana", "ben", "zoe"]:
        with subtests.test(ascii(who)[:60]):
            client = browser(request.getfixturevalue(who))
            client.get("/")
            before = rows()
            for response in (client.get(link_to()), client.post(link_to(), YES)):
                assert (
                    response.status_code,
                    "without an account" in response.content.decode(),
                ) == (
                    403,
                    True,
                )
            assert rows() == before


def test_a_link_to_another_revision_answers_nothing(wanted, ana):
    """F2, F16; the new question has a link of its own."""
    order = wanted()
    old = link_to()
    services.decide(
        pause_of(order).pk, Answer("revise", Via.PAGE, feedback="ask for the BIC too"), by=ana
    )
    drive(order)
    relay()
    before = rows()
    for response in (browser().get(old), browser().post(old, YES)):
        assert (response.status_code, "has changed" in response.content.decode()) == (409, True)
    assert rows() == before
    assert link_to() != old and browser().post(link_to(), YES).status_code == 200


def test_who_comes_too_late_is_told_so_without_names(wanted, ana):
    """F8: the house's answer was first."""
    order = wanted()
    services.decide(
        pause_of(order).pk, Answer("approve", Via.PAGE, payload={"iban": "DE00"}), by=ana
    )
    before = rows()
    for response in (browser().get(link_to()), browser().post(link_to(), YES)):
        text = response.content.decode()
        assert (
            response.status_code,
            "Somebody else answered first" in text,
            "Ana" in text,
            "DE00" in text,
        ) == (409, True, False, False)
    assert rows() == before
    relay()
    assert "settled meanwhile" in str(mails_to()[-1].body) and "Ana" not in str(mails_to()[-1].body)


def test_the_house_is_told_that_somebody_outside_was_first(wanted, api, ana):
    """F8, P1: over REST with the address; on the page in words."""
    pause = pause_of(wanted())
    browser().post(link_to(), YES)
    body = {"decision": "approve", "input": {"iban": "DE00"}}
    late = api(ana).post(f"/api/v1/pauses/{pause.shown_id}/decisions", body, format="json").json()
    assert (late["code"], late["external"], late["decided_by"]) == ("pause_closed", SUPPLIER, None)
    page = browser(ana).post(f"/pauses/{pause.shown_id}/decide", {"action": "cancel"})
    assert (page.status_code, f"by {SUPPLIER}" in page.content.decode()) == (409, True)


def test_an_address_that_is_not_asked_answers_nothing(wanted):
    """Not through the service either: the question says who."""
    pause = pause_of(wanted())
    with pytest.raises(services.NotFound):
        outsiders_answer(pause, by=Outsider("somebody@else.example"))


def test_what_is_of_high_risk_is_put_to_nobody_outside(wanted, order_that):
    """Not by a link either that was sent before the risk was seen."""
    with pytest.raises(ReviewInvalid):
        check({"external": [SUPPLIER], "risk": "high"}, {})
    order = wanted(review=None)
    path = link_to()
    Pause.objects.update(review={"risk": "high"})
    before = rows()
    assert [browser().get(path).status_code, browser().post(path, YES).status_code] == [403, 403]
    assert rows() == before and external_access.asked(pause_of(order)) == []
    assert asked(Outside(to=[SUPPLIER]), {"risk": "high"}, {"approve": ""}, high_risk=True) == {}


def test_a_claim_binds_them_and_does_not_say_whose(wanted, ben):
    order = wanted()
    Pause.objects.update(claimed_by=ben, claimed_until=timezone.now() + dt.timedelta(minutes=5))
    path = link_to()
    response = browser().post(path, YES)
    shown = response.content.decode()
    assert (response.status_code, "at the moment" in shown, "Ben" in shown) == (409, True, False)
    # before: the page had no form any more, and what was typed was gone
    assert 'name="input.iban" value="DE89"' in shown
    assert pause_of(order).status == "open"
    Pause.objects.update(claimed_by=None, claimed_until=None)
    assert browser().post(path, YES).status_code == 200


def test_a_reason_that_the_rules_ask_for_is_asked_of_them_too(wanted):
    wanted(review={"reason_required": ["answer"]})
    assert browser().post(link_to(), YES).status_code == 422
    assert browser().post(link_to(), {**YES, "feedback": "by phone"}).status_code == 200


def test_an_address_is_one_seat_of_a_quorum(wanted, ana, ben):
    """The decision names both digests, and the chain holds."""
    order = wanted(review={"quorum": 2}, named=True)
    first = browser().post(link_to(), YES)
    vote = Vote.objects.get()
    assert (first.status_code, vote.external, vote.voter, vote.digest == vote.compute_digest()) == (
        200,
        SUPPLIER,
        None,
        True,
    )
    assert (browser().post(link_to(), YES).status_code, Decision.objects.count()) == (410, 0)
    with pytest.raises(policy.NotNow):
        outsiders_answer(pause_of(order))
    assert set(policy.answerers(pause_of(order))) == {ana, ben}, (
        "a vote from outside takes no account's seat"
    )
    services.decide(pause_of(order).pk, Answer("answer", Via.PAGE), by=ben)
    assert Decision.objects.get().votes == [vote.digest for vote in Vote.objects.order_by("pk")]
    assert list(verification.LedgerCheck().breaches()) == []


def test_who_asked_for_the_work_does_not_approve_it_from_outside(wanted, ana):
    """Self-approval is by person, whichever way they come."""
    ana.email = SUPPLIER.upper()
    ana.save()
    wanted(review={"self_approval": False}, named=True)
    response = browser().post(link_to(), YES)
    assert (response.status_code, Decision.objects.count()) == (403, 0)


def test_an_account_and_its_own_address_are_one_voice(wanted, ben):
    order = wanted(review={"quorum": 2}, named=True)
    ben.email = SUPPLIER
    ben.save()
    browser().post(link_to(), YES)
    with pytest.raises(policy.NotNow):
        services.decide(pause_of(order).pk, Answer("answer", Via.PAGE), by=ben)


def test_the_answer_from_outside_is_named_everywhere(wanted, api, ana, client):
    """Its digest is in the chain."""
    order = wanted()
    api_client = api(ana)
    before = api_client.get(f"/api/v1/pauses/{pause_of(order).shown_id}").json()
    client.force_login(ana)
    page = f"/work-orders/{order.shown_id}/"
    assert (before["asked_outside"], SUPPLIER in client.get(page).content.decode()) == (
        [SUPPLIER],
        True,
    )
    browser().post(link_to(), YES)
    decision = Decision.objects.get()
    told = api_client.get(f"/api/v1/decisions/{decision.shown_id}").json()
    assert (told["external"], told["decided_by"], told["shown"]["outside"]["question"]) == (
        SUPPLIER,
        None,
        "Where shall we pay to?",
    )
    assert told["verification"]["holds"]
    assert (
        api_client.get(f"/api/v1/pauses/{decision.pause.shown_id}").json()["external"] == SUPPLIER
    )
    (line,) = json.loads("".join(export.as_json([decision.ledger_id])))["decisions"]
    assert (line["external"], line["signed"]["external"]) == (SUPPLIER, SUPPLIER)
    for path in (page, f"/decisions/{decision.shown_id}/"):
        assert SUPPLIER in client.get(path).content.decode(), path
    decision.external = "another@supplier.example"
    assert decision.compute_digest() != decision.digest


def test_the_database_keeps_accounts_addresses_and_rules_apart(wanted, ana):
    """A decision is of one of them: the rule is a constraint."""
    wanted()
    browser().post(link_to(), YES)
    decision = Decision.objects.get()
    decision.pk, decision.pause, decision.position = None, None, 99
    for changes in ({"decided_by": ana}, {"external": ""}, {"via": Via.PAGE}, {"via": Via.POLICY}):
        for name, value in changes.items():
            setattr(decision, name, value)
        with pytest.raises((IntegrityError, ValidationError)), transaction.atomic():
            decision.save(force_insert=True)


DAMAGES: dict[str, Callable[[], object]] = {
    "no link": lambda: Link.objects.all().delete(),
    "another's link": lambda: Link.objects.update(contact="other@supplier.example"),
    "another revision's": lambda: Link.objects.update(revision=2),
    "to look at only": lambda: Link.objects.update(purpose=Link.Purpose.REVIEW, used_at=None),
    "never asked": lambda: Pause.objects.update(outside={}),
    "another way": lambda: Pause.objects.update(
        outside={**Pause.objects.get().outside, "answers": ["reject"]}
    ),
    "of high risk": lambda: Pause.objects.update(
        review={**Pause.objects.get().review, "risk": "high"}
    ),
}


@pytest.mark.parametrize("quorum", [1, 2], ids=["answer", "vote"])
def test_an_answer_that_nobody_outside_was_asked_for_is_found(wanted, subtests, quorum):
    """P1, F3: by the question's rules and a link to this address and revision."""
    wanted(review={"quorum": quorum}, named=True)
    assert browser().post(link_to(), YES).status_code == 200
    answer = (Decision if quorum == 1 else Vote).objects.get()
    assert "answered_from_outside_unasked" not in broken()
    for name, damage in DAMAGES.items():
        with subtests.test(name), transaction.atomic():
            damage()
            assert broken()["answered_from_outside_unasked"] == [answer.shown_id]
            transaction.set_rollback(True)


def test_an_erasure_takes_the_address_and_the_chain_holds(wanted, ana):
    order = wanted()
    browser().post(link_to(), YES)
    drive(order)
    erasure.erase(order.thread_id, by="root", reason="asked for")
    decision = Decision.objects.get()
    assert (decision.external, decision.name, decision.intact) == (
        "",
        "somebody without an account",
        True,
    )
    assert list(verification.LedgerCheck().breaches()) == [] and SUPPLIER not in str(rows())


def test_only_an_administrator_takes_their_answer_back(wanted, ana, admin_user):
    wanted(review={"undo": 60})
    browser().post(link_to(), YES)
    with pytest.raises(undo.NotYourAnswer):
        undo.undo(Decision.objects.get().pk, by=ana, via=Via.PAGE)
    undo.undo(Decision.objects.get().pk, by=admin_user, via=Via.PAGE)
    relay()
    assert browser().post(link_to(), YES).status_code == 200, "asked again, they get another link"


@pytest.mark.parametrize(
    "address",
    [
        "",
        "x",
        "a@b",
        "a b@c.de",
        "A <a@b.de>",
        "a@b.de\nBcc: c@d.de",
        "a@b.de,c@d.de",
        "a" * 250 + "@b.de",
        7,
    ],
)
def test_what_is_no_plain_address_is_refused(address):
    assert not is_address(address)
    with pytest.raises(StepFailed):
        asked(Outside(to=[address]), {}, {"approve": ""}, high_risk=False)
    with pytest.raises(ReviewInvalid):
        check({"external": [address]}, {})


def test_addresses_are_kept_once_and_in_lower_case():
    found = asked(
        Outside(to=[SUPPLIER.upper(), SUPPLIER], answers=["no"]),
        {"external": [SUPPLIER]},
        {"yes": "", "no": ""},
        high_risk=False,
    )
    assert (found["to"], found["answers"]) == ([SUPPLIER], ["no"])
    with pytest.raises(StepFailed):
        asked(Outside(to=[SUPPLIER], answers=["maybe"]), {}, {"yes": ""}, high_risk=False)


def test_a_mail_outside_holds_so_much_of_the_content_and_no_more(wanted, settings):
    settings.WAYSTATION_OUTSIDE_CHARACTERS = 5
    wanted()
    assert "… (more on the page)" in str(mails_to()[-1].body)


def test_who_was_asked_outside_is_reminded_too(wanted):
    order = wanted()
    notifications.plan_outside(pause_of(order), "reminded", mark="0.1")
    relay()
    assert mails_to()[-1].subject.startswith("Reminder: Where shall we pay to?")
    assert (
        Delivery.objects.filter(contact="").count()
        == Delivery.objects.exclude(recipient=None).count()
    )


def test_the_demo_shows_the_link_to_a_superuser_only_and_nowhere_real(
    wanted, admin_user, ana, settings
):
    """Whoever holds it answers as the supplier; GET makes none."""
    order = wanted()
    before = rows()
    assert link_to() in browser(admin_user).get("/deliveries/").content.decode()
    assert "/l/" not in browser(ana).get("/deliveries/").content.decode()
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    assert "/l/" not in browser(admin_user).get("/deliveries/").content.decode()
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    assert {
        name: found
        for name, found in rows().items()
        if name.split(".")[0] not in {"sessions", "axes"}
    } == {
        name: found
        for name, found in before.items()
        if name.split(".")[0] not in {"sessions", "axes"}
    }
    services.decide(pause_of(order).pk, Answer("cancel", Via.PAGE), by=ana)
    assert "/l/" not in browser(admin_user).get("/deliveries/").content.decode()


def test_an_address_that_the_rules_do_not_name_brings_data_and_approves_nothing(wanted):
    """Whoever asked for the work named a mailbox of their own."""
    order = wanted()
    assert external_access.shown(pause_of(order), SUPPLIER).answers == ["answer"]
    outside = pause_of(order).outside
    older = {"ways" if key == "answers" else key: value for key, value in outside.items()}
    Pause.objects.update(outside=older)  # as questions kept it before
    assert external_access.shown(pause_of(order), SUPPLIER).answers == ["answer"]
    with pytest.raises(policy.NotAllowed):
        outsiders_answer(pause_of(order), action="approve")
    assert browser().post(link_to(), YES).status_code == 200
    decision = Decision.objects.get()
    assert (decision.action, decision.data_only, decision.signed()["data_only"]) == (
        "answer",
        True,
        True,
    )
    decision.pk, decision.pause, decision.position, decision.action = None, None, 99, "approve"
    with (
        pytest.raises(
            IntegrityError,
            match=r"decision_data_only_approves_nothing|decision_says_nothing_if_erased",
        ),
        transaction.atomic(),
    ):
        decision.save(force_insert=True)


@pytest.mark.parametrize(
    "rules", [{"quorum": 2}, {"reviewers": {"users": ["ben"]}}, {"self_approval": False}], ids=str
)
def test_it_lets_no_run_go_on_where_somebody_must_approve(wanted, rules):
    """Its vote counted towards the quorum."""
    order = wanted(review=rules)
    assert external_access.asked(pause_of(order)) == []
    path = f"/l/{'A' * 43}" if not mails_to() else link_to()
    assert browser().post(path, YES).status_code in {403, 404}
    with pytest.raises(services.NotFound):
        outsiders_answer(pause_of(order))
    assert (Vote.objects.count(), Decision.objects.count(), pause_of(order).status) == (
        0,
        0,
        "open",
    )
    Pause.objects.update(review={**rules, "external": [SUPPLIER]})
    assert external_access.asked(pause_of(order)) == [SUPPLIER], "the template's own word counts"


def test_where_the_step_itself_looks_at_the_data_they_may_come_from_there(order_that):
    """As `smart-booking` asks its supplier."""
    back = {"answer": "execute", "reject": ""}
    order = drive(
        order_that(lambda state, context: replace(question(state, context), answers=back))
    )
    Pause.objects.update(review={"reviewers": {"users": ["ben"]}})
    assert external_access.asked(pause_of(order)) == [SUPPLIER]


@pytest.mark.parametrize("quorum", [1, 2], ids=["answer", "vote"])
def test_what_counts_under_an_address_that_the_rules_do_not_name_is_found(wanted, quorum):
    """P6: the hole put back, by an answer and by a vote."""
    wanted(review={"quorum": quorum}, named=True)
    assert browser().post(link_to(), YES).status_code == 200
    answer = (Decision if quorum == 1 else Vote).objects.get()
    assert "counted_from_outside" not in broken()
    Pause.objects.update(review={"quorum": quorum, "external": ["somebody@else.example"]})
    assert broken()["counted_from_outside"] == [answer.shown_id]
