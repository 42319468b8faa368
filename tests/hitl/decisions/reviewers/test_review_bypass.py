"""Explicit control of a thread's run (S1-20..22) against the review rules of its steps: who may not
approve may not step around either.
"""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from django.contrib.auth.models import Permission, User
from django.urls import reverse

from checkpoints import store
from checkpoints.models import Checkpoint, Event
from hitl.decisions import review_bypass, services
from hitl.decisions.reviewers import policy
from hitl.decisions.services import Answer
from hitl.ledger import export, verification
from hitl.models import STEP_AROUND, Decision, Via
from hitl.threads import erasure, messages
from runs import definitions
from runs.models import Pause, Run
from runs.services import forks
from runs.services.forks import ReviewStands
from runs.threads.turns import Turn
from runs.workflows.sequence import FrozenStep
from tests.databases.undone import undone
from tests.databases.whole import rows
from tests.doors.admin import client_of, said
from tests.worlds.histories.whole_story import broken
from tests.worlds.people import hire
from tests.worlds.ruled_order import rest
from tests.worlds.talking_threads import RAN, drive, say
from tests.worlds.talking_threads import give as give
from tests.worlds.talking_threads import thread as thread

pytestmark = pytest.mark.django_db

RULES = {"reviewers": {"users": ["ben"]}, "self_approval": False}


@pytest.fixture
def reviewed(thread, give):
    """Ana's thread, whose second step Ben must approve; she was refused."""
    plain: dict[str, Any] = {"step_type": "execute", "step_template_slug": "talk-step"}
    steps = [{**plain, "name": f"step{number}"} for number in (1, 2, 3)]
    hire(RULES)
    steps[1] |= {"pause_after": True, "pause_phase": "awaiting_plan_approval", "review": RULES}
    definitions.edit_template(
        "talk-reviewed",
        steps=steps,
        title="Reviewed",
        needs_repository=False,
        reducers={"messages": "upsert_by_id"},
    )
    give(template="talk-reviewed", input=say("Hello"))
    return thread


@pytest.fixture
def refused(reviewed, ben):
    services.decide(Pause.objects.get().pk, Answer("cancel", Via.PAGE), by=ben)
    RAN.clear()
    return reviewed


def at(thread, node):
    return Checkpoint.objects.filter(thread=thread, node_id=node).order_by("pk").first().pk


def turns(thread):
    """Every way to name a place behind the review, by what it names."""
    return {
        "step": Turn(resume_from="step3"),
        "step and input": Turn(resume_from="step3", input=say("mine")),
        "step and state": Turn(resume_from="step3", state=say("mine")),
        "checkpoint and step": Turn(checkpoint_id=at(thread, "step1"), resume_from="step3"),
        "checkpoint, step, input": Turn(
            checkpoint_id=at(thread, "step1"), resume_from="step3", input=say("mine")
        ),
    }


def test_nobody_begins_behind_a_step_that_has_to_be_approved(
    refused, ana, ben, admin_user, subtests
):
    """P6: neither who asked, nor who reviews (the step asks him), nor an administrator."""
    before = rows()
    for how in [
        "step",
        "step and input",
        "step and state",
        "checkpoint and step",
        "checkpoint, step, input",
    ]:
        for by in (ana, ben, admin_user):
            with subtests.test(f"{how}, {by}"):
                with pytest.raises(ReviewStands) as error:
                    messages.say(refused.pk, turns(refused)[how], by=by, via=Via.REST)
                assert (error.value.code, "step2" in str(error.value)) == ("review_stands", True)
    assert rows() == before


def test_over_rest_it_is_a_409_with_a_stable_code(refused, ana):
    response = rest(ana).post(
        f"/api/v1/threads/{refused.shown_id}/runs", {"resume_from": "step3"}, format="json"
    )
    assert (response.status_code, response.json()["code"]) == (409, "review_stands")


def test_at_the_step_or_before_it_a_run_begins_and_the_step_asks_by_its_rules(
    refused, ana, ben, subtests
):
    """S1-20..22 hold as they are: what is named is what runs, up to the question."""
    for turn in (
        Turn(resume_from="step1"),
        Turn(resume_from="step2"),
        Turn(resume_from="step2", state=say("mine")),
        Turn(input=say("again")),
    ):
        with subtests.test(turn=turn), undone():
            run = drive(messages.say(refused.pk, turn, by=ana, via=Via.REST).run)
            pause = Pause.objects.open().get()
            assert (run.status, pause.step, pause.review) == ("paused", "step2", RULES)
            with pytest.raises(policy.NotAllowed):
                services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
            services.decide(pause.pk, Answer("approve", Via.PAGE), by=ben)
            assert drive(run).status == "completed"


