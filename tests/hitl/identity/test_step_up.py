"""Questions of high risk want a fresh second factor, whichever door an answer comes through."""

from __future__ import annotations

import datetime as dt
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import Client

from checkpoints.database import clock
from checkpoints.state import codec
from hitl.decisions import services, step_up
from hitl.decisions.approvals import DecisionRows
from hitl.decisions.reviewers import policy
from hitl.decisions.services import Answer
from hitl.identity import factors as identity
from hitl.models import ApiToken, Decision, Via, Vote
from runs.definitions import TemplateInvalid
from runs.models import Pause
from tests.conftest import drive, fresh, pause_of
from tests.databases.undone import undone
from tests.databases.whole import rows
from tests.doors import factors
from tests.doors.rest import problem
from tests.worlds.ruled_order import browser, by_admin, by_message, rest
from tests.worlds.ruled_order import ruled as ruled

pytestmark = pytest.mark.django_db
HIGH = {"risk": "high"}
ASKED = "wants a fresh second factor"


def posted(pause, **more):
    return {
        "action": "approve",
        "feedback": "as we said on the phone",
        "revision": pause.revision,
        "sure": "yes",
        **more,
    }


def answer(client, pause, **more):
    return client.post(f"/pauses/{pause.shown_id}/decide", posted(pause, **more))


def test_the_page_asks_for_a_code_keeps_the_words_and_the_ledger_says_so(ruled, ben):
    """P6, P11: the factor's kind and time are part of what the digest is over."""
    order = ruled(HIGH)
    pause, client = pause_of(order), browser(ben)
    factors.enrol(ben)
    before = rows()
    asked = answer(client, pause)
    page = asked.content.decode()
    assert asked.status_code == 403
    assert ASKED.replace("second factor", "proof") in page
    assert 'name="feedback" value="as we said on the phone"' in page
    refused = answer(client, pause, factor_code="000000").content.decode()
    assert "Incorrect code" in refused
    assert 'name="feedback" value="as we said on the phone"' in refused
    assert "000000" not in refused
    assert {**rows(), "sessions.Session": 0} == {**before, "sessions.Session": 0}
    begun = clock.now()
    assert answer(client, pause, factor_code=factors.code()).status_code == 302
    decision = Decision.objects.get()
    assert (decision.factor, decision.feedback) == ("totp", "as we said on the phone")
    assert decision.factor_at is not None
    assert begun <= decision.factor_at <= decision.decided_at
    assert decision.signed()["factor"] == "totp"
    assert decision.intact
    receipt = client.get(f"/decisions/{decision.shown_id}/").content.decode()
    assert "authenticator app" in receipt
    told = rest(ben).get(f"/api/v1/decisions/{decision.shown_id}").json()
    assert told["factor"] == "totp"
    assert drive(order).status != "failed"
    for column, value in (("factor", "webauthn"), ("factor_at", None)):
        changed = Decision.objects.get()
        setattr(changed, column, value)
        assert not changed.intact
    call_command("verify_ledger", stdout=StringIO())


@pytest.mark.both_databases
def test_it_is_fresh_for_a_while_and_then_asked_for_again(ruled, ben, settings):
    """The login by a second factor counts too; by the database's clock."""
    factors.enrol(ben)
    client = Client()
    factors.log_in(client, ben)
    assert answer(client, pause_of(ruled(HIGH))).status_code == 302
    session = client.session
    noted = session[identity.NOTE]
    old = clock.now() - dt.timedelta(seconds=settings.WAYSTATION_STEP_UP_SECONDS + 1)
    for at in (old, clock.now() + dt.timedelta(hours=1)):
        session[identity.NOTE] = {**noted, "at": at.isoformat()}
        session.save()
        assert answer(client, pause_of(ruled(HIGH))).status_code == 403
    session[identity.NOTE] = {**noted, "user": "0"}  # somebody else's
    session.save()
    assert answer(client, pause_of(ruled(HIGH))).status_code == 403
    assert Decision.objects.count() == 1


def test_every_other_door_is_refused_with_where_to_answer(ruled, ben):
    """A token, a message, the admin without a factor, the shell, a mail: 403 `step_up_required`."""
    factors.enrol(ben)
    pause = pause_of(ruled(HIGH))
    order = pause.run.work_order
    path = f"/api/v1/pauses/{pause.shown_id}/decisions"
    body = problem(
        rest(ben).post(path, {"decision": "approve"}, format="json"), 403, "step_up_required"
    )
    assert "on its own page" in body["detail"]
    cookie = browser(ben)  # of a session that proved one, the token in the header acts
    session = cookie.session
    session[identity.NOTE] = {"user": str(ben.pk), "kind": "totp", "at": clock.now().isoformat()}
    session.save()
    secret = ApiToken.make(ben, name="x")[1]
    mixed = cookie.post(
        path,
        {"decision": "approve"},
        content_type="application/json",
        headers={"authorization": f"Bearer {secret}"},
    )
    problem(mixed, 403, "step_up_required")
    assert by_message(ben, pause, "approve", "") == "step_up_required"
    assert ASKED in by_admin(ben, pause, "approve", "because")
    with pytest.raises(CommandError, match=ASKED):
        call_command("workorder", "--user", "ben", "approve", order.shown_id)
    for via in (Via.PAGE, Via.SOCKET, Via.MCP, Via.COMMAND):
        with pytest.raises(step_up.StepUpRequired) as refusal:
            services.decide(pause.pk, Answer("approve", via), by=ben)
        assert refusal.value.code == "step_up_required"
    assert Pause.objects.open().filter(pk=pause.pk).exists()
    assert not Decision.objects.exists()


