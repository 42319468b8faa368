"""Stages of a review as an author writes them: what is refused, and what they are played like."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from hitl.decisions.reviewers import policy
from hitl.testing import play, survives_every_crash
from runs import definitions
from runs.definitions.errors import TemplateInvalid
from runs.workflows import (
    Actors,
    Ask,
    Done,
    Go,
    Report,
    Review,
    ReviewStage,
    WorkflowInvalid,
    schema_of,
    step,
    use,
    workflow,
)
from runs.workflows.refusals import FieldRefused
from runs.workflows.reviews import stages

ANA, BEN, CLEO = ({"users": [name]} for name in ("ana", "ben", "cleo"))


def rules(*given):
    return {"stages": [{"name": name, **more} for name, more in given]}


@pytest.mark.parametrize(
    ("review", "field"),
    [
        (rules(("a", {"reviewers": ANA})), "stages"),
        ({**rules(("a", {"reviewers": ANA}), ("b", {"reviewers": BEN})), "quorum": 2}, "quorum"),
        (
            {**rules(("a", {"reviewers": ANA}), ("b", {"reviewers": BEN})), "reviewers": CLEO},
            "reviewers",
        ),
        (rules(("a", {"reviewers": ANA}), ("a", {"reviewers": BEN})), "stages.1.name"),
        (rules(("a", {"reviewers": ANA}), ("b", {})), "stages.1.reviewers"),
        (rules(("a", {"reviewers": ANA}), ("b", {"reviewer": BEN})), "stages.1"),
        (rules(("a", {"reviewers": ANA}), ("B", {"reviewers": BEN})), "stages.1.name"),
        (
            rules(("a", {"reviewers": ANA}), ("b", {"reviewers": BEN, "after": ["c"]})),
            "stages.1.after.0",
        ),
        (
            rules(
                ("a", {"reviewers": ANA, "after": ["b"]}),
                ("b", {"reviewers": BEN, "after": ["a"]}),
            ),
            "stages.0.after",
        ),
        (
            rules(("a", {"reviewers": ANA, "after": ["a"]}), ("b", {"reviewers": BEN})),
            "stages.0.after",
        ),
        (rules(("a", {"reviewers": ANA}), ("b", {"reviewers": ANA})), "stages.1.reviewers"),
        (
            rules(("a", {"reviewers": ANA, "quorum": 2}), ("b", {"reviewers": BEN})),
            "stages.0.reviewers",
        ),
        (rules(("a", {"reviewers": ANA}), ("b", {"external": ["no address"]})), "external"),
    ],
)
def test_stages_that_could_never_be_complete_are_refused_at_their_field(review, field):
    with pytest.raises(WorkflowInvalid, match=f"review.{field}:"):
        use("deliver", review=review)


def test_data_that_no_stage_brings_are_refused():
    review = rules(("a", {"reviewers": ANA}), ("b", {"reviewers": BEN}))
    wanted = {"type": "object", "properties": {"c": {"type": "string"}}}
    with pytest.raises(FieldRefused, match='There is no stage "c"'):
        stages.check_inputs(wanted, review)
    with pytest.raises(FieldRefused, match="anyOf stands within the property of a stage"):
        stages.check_inputs({"type": "object", "anyOf": []}, review)


@pytest.mark.django_db
def test_people_whom_nobody_knows_are_refused_when_the_template_is_saved(templates):
    review = rules(("a", {"reviewers": {"users": ["nobody"]}}), ("b", {"external": ["a@b.org"]}))
    steps = [
        {
            "step_type": "planning",
            "step_template_slug": "test-plan",
            "pause_phase": "awaiting_plan_approval",
            "pause_after": True,
            "review": review,
        }
    ]
    with pytest.raises(TemplateInvalid) as refused:
        definitions.edit_template("x", steps=steps, title="X", needs_repository=False)
    assert list(refused.value.errors) == ["steps.0.review.stages.0.reviewers.users"]


class Terms(BaseModel):
    clause: str


class Budget(BaseModel):
    amount: int


class Asked(BaseModel):
    legal: Terms
    cfo: Budget


REVIEW = Review(
    self_approval=False,
    stages=[
        ReviewStage(name="legal", reviewers=Actors(groups=["lawyers"]), quorum=2),
        ReviewStage(name="finance", reviewers=Actors(users=["fin"])),
        ReviewStage(name="cfo", reviewers=Actors(users=["carl"]), after=["legal", "finance"]),
    ],
)


@step("contract.draft")
def draft(state, context):
    text = f"Contract. {state.get('revision_feedback', '')}".strip()
    return Go(update={"text": text}, report=Report(content=text, material=text))


@step("contract.sign")
def sign(state, context):
    context.require_approval("contract.draft", state["text"])
    signed = context.once("sign", lambda: [state["legal"]["clause"], state["cfo"]["amount"]])
    return Done(update={"signed": signed})


contract = workflow(
    "contract",
    title="Contract",
    steps=[use(draft, pause_after=True, required_inputs=Asked, review=REVIEW), sign],
)


def names(run):
    return [(stage.name, stage.status, stage.approvals) for stage in run.question.stages]


def test_a_declared_workflow_is_played_stage_by_stage():
    run = play(contract)
    assert names(run) == [("legal", "open", 0), ("finance", "open", 0), ("cfo", "waiting", 0)]
    run.approve(legal={"clause": "7b"})
    run.approve(stage="finance")
    with pytest.raises(policy.NotNow, match="It is not your turn yet: Cfo"):
        run.approve(by="carl", cfo={"amount": 90})
    run.approve(stage="legal")
    assert names(run) == [("legal", "complete", 2), ("finance", "complete", 1), ("cfo", "open", 0)]
    run.approve(by="carl", cfo={"amount": 90})
    assert run.done
    assert run.state["signed"] == ["7b", 90]


def test_a_revision_in_one_stage_asks_all_of_them_again():
    run = play(contract)
    run.approve(legal={"clause": "7b"})
    run.revise("Name the price", by="fin")
    assert run.question.content == "Contract. Name the price"
    assert names(run) == [("legal", "open", 0), ("finance", "open", 0), ("cfo", "waiting", 0)]


def test_a_review_in_stages_outlives_every_crash():
    survives_every_crash(
        contract,
        answers=[
            lambda run: run.approve(legal={"clause": "7b"}),
            "approve",
            "approve",
            lambda run: run.approve(cfo={"amount": 90}),
        ],
    )


@step("contract.ask", asks=True)
def ask_all(state, context):
    if "legal" in state:
        return Done()
    return Ask(
        question="Is this contract fine?",
        answers={"approve": "ask_all", "revise": "ask_all"},
        report=Report(content="Contract"),
        required_inputs=schema_of(Asked),
        known={"cfo": {"amount": 5}},
    )


def test_a_step_that_asks_by_itself_asks_each_stage_for_its_part():
    asking = workflow("asking", title="Asking", steps=[use(ask_all, name="ask_all", review=REVIEW)])
    run = play(asking)
    run.approve(legal={"clause": "7"})
    run.approve(stage="legal")
    run.approve(stage="finance")
    run.approve(cfo={"amount": 5})
    assert run.done
    assert (run.state["legal"], run.state["cfo"]) == ({"clause": "7"}, {"amount": 5})


@step("contract.wrong", asks=True)
def ask_wrongly(state, context):
    return Ask(
        question="Fine?",
        answers={"approve": ""},
        report=Report(content="Contract"),
        required_inputs=schema_of(Terms),
    )


def test_a_step_that_asks_for_what_no_stage_brings_fails_and_says_so():
    wrong = workflow("wrong", title="Wrong", steps=[use(ask_wrongly, review=REVIEW)])
    run = play(wrong)
    assert (run.failed, run.failure_code) == (True, "stages_invalid")
    assert 'There is no stage "clause"' in run.error