def test_a_checkpoint_that_was_written_after_the_approval_is_gone_on_from_as_it_is(
    reviewed, ana, ben
):
    """S0-11, S0-80: with input of one's own it is another thing."""
    services.decide(Pause.objects.get().pk, Answer("approve", Via.PAGE), by=ben)
    drive(Run.objects.get())
    approved = Checkpoint.objects.get(thread=reviewed, next_step="step3", status="active").pk
    with pytest.raises(ReviewStands):
        messages.say(
            reviewed.pk, Turn(checkpoint_id=approved, input=say("and mine")), by=ana, via=Via.REST
        )
    RAN.clear()
    drive(messages.say(reviewed.pk, Turn(checkpoint_id=approved), by=ana, via=Via.REST).run)
    assert RAN == ["step3"]
    assert "began a run at step step3" in str(
        Event.objects.filter(thread=reviewed).order_by("-seq").values_list("data", flat=True)[:40]
    )


def test_a_fork_keeps_to_it_too(reviewed, ana, ben):
    """An edited state behind the review is nobody's approved one."""
    services.decide(Pause.objects.get().pk, Answer("approve", Via.PAGE), by=ben)
    drive(Run.objects.get())
    approved = Checkpoint.objects.get(thread=reviewed, next_step="step3", status="active")
    with pytest.raises(ReviewStands):
        services.fork(approved.pk, by=ana, reason="mine is better", state=say("mine"))
    services.fork(approved.pk, by=ana, reason="once more")
    with pytest.raises(ReviewStands):
        forks.check_reviews(
            cast(
                list[FrozenStep],
                [{"name": "a", "title": "A", "sub_steps": [{"name": "b", "review": RULES}]}],
            ),
            "",
        )


@pytest.fixture
def operator(ana):
    """Ana, with the right; nobody's rules name her."""
    ana.user_permissions.add(Permission.objects.get(codename="step_around_review"))
    return User.objects.get(pk=ana.pk)


def test_who_has_the_right_steps_around_a_review_on_the_record(refused, operator, page):
    """S1-20: manual control wins.

    The ledger, the trail and the export name who, why, which review and what it was about.
    """
    asked = Pause.objects.get()
    run = messages.say(
        refused.pk,
        Turn(resume_from="step3", reason="Ben is away", step_around=True),
        by=operator,
        via=Via.REST,
    ).run
    decision = Decision.objects.get(action=STEP_AROUND)
    pause = decision.pause
    assert (decision.decided_by, decision.feedback, decision.via, pause.run, pause.step) == (
        operator,
        "Ben is away",
        "rest",
        run,
        "step2",
    )
    facts = dict(pause.facts)
    assert (
        facts["Last asked at step2"]
        == f"{asked.shown_id}, revision 1, cancelled: {asked.content_digest}"
    )
    assert facts["Begins with the state"] == pause.checkpoint.digest
    assert drive(run).status == "completed" and RAN == ["step3"]
    (told,) = [event.data for event in Event.objects.filter(thread=refused, kind="pause_updated")]
    assert (told["what"], told["by"], told["reason"]) == (
        "stepped_around",
        decision.name,
        "Ben is away",
    )
    assert "bypassed the review of" in page.get(f"/threads/{refused.shown_id}/").content.decode()
    assert "Bypassed" in page.get(f"/decisions/{decision.shown_id}/").content.decode()
    assert [row["action"] for row in map(export.told, export.rows([decision.ledger_id]))] == [
        "cancel",
        STEP_AROUND,
    ]
    assert (list(verification.LedgerCheck().breaches()), broken()) == ([], {})
    erasure.erase(refused.pk, by="admin", reason="asked for")
    assert (list(verification.LedgerCheck().breaches()), broken()) == ([], {})


def test_it_wants_the_right_and_a_reason(refused, operator, ben):
    before = rows()
    with pytest.raises(policy.NotAllowed) as error:
        review_bypass.say(
            refused.pk,
            Turn(resume_from="step3", reason="why not", step_around=True),
            by=ben,
            via=Via.REST,
        )
    assert error.value.code == "step_around_not_allowed"
    with pytest.raises(forks.ReasonMissing):
        review_bypass.say(
            refused.pk,
            Turn(resume_from="step3", reason=" ", step_around=True),
            by=operator,
            via=Via.REST,
        )
    assert rows() == before


def test_over_rest_it_is_the_same(refused, operator, admin_user):
    path = f"/api/v1/threads/{refused.shown_id}/runs"
    body = {"resume_from": "step3", "reason": "Ben is away", "step_around": True}
    silent = rest(operator).post(path, {**body, "reason": ""}, format="json")
    assert (silent.status_code, silent.json()["code"]) == (422, "reason_required")
    operator.user_permissions.clear()
    denied = rest(User.objects.get(pk=operator.pk)).post(path, body, format="json")
    assert (denied.status_code, denied.json()["code"]) == (403, "step_around_not_allowed")
    assert rest(admin_user).post(path, body, format="json").status_code == 201
    assert Decision.objects.get(action=STEP_AROUND).decided_by == admin_user


def test_a_fork_with_an_edited_state_steps_around_on_the_record_too(reviewed, operator, ben):
    services.decide(Pause.objects.get().pk, Answer("approve", Via.PAGE), by=ben)
    drive(Run.objects.get())
    approved = Checkpoint.objects.get(thread=reviewed, next_step="step3", status="active")
    path, body = (
        f"/api/v1/checkpoints/{approved.shown_id}/fork",
        {"reason": "a wrong total", "state": say("mine")},
    )
    assert rest(operator).post(path, body, format="json").json()["code"] == "review_stands"
    assert (
        rest(operator).post(path, {**body, "step_around": True}, format="json").status_code == 201
    )
    decision = Decision.objects.get(action=STEP_AROUND)
    assert (decision.feedback, decision.pause.run.forked_from_id) == ("a wrong total", approved.pk)
    assert broken() == {}


