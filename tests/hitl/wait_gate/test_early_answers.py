"""Answers that come before their question, and those that come after it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from checkpoints.models import Event
from checkpoints.store import StoreUnavailable
from hitl.decisions import claims, services
from hitl.decisions.services import Answer
from hitl.models import Decision, EarlyAnswer, Via
from hitl.operations.invariants import check
from hitl.tasks import take_early_answers
from hitl.threads import erasure
from hitl.wait_gate import early_answers, primitives, resume, waits
from hitl.wait_gate.resume_events import EarlyVerdict, ResumeEvent
from runs.engine.advance import advance
from runs.models import Run
from runs.workflows.base import Ask, Call, Done, Report
from runs.workflows.wait_for_input import ask_about_calls
from tests.conftest import drive, fresh, pause_of
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.worlds.histories.whole_story import broken
from tests.worlds.ruled_order import ruled as ruled
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.steps import HOOKS

pytestmark = pytest.mark.django_db

IBAN = {"type": "object", "properties": {"iban": {"type": "string"}}, "required": ["iban"]}
CONTENT: dict[str, str] = {}
"""Digest of what each step of the orders of these tests comes to: `order` fills it."""
SEEN: dict[str, Any] = {"revision": 1}
PLAN: dict[str, Any] = {
    "node_id": "planning",
    "payload": {"decision": "approve", "feedback": "seen before"},
    **SEEN,
}


def bound(step, decision="approve"):
    """A verdict on what that step is known to come to."""
    return {"node_id": step, "payload": decision, "revision": 1, "content_digest": CONTENT[step]}


def send(run, by, **event):
    return resume.ingest(
        ResumeEvent(run_id=run if isinstance(run, str) else run.shown_id, **event),
        by=by,
        via=Via.REST,
    )


@pytest.fixture
def order(make_order, ana):
    """An order whose run no worker has taken yet.

    What its steps come to is known, from one like it that is gone.
    """
    if not CONTENT:
        learn(make_order, ana)
    return make_order()


def learn(make_order, ana):
    learnt: Any = transaction.atomic()
    learnt._from_testcase = True  # so that the services may open their own transactions in it
    with learnt:
        twin = drive(make_order())
        while twin.status == "paused":
            pause = pause_of(twin)
            CONTENT[pause.step] = pause.content_digest
            services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
            twin = drive(twin)
        transaction.set_rollback(True)
    for one in (SEEN, PLAN):
        one["content_digest"] = CONTENT["planning"]


def sweep(now=None):
    early_answers.sweep(now=now or timezone.now())


@pytest.mark.both_databases
def test_an_answer_that_comes_early_is_kept_and_given_once_its_question_opens(order, ana):
    """S0-16, inngest#1433: through `decide`, by who sent it, in the log with its sender."""
    found = send(order.latest_run, ana, **PLAN, sender_metadata={"channel": "mail"})
    assert (found.kept.status, found.decision) == ("kept", None)
    drive(order)
    take_early_answers()
    decision = Decision.objects.get()
    assert (decision.action, decision.decided_by, decision.via, decision.feedback) == (
        "approve",
        ana,
        "rest",
        "seen before",
    )
    found.kept.refresh_from_db()
    assert (found.kept.status, found.kept.pause) == ("taken", decision.pause)
    assert Event.objects.get(kind="approval_received").data["sender"] == {"channel": "mail"}
    order = drive(order)
    assert pause_of(order).step == "execute"
    take_early_answers()
    assert (pause_of(order).step, Decision.objects.count()) == ("execute", 1)


def test_operators_say_how_long_early_answers_are_kept_and_whether_any_are(order, ana, settings):
    """S3-23: seven days was a number in code."""
    settings.WAYSTATION_EARLY_HOURS = 2
    kept = send(order.latest_run, ana, **PLAN).kept
    assert kept.expires_at - kept.received_at == dt.timedelta(hours=2)
    settings.WAYSTATION_EARLY_HOURS = 0
    with pytest.raises(early_answers.NotKept, match="are not kept here"):
        send(order.latest_run, ana, **bound("execute"))
    assert EarlyAnswer.objects.count() == 1