def test_what_ends_or_returns_the_work_wants_none(ruled, ben):
    factors.enrol(ben)
    for action in ("revise", "cancel"):
        given = services.decide(
            pause_of(ruled(HIGH)).pk, Answer(action, Via.REST, feedback="so"), by=ben
        )
        assert (given.factor, given.factor_at) == ("", None)


def test_of_whom_it_is_wanted_the_setting_says(ruled, ben, settings, subtests):
    asked = {risk: pause_of(ruled({"risk": risk})) for risk in ("high", "normal")}
    for setting, risk, enrolled, decided in [
        ("enrolled", "high", False, True),  # nobody is locked out by an upgrade
        ("enrolled", "high", True, False),
        ("enrolled", "normal", True, True),
        ("everyone", "high", False, False),
        ("everyone", "normal", False, True),
        ("off", "high", True, True),
    ]:
        with subtests.test(setting, risk=risk, enrolled=enrolled), undone():
            settings.WAYSTATION_STEP_UP = setting
            if enrolled:
                factors.enrol(ben)
            if decided:
                services.decide(asked[risk].pk, Answer("approve", Via.REST), by=ben)
                assert Decision.objects.get().action == "approve"
                continue
            with pytest.raises(step_up.StepUpRequired) as refusal:
                services.decide(asked[risk].pk, Answer("approve", Via.REST), by=ben)
            assert refusal.value.enrolled is enrolled
            page = answer(browser(ben), asked[risk], wish="words kept")
            assert page.status_code == 403
            said = page.content.decode()
            assert ("set one up" in said) is not enrolled
            assert "words kept" in said


@pytest.mark.both_databases
def test_a_rule_of_the_step_binds_everybody_and_the_effect_looks_for_it(ruled, ben, settings):
    """P6: a row that was written past `decide`, or by rules that were not these, is no approval."""
    settings.WAYSTATION_STEP_UP = "off"
    order = ruled({"step_up": True})
    pause = pause_of(order)
    with pytest.raises(step_up.StepUpRequired):
        services.decide(pause.pk, Answer("approve", Via.PAGE), by=ben)
    factors.enrol(ben)
    assert (
        answer(browser(ben), pause, factor_code=factors.recovery_codes(ben)[0]).status_code == 302
    )
    assert Decision.objects.get().factor == "recovery_codes"
    [record] = DecisionRows().find([Decision.objects.get().pk]).values()
    assert record.proven
    for wrong in ({"external": ["a@example.org"]}, {"link_answers": True, "risk": "low"}):
        with pytest.raises(TemplateInvalid):
            ruled({"step_up": True, **wrong})
    assert fresh(order)


def test_each_vote_of_a_quorum_proves_its_own(ruled, ana, ben):
    pause = pause_of(ruled({"risk": "high", "quorum": 2}))
    factors.enrol(ana)
    factors.enrol(ben)
    assert answer(browser(ana), pause, factor_code=factors.code()).status_code == 302
    vote = Vote.objects.get()
    assert (vote.factor, vote.digest) == ("totp", vote.compute_digest())
    vote.factor = "webauthn"
    assert vote.digest != vote.compute_digest()
    with pytest.raises(step_up.StepUpRequired):
        services.decide(pause.pk, Answer("approve", Via.REST), by=ben)
    assert answer(browser(ben), pause, factor_code=factors.code()).status_code == 302
    assert Decision.objects.get().factor == "totp"


@pytest.mark.both_databases
def test_rows_from_before_keep_their_digest_and_a_factor_has_its_time(ruled, ana):
    """P11: a decision without a factor is signed as it was before there were any."""
    services.decide(pause_of(ruled({})).pk, Answer("approve", Via.PAGE), by=ana)
    decision = Decision.objects.get()
    assert not {"factor", "factor_at"} & decision.signed().keys()
    assert decision.digest == codec.digest(codec.encode(decision.signed()))
    decision.pk, decision.position, decision.factor = None, 99, "totp"
    decision.undoes, decision.action = Decision.objects.get(), "undo"
    with (
        pytest.raises(IntegrityError, match="decision_factor_has_its_time"),
        transaction.atomic(),
    ):
        decision.save(force_insert=True)


def test_stepping_around_a_review_of_high_risk_wants_it_too():
    """The right to step around is no way around the second factor."""
    with pytest.raises(policy.NotAllowed):
        user = User.objects.create_user("olga")
        factors.enrol(user)
        step_up.proven_by(user, {}, high=True)