def test_true_is_another_state_than_1(reviewed, operator, ben):
    """To Python they are equal; to who approved, and to the next step, they are not."""
    approved = approved_by(ben, reviewed)
    state = {**store.load(approved), "count": 1}
    edited = review_bypass.fork(approved.pk, by=operator, via=Via.REST, reason="count", state=state)
    first = Checkpoint.objects.get(run_id=edited.pk)
    drive(edited)
    with pytest.raises(ReviewStands):
        services.fork(first.pk, by=operator, reason="now true", state={**state, "count": True})


DESK_RIGHTS = ("view_checkpoint", "change_checkpoint")


def approved_by(ben, thread):
    """The checkpoint behind the review, of a run that was approved and ended."""
    services.decide(Pause.objects.get().pk, Answer("approve", Via.PAGE), by=ben)
    drive(Run.objects.get())
    return Checkpoint.objects.get(thread=thread, next_step="step3", status="active")


@pytest.fixture
def forked(reviewed, ana, ben):
    """`forked(around="why")`: Ana, an operator in the admin, forks the approved checkpoint with a
    state of her own.
    """
    User.objects.filter(pk=ana.pk).update(is_staff=True)
    ana.user_permissions.add(*Permission.objects.filter(codename__in=DESK_RIGHTS))
    door = reverse("admin:checkpoints_checkpoint_fork", args=[approved_by(ben, reviewed).pk])
    client = client_of(ana)

    def post(**fields):
        return client.post(
            door, {"state": json.dumps(say("mine")), "reason": "a wrong total", **fields}
        )

    return post


def test_the_admin_asks_who_may_for_a_reason_of_its_own_and_records_it(forked, operator, page):
    """S1-20, S0-80: first the words on what it means, with all that was typed; then the run, and
    the decision with her name.
    """
    before = rows()
    refused = forked()
    assert (refused.status_code, rows()) == (409, before)
    assert (
        "Reason for bypassing the review" in refused.text and "It approves nothing" in refused.text
    )
    assert "(step2) has rules on who approves it" in refused.text
    kept = refused.context["form"]
    assert ('"mine"' in kept["state"].value(), kept["reason"].value()) == (True, "a wrong total")
    done = forked(around="Ben is away")
    decision = Decision.objects.get(action=STEP_AROUND)
    run = decision.pause.run
    assert (decision.decided_by, decision.feedback, decision.via, run.reason) == (
        operator,
        "Ben is away",
        "admin",
        "a wrong total",
    )
    assert f"recorded as {decision.shown_id}" in said(done)[1][1]
    assert "bypassed the review of" in page.get(f"/threads/{run.thread.shown_id}/").text
    assert (drive(run).status, broken()) == ("completed", {})


@pytest.mark.usefixtures("operator")
def test_without_a_reason_that_can_be_kept_the_admin_records_nothing(forked):
    before = rows()
    for around, words in (
        ("", "Say why."),
        ("  ", "Say why."),
        ("x" * 2_001, "at most 2000"),
        ("a\0b", "Null"),
    ):
        answer = forked(around=around)
        assert answer.status_code in {409, 422}
        assert words in str(answer.context["form"].errors["around"])
        assert (
            'aria-describedby="id_around_helptext id_around_error"' in answer.text
            and 'id="id_around_error"' in answer.text
        )
        assert rows() == before


def test_without_the_right_the_admin_says_who_may(forked):
    before = rows()
    for fields in ({}, {"around": "I say so"}):
        answer = forked(**fields)
        assert answer.status_code == 409
        assert "Can bypass a review" in answer.text and "id_around" not in answer.text
        assert rows() == before


@pytest.mark.usefixtures("operator")
def test_who_takes_the_edit_back_steps_around_nothing(forked):
    state = json.dumps(store.load(Checkpoint.objects.get(next_step="step3", status="active")))
    assert forked(around="not needed any more", state=state).status_code == 302
    assert not Decision.objects.filter(action=STEP_AROUND).exists()


def test_where_nothing_is_stepped_around_nothing_is_recorded(refused, operator):
    review_bypass.say(
        refused.pk,
        Turn(resume_from="step1", reason="from the start", step_around=True),
        by=operator,
        via=Via.REST,
    )
    assert not Decision.objects.filter(action=STEP_AROUND).exists()


@pytest.mark.usefixtures("unguarded")
def test_a_run_behind_a_review_without_its_record_is_found(refused, operator):
    """P6, among the invariants."""
    run = review_bypass.say(
        refused.pk,
        Turn(resume_from="step3", reason="Ben is away", step_around=True),
        by=operator,
        via=Via.REST,
    )
    Decision.objects.filter(action=STEP_AROUND).delete()
    assert broken()["stepped_around_unrecorded"] == [run.shown_id]