def test_it_may_be_for_a_later_question_and_is_eaten_by_no_other(order, ana):
    """F3."""
    send(order.latest_run, ana, **bound("execute"))
    order = drive(order)
    sweep()
    assert (pause_of(order).step, Decision.objects.count()) == ("planning", 0)
    while_open = send(order.latest_run, ana, **bound("review"))
    assert while_open.kept.status == "kept"
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    drive(order)
    sweep()
    order = drive(order)
    sweep()
    assert drive(order).status == "completed"
    assert list(Decision.objects.order_by("position").values_list("pause__step", flat=True)) == [
        "planning",
        "execute",
        "review",
    ]


def test_its_question_is_found_behind_any_number_of_earlier_ones(order, ana, monkeypatch):
    """It was looked for among the oldest: that of a run that had asked often never came."""
    monkeypatch.setattr(early_answers, "LOOKED_AT", 1)
    kept = send(order.latest_run, ana, **bound("execute")).kept
    order = drive(order)
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    drive(order)
    sweep()
    kept.refresh_from_db()
    assert (kept.status, kept.pause.step) == ("taken", "execute")


def test_one_whose_store_is_away_holds_up_no_others(order, ana, monkeypatch):
    """P12: it stayed the first in line, and was tried at every sweep."""
    kept = send(order.latest_run, ana, **PLAN).kept
    drive(order)

    def away(*_, **__):
        raise StoreUnavailable("the store is away")

    with monkeypatch.context() as during:
        during.setattr("hitl.wait_gate.resume_events.answer", away)
        sweep()
        EarlyAnswer.objects.update(changed_at=timezone.now() - 2 * early_answers.STALE)
        sweep()
    kept.refresh_from_db()
    assert kept.status == "taking"
    assert kept.changed_at > timezone.now() - early_answers.STALE
    sweep(timezone.now() + 2 * early_answers.STALE)
    kept.refresh_from_db()
    assert kept.status == "taken"


def test_what_was_asked_already_is_answered_late_not_early(order, ana, ben):
    """F3: the next round's question never gets the answer that was meant for the last one."""
    drive(order)
    services.decide(pause_of(order).pk, Answer("revise", Via.PAGE, feedback="shorter"), by=ana)
    with pytest.raises(services.AlreadyAnswered, match="Ana Ruiz"):
        send(order.latest_run, ben, **PLAN)
    assert not EarlyAnswer.objects.exists()


def test_what_does_not_name_a_question_that_may_come_is_not_kept(order, ana, subtests):
    cases: list[tuple[Any, ...]] = [
        ({"payload": "approve"}, services.NotPaused),
        ({"payload": "approve", "node_id": "no_such_step"}, services.NotPaused),
        ({"payload": "approve", "pause_id": "pse_x"}, services.NotPaused),
        ({"payload": {"x": float("nan")}, "node_id": "planning"}, services.AnswerInvalid),
        ({"payload": "approve", "node_id": "pl\x00anning"}, services.AnswerInvalid),
        ({"payload": "x" * 600_000, "node_id": "planning"}, early_answers.NotKept),
        ({"payload": "approve", "node_id": "planning"}, EarlyVerdict),
        (
            {
                "payload": {"decision": "revise", "feedback": "x", "revision": 1},
                "node_id": "planning",
            },
            EarlyVerdict,
        ),
        ({"payload": {"content_digest": "a" * 64}, "input_type": "approve"}, EarlyVerdict),
        ({"payload": " Approve ", "node_id": "planning", "content_digest": "a" * 64}, EarlyVerdict),
    ]
    for event, error in cases:
        with subtests.test(ascii(event)[:60]):
            with pytest.raises(error):
                send(order.latest_run, ana, **event)
            assert not EarlyAnswer.objects.exists()


