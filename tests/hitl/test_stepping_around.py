"""Explicit control of a thread's run (S1-20..22) against the review rules of its steps: who may not approve may not step around either."""

from __future__ import annotations

from typing import Any, cast

import pytest

from checkpoints.models import Checkpoint, Event
from hitl import policy, services, threads
from hitl.models import Via
from runs import definitions, forks
from runs.forks import ReviewStands
from runs.models import Pause, Run
from runs.threads import Turn
from runs.workflows.sequence import FrozenStep
from tests.databases import rows
from tests.ruled import rest
from tests.talking import RAN, drive, say
from tests.talking import give as give
from tests.talking import thread as thread

pytestmark = pytest.mark.django_db

RULES = {"reviewers": {"users": ["ben"]}, "self_approval": False}


@pytest.fixture
def reviewed(thread, give):
    """Ana's thread, whose second step Ben must approve; she was refused."""
    plain: dict[str, Any] = {"step_type": "execute", "step_template_slug": "talk-step"}
    steps = [{**plain, "name": f"step{number}"} for number in (1, 2, 3)]
    steps[1] |= {"pause_after": True, "pause_phase": "awaiting_plan_approval", "review": RULES}
    definitions.edit_template("talk-reviewed", steps=steps, title="Reviewed", needs_repository=False, reducers={"messages": "upsert_by_id"})
    give(template="talk-reviewed", input=say("Hello"))
    return thread


@pytest.fixture
def refused(reviewed, ben):
    services.decide(Pause.objects.get().pk, action="cancel", by=ben, via=Via.PAGE)
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
        "checkpoint, step, input": Turn(checkpoint_id=at(thread, "step1"), resume_from="step3", input=say("mine")),
    }


@pytest.mark.parametrize("how", ["step", "step and input", "step and state", "checkpoint and step", "checkpoint, step, input"])
@pytest.mark.parametrize("who", ["ana", "ben", "admin_user"])
def test_nobody_begins_behind_a_step_that_has_to_be_approved(refused, how, who, request):
    """P6: neither who asked, nor who reviews (the step asks him), nor an administrator."""
    by = request.getfixturevalue(who)
    before = rows()
    with pytest.raises(ReviewStands) as error:
        threads.say(refused.pk, turns(refused)[how], by=by, via=Via.REST)
    assert (error.value.code, "step2" in str(error.value)) == ("review_stands", True)
    assert rows() == before


def test_over_rest_it_is_a_409_with_a_stable_code(refused, ana):
    response = rest(ana).post(f"/api/v1/threads/{refused.shown_id}/runs", {"resume_from": "step3"}, format="json")
    assert (response.status_code, response.json()["code"]) == (409, "review_stands")


@pytest.mark.parametrize(
    "turn", [Turn(resume_from="step1"), Turn(resume_from="step2"), Turn(resume_from="step2", state=say("mine")), Turn(input=say("again"))]
)
def test_at_the_step_or_before_it_a_run_begins_and_the_step_asks_by_its_rules(refused, turn, ana, ben):
    """S1-20..22 hold as they are: what is named is what runs, up to the question."""
    run = drive(threads.say(refused.pk, turn, by=ana, via=Via.REST).run)
    pause = Pause.objects.open().get()
    assert (run.status, pause.step, pause.review) == ("paused", "step2", RULES)
    with pytest.raises(policy.NotAllowed):
        services.decide(pause.pk, action="approve", by=ana, via=Via.PAGE)
    services.decide(pause.pk, action="approve", by=ben, via=Via.PAGE)
    assert drive(run).status == "completed"


def test_a_checkpoint_that_was_written_after_the_approval_is_gone_on_from_as_it_is(reviewed, ana, ben):
    """S0-11, S0-80: what Ben approved, and nothing else; with input of one's own it is another thing."""
    services.decide(Pause.objects.get().pk, action="approve", by=ben, via=Via.PAGE)
    drive(Run.objects.get())
    approved = Checkpoint.objects.get(thread=reviewed, next_step="step3", status="active").pk
    with pytest.raises(ReviewStands):
        threads.say(reviewed.pk, Turn(checkpoint_id=approved, input=say("and mine")), by=ana, via=Via.REST)
    RAN.clear()
    drive(threads.say(reviewed.pk, Turn(checkpoint_id=approved), by=ana, via=Via.REST).run)
    assert RAN == ["step3"]
    assert "began a run at step step3" in str(Event.objects.filter(thread=reviewed).order_by("-seq").values_list("data", flat=True)[:40])


def test_a_fork_keeps_to_it_too(reviewed, ana, ben):
    """An edited state behind the review is nobody's approved one; the approved one may be forked."""
    services.decide(Pause.objects.get().pk, action="approve", by=ben, via=Via.PAGE)
    drive(Run.objects.get())
    approved = Checkpoint.objects.get(thread=reviewed, next_step="step3", status="active")
    with pytest.raises(ReviewStands):
        services.fork(approved.pk, by=ana, reason="mine is better", state=say("mine"))
    services.fork(approved.pk, by=ana, reason="once more")
    with pytest.raises(ReviewStands):
        forks.check_reviews(cast(list[FrozenStep], [{"name": "a", "title": "A", "sub_steps": [{"name": "b", "review": RULES}]}]), "")
