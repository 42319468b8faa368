"""A quorum: so many different people, all of one mind, or the first refusal; and what of it the
ledger holds.
"""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, transaction

from checkpoints.models import Event
from hitl.decisions import services
from hitl.decisions.reviewers import policy
from hitl.decisions.services import Answer
from hitl.decisions.services import pauses as deciding
from hitl.ledger import verification
from hitl.models import Decision, Via, Vote
from hitl.threads import erasure
from runs.models import Pause
from tests.conftest import drive, fresh, kinds, pause_of
from tests.databases.undone import undone
from tests.worlds.histories.whole_story import broken
from tests.worlds.ruled_order import browser, rest
from tests.worlds.ruled_order import ruled as ruled
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db

AMOUNT = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}


@pytest.fixture
def dora(team):
    """A third one in the team."""
    user = User.objects.create_user("dora", first_name="Dora")
    user.groups.add(team)
    return user


def decide(pause, by, action="approve", **kwargs):
    return services.decide(pause.pk, Answer(action, Via.REST, **kwargs), by=by)


@pytest.mark.both_databases
def test_an_approval_is_a_vote_until_there_are_enough_and_each_has_one(ruled, ana, ben):
    """Consensus; what each door says of it: `reviewers/test_policy.py`."""
    pause = pause_of(ruled({"quorum": 2}))
    assert isinstance(decide(pause, ana), Vote)
    pause.refresh_from_db()
    assert (pause.status, pause.approvals, Decision.objects.count()) == ("open", 1, 0)
    with pytest.raises(policy.NotNow, match="You have voted already") as refused:
        decide(pause, ana)
    assert refused.value.code == "already_voted"
    assert isinstance(decide(pause, ben), Decision)
    pause.refresh_from_db()
    assert (pause.status, pause.approvals, Vote.objects.count()) == ("answered", 2, 2)
    assert broken() == {}


@pytest.mark.both_databases
@pytest.mark.parametrize("action", ["cancel", "revise"])
def test_the_first_refusal_decides_alone(ruled, ana, ben, action):
    """First-no-wins; the votes that were there are named by its decision."""
    order = ruled({"quorum": 3})
    vote = decide(pause_of(order), ana)
    decision = decide(pause_of(order), ben, action, feedback="no")
    assert (decision.action, decision.votes) == (action, [vote.digest])
    assert broken() == {}


def test_who_voted_may_still_refuse(ruled, ana):
    pause = pause_of(ruled({"quorum": 2}))
    decide(pause, ana)
    assert decide(pause, ana, "cancel").action == "cancel"


def test_every_answer_that_goes_on_needs_the_quorum_and_the_same_one(ruled, ana, ben, dora):
    """An answer of the template's own is no way around it."""
    pause = pause_of(ruled({"quorum": 2}))
    assert isinstance(decide(pause, ana, "skip"), Vote)
    with pytest.raises(policy.NotNow, match="Ana Ruiz voted for “Go ahead at once”") as refused:
        decide(pause, ben)
    assert refused.value.code == "vote_differs"
    assert decide(pause, dora, "skip").action == "skip"


@pytest.mark.both_databases
def test_a_vote_that_another_one_comes_before_is_held_against_that(ruled, ana, ben, monkeypatch):
    """Between the judgement of an answer and its writing; found by a planted fault."""
    pause, record = pause_of(ruled({"quorum": 2})), deciding._record

    def late(judged):
        monkeypatch.setattr(deciding, "_record", record)
        decide(pause, ana, "skip")
        return record(judged)

    monkeypatch.setattr(deciding, "_record", late)
    with pytest.raises(policy.NotNow) as refused:
        decide(pause, ben)
    assert refused.value.code == "vote_differs"


def test_the_first_vote_brings_the_data_and_the_others_confirm_them(ruled, ana, ben, dora):
    order = ruled({"quorum": 3}, required_inputs=AMOUNT)
    pause = pause_of(order)
    decide(pause, ana, payload={"amount": 7})
    with pytest.raises(policy.NotNow, match="Ana Ruiz voted with other data"):
        decide(pause, ben, payload={"amount": 8})
    decide(pause, ben, payload={"amount": 7})
    decision = decide(pause, dora)  # leaves them out: confirms
    assert decision.payload == {"amount": 7}
    assert state_of(order)["amount"] == 7


def test_the_form_of_who_confirms_begins_with_the_data_of_the_first(ruled, ana, ben):
    order = ruled({"quorum": 2}, required_inputs=AMOUNT)
    decide(pause_of(order), ana, payload={"amount": 4711})
    page = browser(ben).get(f"/work-orders/{order.shown_id}/").content.decode()
    assert 'value="4711"' in page
    assert "All approve the same data" in page


def test_data_that_do_not_fit_are_no_vote(ruled, ana):
    pause = pause_of(ruled({"quorum": 2}, required_inputs=AMOUNT))
    with pytest.raises(services.AnswerInvalid):
        decide(pause, ana, payload={"amount": "seven"})
    assert not Vote.objects.exists()


def test_a_vote_on_an_outdated_revision_is_refused(ruled, ana, ben):
    """F16."""
    order = ruled({"quorum": 2})
    decide(pause_of(order), ana)
    decide(pause_of(order), ben, "revise", feedback="shorter")
    drive(order)
    with pytest.raises(services.RevisionMismatch):
        decide(pause_of(order), ana, revision=1)
    assert pause_of(order).approvals == 0  # a new revision begins to count anew
    assert Vote.objects.count() == 1