def test_over_rest_it_is_accepted_not_answered(order, ana, api):
    address = f"/api/v1/workflows/{order.latest_run.shown_id}/resume"
    accepted = api(ana).post(address, PLAN, format="json")
    assert (accepted.status_code, accepted.json()["status"], accepted.json()["answer"]) == (
        202,
        "running",
        None,
    )
    assert accepted.json()["kept"]["id"].startswith("erl_")
    again = api(ana).post(address, PLAN, format="json")
    assert again.json()["kept"] == accepted.json()["kept"]
    other = api(ana).post(address, {**PLAN, "payload": "cancel"}, format="json")
    assert (other.status_code, other.json()["code"]) == (409, "not_kept")


def test_one_that_does_not_fit_is_refused_and_the_question_refined(order, ana):
    """S3-33: as any answer; it is not tried again."""
    kept = send(
        order.latest_run, ana, node_id="planning", payload={"decision": "revise", **SEEN}
    ).kept
    drive(order)
    sweep()
    sweep()
    kept.refresh_from_db()
    assert (kept.status, "needs feedback" in kept.error) == ("refused", True)
    assert pause_of(order).status == "open"


def sweeps(kept, *statuses):
    """What becomes of it at sweeps, each later than who died with it is waited for."""
    for turn, status in enumerate(statuses, start=1):
        sweep(timezone.now() + turn * 2 * early_answers.STALE)
        kept.refresh_from_db()
        assert kept.status == status, kept.error


def test_one_whose_question_is_claimed_is_given_once_that_is_over(order, ana, ben):
    """P1: it was refused for good, and its sender had been told that it is kept."""
    kept = send(order.latest_run, ana, **PLAN).kept
    drive(order)
    pause = claims.claim(pause_of(order).pk, by=ben)
    sweeps(kept, "taking", "taking")
    assert not Decision.objects.exists()
    claims.release(pause.pk, by=ben)
    sweeps(kept, "taken")
    assert (Decision.objects.get().decided_by, broken()) == (ana, {})


def test_one_whose_question_is_answered_while_it_waits_hears_so(order, ana, ben):
    kept = send(order.latest_run, ana, **PLAN).kept
    drive(order)
    pause = claims.claim(pause_of(order).pk, by=ben)
    sweeps(kept, "taking")
    services.decide(pause.pk, Answer("cancel", Via.PAGE), by=ben)
    sweeps(kept, "refused")
    assert "Ben" in kept.error


def test_one_of_a_later_stage_is_given_at_its_turn(ruled, ana, ben):
    first = {"name": "first", "reviewers": {"users": ["ana"]}}
    last = {"name": "last", "reviewers": {"users": ["ben"]}, "after": ["first"]}
    order = ruled({"stages": [first, last]})
    pause = pause_of(order)
    kept = EarlyAnswer.objects.create(
        thread=order.thread,
        node_id=pause.step,
        event={"payload": "approve", "revision": 1, "content_digest": pause.content_digest},
        by=ben,
        via=Via.REST,
        status="taking",
        pause=pause,
        received_at=pause.opened_at - dt.timedelta(seconds=1),
        expires_at=timezone.now() + dt.timedelta(hours=1),
        changed_at=timezone.now(),
    )
    sweeps(kept, "taking", "taking")
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
    sweeps(kept, "taken")
    assert (Decision.objects.get().action, broken()) == ("approve", {})


def test_one_whose_sender_may_no_longer_answer_is_refused(order, ben, team):
    kept = send(order.latest_run, ben, **PLAN).kept
    ben.groups.remove(team)
    drive(order)
    sweep()
    kept.refresh_from_db()
    assert (kept.status, pause_of(order).status) == ("refused", "open")


