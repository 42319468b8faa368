"""The holes in reviews that belong to their template, each put back by taking its guard away."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from hitl.decisions.reviewers import policy
from runs.engine import approvals, questions, record
from runs.workflows import sequence
from runs.workflows.base import Done, Go, Sleep
from runs.workflows.reviews import narrowing
from tests.adversary.holes import Hole, Patch


def ask_only_before_the_next_step(patch: Patch) -> None:
    """A jump, the end, a timer and a question about data lead past the review."""
    real = sequence.conclude

    def conclude(steps: Any, name: str, outcome: Any, **_: Any) -> Any:
        jumps = isinstance(outcome, Done | Sleep) or (
            isinstance(outcome, Go) and outcome.to is not None
        )
        lax: list[Any] = [{**step, "pause_after": False} for step in steps]
        return real(lax if jumps else steps, name, outcome)

    patch.setattr(sequence, "conclude", conclude)
    patch.setattr(sequence, "_check_own_question", lambda step, ask: None)


def require_nothing_of_nobody(patch: Patch) -> None:
    """What was not asked, and what there is not, is taken for what need not be asked."""
    patch.setattr(approvals, "_without_answer", lambda held, of, steps, *, optional: None)
    patch.setattr(
        approvals,
        "_steps_of",
        lambda steps, of: [step for step in steps if of in (step["name"], step["function"])],
    )


def take_every_answer(patch: Patch) -> None:
    patch.setattr(approvals.DecisionRecord, "approves", True)


def let_every_step_pass(patch: Patch) -> None:
    real = approvals._unfounded

    def unfounded(decision: approvals.DecisionRecord, step: Any) -> str:
        return "" if decision.passed else real(decision, step)

    patch.setattr(sequence, "_check_pass", lambda step, to, reason: None)
    patch.setattr(approvals, "_unfounded", unfounded)


def pass_what_is_of_high_risk(patch: Patch) -> None:
    def of_template(ask: Any, review: Any, calls: Any) -> dict[str, Any]:
        lax: Any = {**review, "step_up": False, "risk": "low"}
        return real(ask, lax, [])

    real = questions._of_template
    patch.setattr(questions, "_of_template", of_template)
    let_every_step_pass(patch)


def pass_what_was_edited(patch: Patch) -> None:
    """Whoever may answer a stop, or edit a state, says what passes."""
    patch.setattr(record, "approvals", SimpleNamespace(**{**vars(approvals), "EDITED": "none"}))


def ask_by_the_rules_of_the_template(patch: Patch) -> None:
    """Whatever the question wants, which so asks more people than it named."""
    patch.setattr(narrowing, "narrow", lambda rules, wanted: rules)


def ask_by_the_rules_of_the_question(patch: Patch) -> None:
    def narrow(rules: Mapping[str, Any], wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**rules, **wanted}

    patch.setattr(narrowing, "narrow", narrow)


def ask_whoever_is_named(patch: Patch) -> None:
    """By the question, whether or not the rules of its step name them still."""
    real = policy.ReviewContext._sits

    def sits(context: Any, seat: Any) -> bool:
        rules = context.pause.review
        context.pause.review = {name: rule for name, rule in rules.items() if name != "within"}
        try:
            return real(context, seat)
        finally:
            context.pause.review = rules

    patch.setattr(policy.ReviewContext, "_sits", sits)


def count_earlier_approvals(patch: Patch) -> None:
    """Of steps with one function, that which approved; a revision takes nothing back."""
    real = approvals.answered

    def first(records: Any, *, key: Any) -> Any:
        return min(records, key=lambda name: (not records[name].approves, key(name)))

    def answered(pause: Any, action: str, *args: Any, **more: Any) -> dict[str, Any]:
        kept = real(pause, action, *args, **more)
        named = kept.get(approvals.KEY, {})
        return {approvals.KEY: {step: key for step, key in named.items() if key}} if kept else {}

    patch.setattr(approvals, "max", first, raising=False)
    patch.setattr(approvals, "answered", answered)


def notice_no_effect(patch: Patch) -> None:
    patch.setattr(approvals, "is_behind_review", lambda steps, at: False)


LEFT = frozenset({"left_without_its_question"})
PASSED = frozenset({"passed_unallowed"})
FOR_NOBODY = frozenset({"done_for_nobody", "approved_by_nobody"})
UNTOLD: frozenset[str] = frozenset()

HOLES = [
    Hole(
        "only what goes to the next step is asked",
        ask_only_before_the_next_step,
        ("a_step_leaves_its_review_by_every_way", "a_child_run_ends_without_its_review"),
        LEFT,
    ),
    Hole(
        "what nobody was asked is approved",
        require_nothing_of_nobody,
        ("an_effect_requires_what_nobody_was_asked",),
        UNTOLD,
        seed=6,
    ),
    Hole(
        "every answer is an approval",
        take_every_answer,
        ("a_refusal_leads_on_to_the_effect",),
        UNTOLD,
        seed=4,
    ),
    Hole(
        "steps pass by themselves",
        let_every_step_pass,
        ("a_step_passes_what_its_template_does_not_let_it",),
        PASSED,
    ),
    Hole(
        "what is of high risk is passed",
        pass_what_is_of_high_risk,
        ("a_step_passes_what_its_template_does_not_let_it",),
        PASSED,
        seed=3,
    ),
    Hole(
        "what a person edited is passed",
        pass_what_was_edited,
        ("a_step_passes_what_a_person_wrote_into_its_state",),
        PASSED,
        seed=7,
    ),
    Hole(
        "questions cannot be narrowed",
        ask_by_the_rules_of_the_template,
        ("a_question_asks_others_than_its_template",),
        UNTOLD,
        seed=1,
    ),
    Hole(
        "questions widen their rules",
        ask_by_the_rules_of_the_question,
        ("a_question_asks_others_than_its_template",),
        FOR_NOBODY,
        seed=1,
    ),
    Hole(
        "whoever a question names answers it",
        ask_whoever_is_named,
        ("who_left_the_group_answers_by_name",),
        UNTOLD,
        seed=5,
    ),
    Hole(
        "an earlier approval stands for a later refusal",
        count_earlier_approvals,
        ("an_earlier_approval_stands_for_a_later_refusal",),
        UNTOLD,
        seed=4,
    ),
    Hole(
        "effects without an approval go unnoticed",
        notice_no_effect,
        ("an_effect_behind_a_review_asks_for_no_approval",),
        UNTOLD,
        seed=11,
    ),
]
