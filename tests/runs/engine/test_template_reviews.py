"""P6: a review belongs to the template. Whatever a step answers, the run leaves it by the question
of its template; only a declared approval approves; what was never asked is refused.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from hitl.decisions.errors import NotFound
from hitl.decisions.reviewers.policy import NotAllowed
from hitl.models import Decision, Via
from hitl.operations import invariants
from hitl.testing import NotCrashProof, play, survives_every_crash
from runs import definitions
from runs.definitions.errors import TemplateInvalid
from runs.models import Pause
from runs.workflows import (
    Actors,
    Ask,
    Child,
    Done,
    Gather,
    Go,
    Report,
    Review,
    Sleep,
    WorkflowInvalid,
    registry,
    step,
    use,
    workflow,
)
from runs.workflows.sequence import Choice
from tests.worlds import approvals_wanted
from tests.worlds.histories import whole_story

HOUR = dt.timedelta(hours=1)
PAID: list[Any] = []
SHOWN = Report(content="# Pay 100", material={"amount": 100})


class Script:
    """What the steps of these tests do; each test says it anew."""

    draft: Any = staticmethod(lambda state, context: Go(report=SHOWN))
    pay: Any = staticmethod(lambda state, context: pay_approved(context))


def paid():
    PAID.append(100)
    return "paid"


def pay_approved(context, of="yes.draft", **how):
    context.require_approval(of, {"amount": 100}, **how)
    return Done(update={"receipt": context.once("pay", paid)})


@step("yes.draft", asks=True)
def draft(state, context):
    return Script.draft(state, context)


@step("yes.check", asks=True)
def check(state, context):
    return Script.draft(state, context)


@step("yes.between")
def between(state, context):
    return Go()


@step("yes.pay")
def pay(state, context):
    return Script.pay(state, context)


@step("yes.part")
def part(state, context):
    return Go()


def flow(slug="yes", **draft_use):
    return workflow(
        slug,
        title="Yes",
        steps=[use(draft, **draft_use), between, pay],
        reducers={"rounds": "add"},
    )


@pytest.fixture(autouse=True)
def script(monkeypatch):
    PAID.clear()

    def say(**steps):
        for name, function in steps.items():
            monkeypatch.setattr(Script, name, staticmethod(function))

    return say


def broken(run):
    kept = {"P1", "P6", "P11"}  # nobody delivers mails here
    promised = {one.code for one in invariants.INVARIANTS if one.promise in kept}
    with run.engine.placed():
        return whole_story.broken(now=run.engine.now()).keys() & promised


LEAVING = {
    "the next step": lambda context: Go(report=SHOWN),
    "another step": lambda context: Go(to="pay", report=SHOWN),
    "the end": lambda context: Done(update={"ended": True}, report=SHOWN),
    "a timer": lambda context: Sleep(for_=HOUR, report=SHOWN),
    "a timer before another step": lambda context: Sleep(for_=HOUR, to="pay", report=SHOWN),
    "a join": lambda context: Gather(children=[Child(name="a")], to="pay", report=SHOWN),
    "a join of nothing": lambda context: Gather(children=[], to="pay", report=SHOWN),
}


@pytest.mark.parametrize("leaving", LEAVING)
def test_no_answer_of_a_step_leads_past_the_review_of_its_template(script, leaving):
    """Before, `Go(to=…)`, `Done` and `Sleep(to=…)` of a step with `pause_after` went on, and nobody
    was asked: money was paid, the status was completed, and nothing said so.
    """
    script(draft=lambda state, context: LEAVING[leaving](context))
    heads = Review(reviewers=Actors(groups=["heads"]), self_approval=False)
    parted = use(draft, pause_after=True, review=heads, sub_steps=[use(part)])
    run = play(workflow("yes", title="Yes", steps=[parted, between, pay]))
    assert (run.status, PAID) == ("paused", [])
    assert (run.question.step, run.question.content) == ("draft", "# Pay 100")
    assert run.question.answers == ["approve", "revise", "cancel"]
    run.approve()
    if "timer" in leaving:
        assert (run.status, PAID) == ("pending", [])
        run.advance(hours=1, minutes=1)
    assert run.status == "completed"
    assert bool(PAID) == (leaving != "the end")
    assert not broken(run) and not run.unapproved_effects


def test_a_timer_behind_a_review_begins_with_the_approval(script):
    """Sleep(for_=…) counts from the answer, Sleep(until=…) is the moment that it names."""
    script(draft=lambda state, context: Sleep(for_=HOUR, reason="cool down", report=SHOWN))
    run = play(flow(pause_after=True))
    run.advance(hours=5)
    run.approve()
    assert run.status == "pending" and run.wakes_at is not None
    assert run.wakes_at - run.engine.now() > dt.timedelta(minutes=59)
    assert any("Sleeps until" in line and "cool down" in line for line in run.logs)
    then = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    script(draft=lambda state, context: Sleep(until=then, report=SHOWN))
    assert play(flow(pause_after=True)).approve().status == "completed"


def test_a_step_that_goes_to_itself_is_still_at_work_and_is_not_asked(script):
    def loop(state, context):
        if context.loop_num < 3:
            return Go(to=context.step, update={"rounds": 1})
        return Go(to="pay", report=SHOWN)

    script(draft=loop)
    run = play(flow(pause_after=True))
    assert (run.state["rounds"], run.question.step) == (2, "draft")


def test_a_revision_leads_back_and_a_refusal_ends_it_wherever_the_step_wanted_to_go(script):
    script(draft=lambda state, context: Go(to="pay", report=SHOWN))
    run = play(flow(pause_after=True)).revise("cheaper")
    assert (run.question.revision, PAID) == (2, [])
    assert (run.cancel("no").status, PAID) == ("cancelled", [])


def test_a_question_of_the_step_that_nobody_can_approve_does_not_stand_for_its_review(script):
    """A question about data led on to the effect, and the review of the template was forgotten."""
    asked = Ask(question="Where to?", answers={"answer": "pay"}, report=SHOWN)
    script(draft=lambda state, context: asked)
    run = play(flow(pause_after=True))
    assert (run.failure_code, PAID) == ("review_missing", [])

    def back(state, context):
        if not state.get("decided"):
            return Ask(question="Where to?", answers={"answer": "draft"}, report=SHOWN)
        return Go(to="pay", report=SHOWN)

    script(draft=back)
    run = play(flow(pause_after=True)).answer()
    assert (run.question.title, PAID) == ("Approve the result of “Draft”?", [])


PASSING = "the amount is under 200"


def test_a_review_is_passed_where_template_and_step_both_say_so_and_it_is_on_record(script):
    script(draft=lambda state, context: Go(to="pay", report=SHOWN, pass_review="100 is under 200"))
    run = play(flow(pause_after=True, may_pass=PASSING))
    assert (run.status, PAID) == ("completed", [100])
    assert run.decisions == [("draft", "approve", "")]
    with run.engine.placed():
        decision = Decision.objects.get()
        assert (decision.via, decision.decided_by, decision.name) == (
            Via.WORKFLOW,
            None,
            "the workflow",
        )
        assert decision.feedback == "Passed by the workflow: 100 is under 200"
        assert decision.intact and Pause.objects.open().count() == 0
    received = [data for kind, data in run.events if kind == "approval_received"]
    assert [(one["via"], one["by"]) for one in received] == [("workflow", "the workflow")]
    assert not broken(run)


def test_a_step_passes_nothing_that_its_template_does_not_allow(script):
    script(draft=lambda state, context: Done(report=SHOWN, pass_review="I am sure"))
    for run in (play(flow(pause_after=True)), play(flow())):
        assert (run.failure_code, PAID) == ("pass_not_allowed", [])
    script(draft=lambda state, context: Go(to="draft", pass_review="I am sure"))
    assert play(flow(pause_after=True, may_pass=PASSING)).failure_code == "pass_not_allowed"


def test_what_is_of_high_risk_is_never_passed(script):
    for review in (Review(risk="high"), Review(step_up=True)):
        with pytest.raises(WorkflowInvalid, match="may_pass"):
            use(draft, pause_after=True, may_pass=PASSING, review=review)
    risky = Report(content="x", review=Review(risk="high"))
    script(draft=lambda state, context: Go(report=risky, pass_review="I am sure"))
    assert play(flow(pause_after=True, may_pass=PASSING)).failure_code == "pass_not_allowed"


def test_a_step_that_may_pass_and_does_not_is_asked_like_every_other(script):
    run = play(flow(pause_after=True, may_pass=PASSING))
    assert (run.status, run.question.step, PAID) == ("paused", "draft", [])


def test_a_pass_survives_every_crash(script):
    """It is one transaction with the question: nobody sees it open, nothing is passed twice."""
    script(draft=lambda state, context: Go(to="pay", report=SHOWN, pass_review="100 is under 200"))
    assert survives_every_crash(flow(pause_after=True, may_pass=PASSING)).crashes > 5


@pytest.mark.parametrize(
    ("draft_use", "of"), [({}, draft), ({"pause_after": True}, "yes.other_template")]
)
def test_what_was_never_asked_is_refused(script, monkeypatch, draft_use, of):
    """`require_approval` returned silently where no step of that name paused."""
    monkeypatch.setitem(registry._STEPS, "yes.other_template", draft)
    script(pay=lambda state, context: pay_approved(context, of=of))
    run = play(flow(**draft_use))
    if run.questions:
        run.approve()
    assert (run.failure_code, PAID) == ("approval_missing", [])


def test_a_misspelt_step_is_refused_with_the_nearest_name(script):
    """`require_approval("ra.shoow", …)` passed."""
    script(pay=lambda state, context: pay_approved(context, of="yes.draaft"))
    run = play(flow(pause_after=True)).approve()
    assert (run.failure_code, PAID) == ("approval_of_unknown_step", [])
    assert "Did you mean yes.draft" in run.error


def deny(**more) -> Choice:
    return {"name": "deny", "label": "Deny", "to": "pay", **more}  # type: ignore[typeddict-item]


def test_only_an_answer_that_is_declared_an_approval_approves(script):
    """A choice `{"name": "deny", "to": "pay"}` answered deny: it was paid."""
    run = play(flow(pause_after=True, choices=[deny()])).answer("deny")
    assert (run.failure_code, PAID) == ("not_approved", [])
    assert "'deny', which is no approval" in run.error
    run = play(flow(pause_after=True, choices=[deny(approves=True)])).answer("deny")
    assert (run.status, PAID) == ("completed", [100])


@pytest.mark.parametrize(
    ("approves", "ends"),
    [([], ("failed", "not_approved")), (["deny"], ("completed", ""))],
)
def test_a_question_of_a_step_approves_by_its_declared_answers_alone(script, approves, ends):
    """An `Ask` whose answers all lead to the effect: it was done after *deny*, too."""
    answers = {"approve": "pay", "deny": "pay"}
    asked = Ask(question="Pay?", answers=answers, report=SHOWN, approves=approves)
    script(draft=lambda state, context: asked)
    run = play(flow()).answer("deny")
    assert ((run.status, run.failure_code), bool(PAID)) == (ends, ends[0] == "completed")


def test_context_approved_gives_no_answer_that_is_no_approval(script):
    seen = []

    def look(state, context):
        seen.append((context.approved("draft"), context.answered("draft")))
        return Done()

    script(pay=look)
    play(flow(pause_after=True, choices=[deny()])).answer("deny")
    ((approved, answered),) = seen
    assert approved is None and (answered.action, answered.approves) == ("deny", False)


def test_the_latest_question_counts_where_one_function_is_used_twice(script):
    twice = workflow(
        "yes",
        title="Yes",
        steps=[
            use(draft, name="first", pause_after=True),
            use(draft, name="second", pause_after=True, revise_to="pay", choices=[deny()]),
            pay,
        ],
    )
    assert play(twice).approve().answer("deny").failure_code == "not_approved"
    assert play(twice).approve().revise("no").failure_code == "content_changed"
    assert (play(twice).approve().approve().status, PAID) == ("completed", [100])


def test_the_latest_question_counts_where_the_function_asks_itself(script):
    """The second question of one function was sent back, which led on to the effect: the approval
    of the first one counted, and it was paid.
    """

    def ask(state, context):
        to = {"first": "second"}.get(context.step, "pay")
        back = {"first": "first"}.get(context.step, "pay")
        return Ask(question="Pay?", answers={"approve": to, "revise": back}, report=SHOWN)

    script(draft=ask)
    twice = workflow(
        "yes", title="Yes", steps=[use(draft, name="first"), use(draft, name="second"), pay]
    )
    assert (play(twice).approve().revise("no").failure_code, PAID) == ("content_changed", [])
    assert (play(twice).approve().approve().status, PAID) == ("completed", [100])


def test_only_where_the_template_asks_is_said(script):
    script(pay=lambda state, context: pay_approved(context, of=draft, optional=True))
    assert (play(flow()).status, PAID) == ("completed", [100])
    PAID.clear()
    run = play(flow(pause_after=True))
    assert (run.approve().status, PAID) == ("completed", [100])
    run = play(flow(pause_after=True, choices=[deny()])).answer("deny")
    assert run.failure_code == "not_approved"


def test_optional_takes_a_question_about_data_for_no_review(script):
    asked = Ask(question="Where to?", answers={"answer": "pay"}, report=SHOWN)
    script(
        draft=lambda state, context: asked,
        pay=lambda state, context: pay_approved(context, optional=True),
    )
    assert (play(flow()).answer().status, PAID) == ("completed", [100])


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("last", "words"),
    [
        (approvals_wanted.literal, "Did you mean yes.draft"),
        (approvals_wanted.by_function, "never asks in this template"),
    ],
)
def test_an_approval_that_can_never_be_given_is_refused_when_the_workflow_is_loaded(last, words):
    with pytest.raises(TemplateInvalid, match=words):
        load(last)


@pytest.mark.django_db
def test_an_approval_that_is_optional_or_can_be_given_is_loaded():
    load(approvals_wanted.optional)
    load(approvals_wanted.by_function, use(approvals_wanted.first, pause_after=True))


def load(last, middle=approvals_wanted.first):
    declared = workflow("yes-load", title="Yes", steps=[use(draft, pause_after=True), middle, last])
    for slug, kind in declared.step_templates.items():
        definitions.edit_step_template(slug, **kind)
    definitions.edit_template(declared.slug, **declared.template)


def heedless(state, context):
    return Done(update={"receipt": context.once("pay", paid)})


def test_an_effect_behind_a_review_that_relied_on_no_decision_is_told_everywhere(script):
    script(pay=heedless)
    run = play(flow(pause_after=True)).approve()
    assert [(one.step, one.key) for one in run.unapproved_effects] == [("pay", "pay")]
    assert "done_without_a_decision" in broken(run)
    assert any("relied on no decision" in line for line in run.logs)
    with pytest.raises(NotCrashProof, match="pay: pay"):
        survives_every_crash(flow(pause_after=True), answers=["approve"])


def test_an_effect_that_needs_no_approval_says_so(script):
    script(pay=lambda state, context: Done(update={"a": context.once("a", dict, optional=True)}))
    run = play(flow(pause_after=True)).approve()
    assert not run.unapproved_effects and not broken(run)
    script(pay=heedless)
    assert not play(flow()).unapproved_effects  # there is no review to be behind


def test_the_invariants_find_a_step_that_was_left_without_its_question(script, monkeypatch):
    from runs.workflows import sequence

    def conclude(steps, name, outcome, **_):  # as it was
        return Go(update=outcome.update, to=outcome.to or "between")

    script(
        draft=lambda state, context: Go(to="pay"),
        pay=lambda state, context: Done(),
    )
    real = sequence.conclude
    monkeypatch.setattr(
        sequence,
        "conclude",
        lambda steps, name, outcome, **more: (conclude if name == "draft" else real)(
            steps, name, outcome, **more
        ),
    )
    run = play(flow(pause_after=True))
    assert run.done and "left_without_its_question" in broken(run)


def narrowed(**rules):
    return lambda state, context: Go(report=Report(content="x", material={"amount": 100},
                                                   review=rules))  # fmt: skip


HEADS = Review(reviewers=Actors(users=["ana", "ben", "cleo"]))


PEOPLE: dict[str, list[str]] = {name: [] for name in ("ana", "ben", "cleo", "dora")}


def test_a_question_names_fewer_people_than_its_step(script):
    script(draft=narrowed(reviewers={"users": ["ben"]}))
    run = play(flow(pause_after=True, review=HEADS), people=PEOPLE)
    with pytest.raises(NotFound):
        run.approve(by="ana")
    assert (run.approve(by="ben").status, PAID) == ("completed", [100])
    assert not broken(run)


def test_a_question_asks_more_people_and_forbids_self_approval(script):
    script(draft=narrowed(quorum=2, self_approval=False))
    run = play(flow(pause_after=True, review=HEADS), people=PEOPLE)
    assert run.approve(by="ana").status == "paused"
    assert (run.approve(by="ben").status, PAID) == ("completed", [100])
    with run.engine.placed():
        pause = Pause.objects.get()
        assert (pause.review["quorum"], pause.review["self_approval"]) == (2, False)


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ({"quorum": 1}, "review_widened"),
        ({"reviewers": {"groups": ["others"]}}, "review_widened"),
        ({"deadline": {"after": "PT1H"}}, "review_widened"),
        ({"reviewers": {"users": ["dora"]}}, "review_narrowed_wrong"),
        ({"reviewers": {"users": ["nobody"]}}, "review_narrowed_wrong"),
        ({"quorum": 4}, "review_narrowed_wrong"),
    ],
)
def test_a_question_never_widens_the_rules_and_names_nobody_who_is_not_there(script, rules, code):
    script(draft=narrowed(**rules))
    strict = Review(**HEADS, quorum=2, risk="normal", self_approval=False)
    run = play(flow(pause_after=True, review=strict), people=PEOPLE)
    assert (run.status, run.failure_code, PAID) == ("failed", code, [])
    assert "Nothing of this step was recorded" in run.error


@pytest.mark.parametrize(
    ("reviewers", "noun", "near"),
    [({"groups": ["haeds"]}, "group", "heads"), ({"users": ["bne"]}, "person", "ben")],
)
def test_a_question_that_names_nobody_known_says_whom_it_may_have_meant(
    script, reviewers, noun, near
):
    script(draft=narrowed(reviewers=reviewers))
    run = play(flow(pause_after=True), people={"ana": ["heads"], "ben": ["heads"]})
    assert (run.failure_code, PAID) == ("review_narrowed_wrong", [])
    [names] = reviewers.values()
    assert f"no {noun}" in run.error and names[0] in run.error and near in run.error, run.error


def test_who_left_the_group_that_the_template_names_answers_no_more(script):
    """Named by the question, and allowed by the template no more."""
    script(draft=narrowed(reviewers={"users": ["ben"]}))
    review = Review(reviewers=Actors(groups=["heads"]))
    run = play(flow(pause_after=True, review=review), people={"ana": ["heads"], "ben": ["heads"]})
    with run.engine.placed():
        run.engine.person("ben").groups.clear()
    with pytest.raises(NotAllowed):
        run.approve(by="ben")


def test_an_ask_narrows_as_a_report_does(script):
    asked = Ask(
        question="Pay?",
        answers={"approve": "pay"},
        report=SHOWN,
        review={"reviewers": {"users": ["ben"]}},
    )
    script(draft=lambda state, context: asked)
    run = play(flow(review=HEADS), people=PEOPLE)
    with pytest.raises(NotFound):
        run.approve(by="ana")
    assert (run.approve(by="ben").status, PAID) == ("completed", [100])