def test_one_whose_question_was_answered_first_is_refused_with_the_truth(order, ana, ben):
    kept = send(order.latest_run, ben, **PLAN).kept
    drive(order)
    pause = pause_of(order)
    EarlyAnswer.objects.filter(pk=kept.pk).update(status="taking", pause=pause)
    services.decide(pause.pk, Answer("cancel", Via.PAGE), by=ana)
    kept.refresh_from_db()
    early_answers.give(kept, pause)
    kept.refresh_from_db()
    assert (kept.status, "Ana Ruiz" in kept.error) == ("refused", True)


def test_one_whose_question_never_comes_is_let_go(order, ana):
    kept = send(order.latest_run, ana, **bound("review")).kept
    sweep()
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    sweep()
    kept.refresh_from_db()
    assert kept.status == "expired"
    assert any("never came" in event.data["message"] for event in Event.objects.filter(kind="log"))


@pytest.mark.both_databases
def test_one_that_waited_too_long_is_let_go(order, ana):
    kept = send(order.latest_run, ana, **PLAN).kept
    sweep(timezone.now() + early_answers.kept_for() - dt.timedelta(minutes=1))
    kept.refresh_from_db()
    assert kept.status == "kept"
    sweep(timezone.now() + early_answers.kept_for())
    kept.refresh_from_db()
    assert kept.status == "expired"


@pytest.mark.both_databases
def test_so_many_are_kept_and_no_more(order, ana, monkeypatch):
    monkeypatch.setattr(early_answers, "MOST", 2)
    for step in ("planning", "execute"):
        send(order.latest_run, ana, **bound(step))
    with pytest.raises(early_answers.NotKept, match="2 answers are kept"):
        send(order.latest_run, ana, **bound("review"))
    assert EarlyAnswer.objects.count() == 2


@pytest.mark.both_databases
def test_who_dies_between_binding_and_giving_leaves_one_that_is_given_once(order, ana):
    """Exactly once: bound to its question, it goes to no other, and `decide` takes it once."""
    kept = send(order.latest_run, ana, **PLAN).kept
    drive(order)
    pause = pause_of(order)
    EarlyAnswer.objects.filter(pk=kept.pk).update(
        status="taking", pause=pause, changed_at=timezone.now()
    )
    sweep()
    assert Decision.objects.count() == 0  # it may be at work yet
    sweep(timezone.now() + early_answers.STALE * 2)
    kept.refresh_from_db()
    assert (kept.status, Decision.objects.count()) == ("taken", 1)
    # as if it had died after the decision
    EarlyAnswer.objects.filter(pk=kept.pk).update(status="taking")
    sweep(timezone.now() + early_answers.STALE * 2)
    kept.refresh_from_db()
    assert (kept.status, Decision.objects.count()) == ("taken", 1)


@pytest.mark.both_databases
def test_a_lost_early_answer_is_found_by_the_invariants(order, ana):
    """P2, P3."""
    kept = send(order.latest_run, ana, **PLAN).kept
    drive(order)
    mine = EarlyAnswer.objects.filter(pk=kept.pk)
    for status, code in (("taken", "early_answer_lost"), ("taking", "early_answer_not_given")):
        mine.update(
            status=status,
            pause=pause_of(order),
            changed_at=timezone.now() - dt.timedelta(minutes=2),
        )
        assert [
            (one.invariant.code, one.ids) for one in check(now=timezone.now()) if one.count
        ] == [(code, (kept.shown_id,))]


def test_an_answer_for_another_engines_next_wait_is_taken_when_that_opens(ana):
    """S (F: inngest#1433): the human was faster than the engine."""
    waits.open_wait(waits.WaitRequest(run_id="r", node_id="first", blocking_reason="b"), by=ana)
    assert send("r", ana, node_id="second", payload={"vat": "x"}).kept.status == "kept"
    with pytest.raises(resume.WrongQuestion):
        send("r", ana, input_type="nothing", payload="approve")
    send("r", ana, node_id="first", payload="approve")
    schema = {"type": "object", "properties": {"vat": {"type": "string"}}, "required": ["vat"]}
    wait, new = waits.open_wait(
        waits.WaitRequest(
            run_id="r", node_id="second", blocking_reason="b", required_inputs=schema
        ),
        by=ana,
    )
    found = primitives.of_wait(wait)
    assert (new, found.decision.action, found.state["vat"]) == (True, "answer", "x")
    assert EarlyAnswer.objects.get().status == "taken"