def test_the_api_answers_a_vote_with_202_and_the_count(ruled, ana, ben):
    order = ruled({"quorum": 2})
    response = rest(ana).post(
        f"/api/v1/work-orders/{order.shown_id}/resume", {"decision": "approve"}, format="json"
    )
    assert response.status_code == 202
    assert {key: response.json()[key] for key in ("success", "decided", "votes", "quorum")} == {
        "success": True, "decided": False, "votes": 1, "quorum": 2,
    }  # fmt: skip
    review = rest(ben).get(f"/api/v1/work-orders/{order.shown_id}/pause-state").json()["review"]
    assert [(vote["by"], vote["action"]) for vote in review["votes"]] == [("ana", "approve")]


def test_the_page_says_who_voted_and_what_is_missing(ruled, ana, ben):
    order = ruled({"quorum": 2})
    pause = pause_of(order)
    answered = browser(ana).post(
        f"/pauses/{pause.shown_id}/decide", {"action": "approve"}, follow=True
    )
    page = answered.content.decode()
    assert "Your vote is recorded: 1 of 2 approvals; the question stays open." in page
    assert "You have voted already; 1 of 2 approvals." in page
    assert "Ana Ruiz voted" in browser(ben).get(
        f"/work-orders/{order.shown_id}/"
    ).content.decode().replace("\n", "")


def test_a_vote_is_told_in_the_log_and_the_decision_says_how_many(ruled, ana, ben):
    order = ruled({"quorum": 2})
    decide(pause_of(order), ana, feedback="good")
    told = Event.objects.get(kind="pause_updated").data
    assert (told["what"], told["by"], told["votes"], told["quorum"]) == ("voted", "Ana Ruiz", 1, 2)
    decide(pause_of(order), ben)
    assert Event.objects.get(kind="approval_received").data["votes"] == 2
    assert kinds(order).count("approval_received") == 1
    assert fresh(order).status == "pending"


@pytest.mark.both_databases
def test_the_database_lets_nobody_change_a_vote(ruled, ana):
    """P11."""
    decide(pause_of(ruled({"quorum": 2})), ana)
    for change in (lambda: Vote.objects.update(feedback="x"), lambda: Vote.objects.all().delete()):
        with pytest.raises(DatabaseError), transaction.atomic():
            change()
    assert Vote.objects.count() == 1


@pytest.mark.both_databases
@pytest.mark.usefixtures("unguarded")
def test_the_ledger_covers_the_votes(ruled, ana, ben):
    """P11: also against one that is taken out of the decision."""
    order = ruled({"quorum": 2})
    decide(pause_of(order), ana)
    decision = decide(pause_of(order), ben)
    assert decision.votes == list(Vote.objects.order_by("pk").values_list("digest", flat=True))
    assert decision.intact
    decision.votes = decision.votes[:1]
    assert not decision.intact
    Vote.objects.filter(voter=ana).update(feedback="I never said so")
    assert list(broken()) == ["vote_rewritten"]
    assert {breach.code for breach in verification.LedgerCheck().breaches()} == {
        "unguarded",
        "vote_rewritten",
    }
    Vote.objects.filter(voter=ana).delete()
    assert {breach.code for breach in verification.LedgerCheck().breaches()} == {
        "unguarded",
        "vote_missing",
    }


@pytest.mark.both_databases
@pytest.mark.usefixtures("unguarded")
def test_each_damage_is_found_by_name(ruled, ana, ben, dora):
    order = ruled({"quorum": 2, "self_approval": False})
    decide(pause_of(order), ben)
    decide(pause_of(order), dora)
    assert broken() == {}
    for damage, codes in (
        (
            lambda: Vote.objects.order_by("pk").first().delete(),
            {"votes_miscounted", "approved_without_quorum", "vote_rewritten", "approved_by_nobody"},
        ),
        (lambda: Pause.objects.update(approvals=1), {"votes_miscounted"}),
        (
            lambda: Decision.objects.update(decided_by=ana),
            {"approved_by_asker", "ledger_rewritten"},
        ),
    ):
        with undone():
            damage()
            assert set(broken()) == codes


@pytest.mark.both_databases
@pytest.mark.usefixtures("unguarded")
def test_a_decision_of_the_rules_themselves_needs_no_votes(ruled, ana, ben):
    """At a deadline the template may say approve: nobody voted, and that is no damage."""
    order = ruled({"quorum": 2})
    decide(pause_of(order), ana)
    decide(pause_of(order), ben)
    Vote.objects.all().delete()
    assert "approved_without_quorum" in broken()
    Decision.objects.update(via=Via.POLICY, decided_by=None)
    assert "approved_without_quorum" not in broken()


@pytest.mark.both_databases
def test_an_erased_thread_takes_its_votes_along(ruled, ana, ben):
    order = ruled({"quorum": 2})
    decide(pause_of(order), ana)
    decide(pause_of(order), ben, "cancel")
    erasure.erase(order.thread_id, by="root", reason="asked for")
    assert not Vote.objects.exists()
    assert Decision.objects.get().intact
    assert broken() == {}