def test_a_kept_answer_is_erased_with_its_thread(order, ana):
    send(order.latest_run, ana, **PLAN)
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    erasure.erase(order.thread_id, by="ana", reason="asked for")
    assert not EarlyAnswer.objects.exists()


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_an_answer_that_comes_while_its_question_opens_is_given_once(file_database, order, ana):
    """The pause commits before, between, or after: one decision each."""
    run = Run.objects.get()
    ended = at_once(
        lambda: advance(run.pk, budget=10),
        *[lambda: send(run, ana, **PLAN)] * 4,
        *[take_early_answers] * 4,
    )
    assert not [one for one in ended if isinstance(one, Exception)], ended
    sweep()
    sweep(timezone.now() + early_answers.STALE * 2)
    assert Decision.objects.count() == 1
    assert set(EarlyAnswer.objects.values_list("status", flat=True)) <= {"taken"}
    assert broken() == {}


@pytest.mark.both_databases
def test_the_same_answer_again_is_the_same_though_its_question_takes_it_at_that_moment(
    order, ana, monkeypatch
):
    """The first was taken before it was looked into."""
    first = send(order.latest_run, ana, **PLAN).kept

    def refused(*args, **kwargs):
        drive(order)
        sweep()
        raise IntegrityError

    monkeypatch.setattr(early_answers, "_keep", refused)
    again = send(order.latest_run, ana, **PLAN).kept
    assert (again.pk, again.status) == (first.pk, "taken")
    assert Decision.objects.count() == 1


@pytest.mark.both_databases
def test_an_answer_that_is_kept_when_its_question_was_just_answered_is_late(
    order, ana, ben, monkeypatch
):
    """F3: the next round gets nothing of it, not by a sweep either."""
    keep = early_answers._keep

    def late(*args, **kwargs):
        drive(order)
        services.decide(pause_of(order).pk, Answer("revise", Via.PAGE, feedback="shorter"), by=ana)
        return keep(*args, **kwargs)

    monkeypatch.setattr(early_answers, "_keep", late)
    # and who kept it died right then
    monkeypatch.setattr(early_answers, "_look", lambda kept: False)
    kept = send(order.latest_run, ben, **PLAN).kept
    monkeypatch.undo()
    drive(order)
    sweep()
    kept.refresh_from_db()
    assert (kept.status, "Ana Ruiz" in kept.error) == ("refused", True)
    assert (pause_of(order).revision, Decision.objects.count()) == (2, 1)


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_a_question_that_opens_while_an_answer_is_kept_is_found_by_who_keeps_it(
    file_database, order, ana, monkeypatch
):
    """The order in which nobody but the keeper can see both: given at once, without a sweep."""
    keep = early_answers._keep

    def late(*args, **kwargs):
        # the question opens after nothing was found open, and before this answer is there
        drive(order)
        return keep(*args, **kwargs)

    monkeypatch.setattr(early_answers, "_keep", late)
    found = send(order.latest_run, ana, **PLAN)
    assert (found.kept.status, Decision.objects.count()) == ("taken", 1)


def test_a_step_at_work_gets_its_answer_kept_too(order, ana):
    """While a worker holds the run: live, and not paused."""
    sent = []
    HOOKS["planning"] = lambda: sent.append(send(order.latest_run, ana, **PLAN).kept)
    drive(order)
    assert [one.status for one in sent] == ["kept"]
    sweep()
    assert fresh(order).status == "pending"


def test_a_verdict_on_what_nobody_has_seen_is_refused_at_every_route(order, ana, api):
    """It closed a question 144 ms after it opened."""
    routes = {
        f"workflows/{order.latest_run.shown_id}/resume": {
            "node_id": "planning",
            "payload": "approve",
        },
        f"workflows/{order.latest_run.shown_id}/resume-and-continue": {"input_type": "approve"},
    }
    for route, body in routes.items():
        refused = api(ana).post(f"/api/v1/{route}", body, format="json")
        assert (refused.status_code, refused.json()["code"]) == (409, "early_verdict"), route
    drive(order)
    sweep()
    assert (EarlyAnswer.objects.count(), pause_of(order).status) == (0, "open")


@pytest.mark.parametrize("changed", [{"revision": 2}, {"content_digest": "0" * 64}])
def test_a_verdict_that_names_its_content_is_given_to_that_alone(order, ana, changed):
    """The thread is told of the answer that was not taken."""
    kept = send(order.latest_run, ana, **{**bound("planning"), **changed}).kept
    drive(order)
    sweep()
    kept.refresh_from_db()
    assert (kept.status, pause_of(order).status, Decision.objects.count()) == ("refused", "open", 0)
    [told] = [
        event.data["message"]
        for event in Event.objects.filter(kind="log")
        if "was not taken" in event.data["message"]
    ]
    assert "An answer of ana that came before its question" in told
    sweep()
    assert Decision.objects.count() == 0


def test_data_that_turn_out_to_be_a_verdict_are_refused_when_the_question_is_there(order_that, ana):
    """At the door they look like data."""
    asks = Ask(
        question="Pay?",
        report=Report(content="To whom?"),
        answers={"approve": "finish"},
        required_inputs=IBAN,
    )
    order = order_that(lambda state, context: asks)
    kept = send(order.latest_run, ana, node_id="execute", payload={"iban": "DE89"}).kept
    drive(order)
    sweep()
    kept.refresh_from_db()
    assert (kept.status, "so nobody can have seen it" in kept.error, pause_of(order).status) == (
        "refused",
        True,
        "open",
    )


def test_a_verdict_on_calls_of_tools_is_never_early(order_that, ana):
    """Nobody has seen what is to be called, though the answer is named as one for data is."""
    call = Call(id="c1", tool="send", arguments={"to": "x"}, risk="low")
    order = order_that(
        lambda state, context: ask_about_calls(state, context, calls=[call]) or Done()
    )
    kept = send(
        order.latest_run, ana, node_id="execute", payload={"calls": {"c1": {"decision": "approve"}}}
    ).kept
    drive(order)
    sweep()
    kept.refresh_from_db()
    assert (kept.status, pause_of(order).status) == ("refused", "open")


def test_the_ledger_says_that_an_answer_came_before_its_question(order_that, ana, api, page):
    """Its receipt said what its sender "was shown"."""
    order = order_that(
        lambda state, context: Ask(
            question="Which?",
            report=Report(content="?"),
            answers={"answer": "finish"},
            required_inputs=IBAN,
        )
    )
    kept = send(order.latest_run, ana, node_id="execute", payload={"iban": "DE89"}).kept
    drive(order)
    sweep()
    decision = Decision.objects.get()
    assert (decision.early_at, decision.signed()["early_at"]) == (
        kept.received_at,
        kept.received_at.astimezone(dt.UTC).isoformat(),
    )
    assert Event.objects.get(kind="approval_received").data["early"] is True
    told = api(ana).get(f"/api/v1/decisions/{decision.shown_id}").json()
    assert (
        told["early_at"] is not None,
        "answered_unseen_at" in told["shown"],
        told["verification"]["holds"],
    ) == (True, True, True)
    receipt = page.get(f"/decisions/{decision.shown_id}/").content.decode()
    assert "This answer came before the question" in receipt and "What was shown" not in receipt
    decision.early_at = None
    assert decision.compute_digest() != decision.digest


def test_an_answer_to_an_open_question_is_no_early_one(order, ana):
    drive(order)
    send(order.latest_run, ana, node_id="planning", payload="approve")
    decision = Decision.objects.get()
    assert (decision.early_at, "early_at" in decision.signed()) == (None, False)
