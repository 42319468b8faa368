"""A template's ordered steps: which comes next, and where a person is asked.

Pure functions over the frozen definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NotRequired, TypedDict

from runs.workflows import text
from runs.workflows.base import Ask, Done, Gather, Go, Outcome, Report, Sleep, StepFailed
from runs.workflows.reviews.review import Review

APPROVE = "approve"
"""Name of the answer that approves."""
REVISE = "revise"
"""Name of the answer that sends back with words."""
CANCEL = "cancel"
"""Name of the answer that ends the run."""

PHASES = {
    "planning": "planning",
    "execute": "executing",
    "review": "reviewing",
    "deliver": "reviewing",
}
"""What the page calls the time in which a step of this type works."""

HEADINGS = {
    "awaiting_plan_approval": "Waiting for Plan Approval",
    "awaiting_implementation_review": "Waiting for Implementation Review",
    "awaiting_review_decision": "Waiting for Review Decision",
}


class Choice(TypedDict):
    """An answer that the template offers beyond approve, revise and cancel."""

    name: str
    label: str
    """The text of its button."""
    to: str
    """The step it leads to."""
    approves: NotRequired[bool]
    """Whether it is an approval, as `approve` is; it is none where this says nothing."""


class Retry(TypedDict):
    """How a failing step is tried again."""

    attempts: int
    """Tries in all, from 1: no second one."""
    base: float
    """Seconds before the first retry at most; doubles with each."""
    cap: float
    """Seconds before any retry at most."""
    errors: list[str]
    """Codes of `StepFailed` or names of exception classes that are worth another try; `*` is
    any.
    """


class FrozenStep(TypedDict):
    """One step of a work order, as it was when the order was made."""

    name: str
    step_type: str
    title: str
    step_template_slug: str
    step_template_version: int
    function: str
    function_version: NotRequired[int]
    """Which version of the function, where the code had more than one; else 1."""
    config: dict[str, object]
    pause_after: bool
    question: NotRequired[str]
    """What is asked after the step, with `{names}` of facts and of the input."""
    may_pass: NotRequired[str]
    """When the step may pass its review by itself, in words; it may not where this says nothing."""
    pause_phase: str
    revise_to: str
    choices: list[Choice]
    max_revisions: int
    retry: NotRequired[Retry]
    timeout: NotRequired[float | None]
    """Seconds one try may take; None is the usual limit (`runs.engine.time_limit.limit_of`)."""
    skip_when: NotRequired[dict[str, object] | None]
    """JSON Schema: the step is passed over when the state fits it."""
    max_loops: NotRequired[int]
    """How often the step may run in one run."""
    only_on: NotRequired[str]
    """`on_cancel` or `on_expire`: it is none of the sequence, and begins once the run has ended
    so.
    """
    on_failure: NotRequired[str]
    """The step that a run goes to where this one failed for good; else the run fails."""
    effects: NotRequired[list[str]]
    required_inputs: NotRequired[dict[str, Any]]
    """JSON Schema of what must come with the answer where the template pauses after this step."""
    review: NotRequired[Review]
    """Who answers what this step asks, by when and how; {} where whoever sees it may, at any
    time.
    """
    queue: NotRequired[str]
    """Which workers take it: "steps" where it says nothing."""
    on_change: NotRequired[str]
    """What a run does whose code of this step has changed: "continue" and say so, or "hold" for an
    operator; else WAYSTATION_ON_CHANGE.
    """
    interrupt_before: NotRequired[bool]
    """Asks before the step begins, in every run of this template."""
    interrupt_after: NotRequired[bool]
    sub_steps: NotRequired[list[FrozenStep]]
    """What its child runs may take."""
    fingerprint: NotRequired[str]
    """What the step function did when the order was made; missing or "" where that is not known."""


DEFAULT_QUEUE = "steps"
ON_CANCEL, ON_EXPIRE = "on_cancel", "on_expire"
ENDINGS = (ON_CANCEL, ON_EXPIRE)
"""The ends that a step of its own may follow; its run is called so, and no other child run is."""
ENDING_SECONDS = 300.0
"""What one try of such a step may take where it names no `timeout`."""


def queue_of(steps: Sequence[FrozenStep], name: str) -> str:
    """The queue of the step of that name; the usual one where there is none (a run that only has to
    end).
    """
    return next(
        (step.get("queue", DEFAULT_QUEUE) for step in steps if step["name"] == name), DEFAULT_QUEUE
    )


class UnknownName(Exception):
    """A checkpoint names a step that its definition does not have."""


def named(steps: Sequence[FrozenStep], name: str) -> FrozenStep:
    for step in steps:
        if step["name"] == name:
            return step
    raise UnknownName(f"the definition has no step {name!r}")


def stops(steps: Sequence[FrozenStep]) -> set[str]:
    """What `interrupt_before` and `interrupt_after` may name: steps, and as `step/sub-step` those
    that child runs take, at any depth.
    """
    names = set()
    for step in steps:
        names |= {
            step["name"],
            *(f"{step['name']}/{inner}" for inner in stops(step.get("sub_steps", []))),
        }
    return names


def stops_within(names: Sequence[str], step: str) -> list[str]:
    """Those of `names` that lie below `step`, as its child runs call them."""
    return [name.removeprefix(f"{step}/") for name in names if name.startswith(f"{step}/")]


def following(steps: Sequence[FrozenStep], name: str) -> str:
    """The name of the step after `name`; "" after the last."""
    names = [step["name"] for step in steps]
    position = names.index(named(steps, name)["name"]) + 1
    return names[position] if position < len(names) else ""


def retry_delay(attempt: int, *, base: float = 2.0, cap: float = 300.0, jitter: float) -> float:
    """Seconds to wait before try number `attempt + 1`: `jitter * min(cap, base * 2 ** (attempt -
    1))`.

    Args:
        attempt: tries that failed, from 1.
        base, cap: seconds, `0 < base <= cap`.
        jitter: in `[0, 1)`, passed in so that a test needs no dice.
    Raises:
        ValueError: `attempt` is below 1.
    Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015 ("full
    jitter").
    """
    if attempt < 1:
        raise ValueError(f"attempt {attempt} is below 1")
    return jitter * min(cap, base * 2.0 ** min(attempt - 1, 60))


def worth_retrying(retry: Retry | None, error: Exception, attempts: int) -> bool:
    """Whether a step that has failed `attempts` times is tried again after this error."""
    if retry is None or attempts >= retry["attempts"]:
        return False
    names = {kind.__name__ for kind in type(error).__mro__} | {str(getattr(error, "code", ""))}
    return "*" in retry["errors"] or bool(names & set(retry["errors"]))


def completed(steps: Sequence[FrozenStep], next_step: str) -> int:
    """How many steps lie before `next_step`; all of them where nothing follows."""
    names = [step["name"] for step in steps]
    return names.index(next_step) if next_step in names else len(names)


def asks_after(step: FrozenStep, phase: str | None) -> bool:
    """Whether a question of this phase is the pause after the step, and not one that the step
    itself asked before it was done.
    """
    return step["pause_after"] and phase == step["pause_phase"]


def pause_title(step: FrozenStep) -> str:
    """The pause after a step, as progress and ends name it."""
    return HEADINGS.get(step["pause_phase"], "Answer").removeprefix("Waiting for ")


def place_in(steps: Sequence[FrozenStep], name: str, phase: str | None) -> str:
    """Where work stands, in words: the pause after a step where `phase` is of that question, else
    the step; an unknown name as it is.
    """
    step = next((step for step in steps if step["name"] == name), None)
    if step is None:
        return name
    return pause_title(step) if asks_after(step, phase) else step["title"]


def phase_of(step_type: str) -> str:
    return PHASES.get(step_type, "executing")


@dataclass(frozen=True, kw_only=True)
class StepReview(Ask):
    """What the template asks after a step: whether the run may go where the step wants to."""

    then: Sleep | None = None
    """The timer that an approval leads to."""
    passes: str = ""
    """Why nobody has to be asked, in the step's words: the workflow approves at once."""


def approving(ask: Ask) -> list[str]:
    """The answers to a question that are approvals."""
    return [action for action in ask.answers if action == APPROVE or action in ask.approves]


def conclude(
    steps: Sequence[FrozenStep],
    name: str,
    outcome: Outcome,
    *,
    given: Mapping[str, Any] | None = None,
) -> Outcome:
    """What a step's outcome means in this template: a pause where the template asks for one, an end
    after the last step. `given` is the order's input, for the words of its question.

    The pause belongs to the template. Whatever the step answers, the run leaves a step with
    `pause_after` by its question alone. A step that goes to itself has not left. Raises StepFailed
    for what would lead past the question, or nowhere.
    """
    if isinstance(outcome, Gather) and not outcome.children:
        outcome = Go(
            update=outcome.update, to=outcome.to, report=outcome.report, commit=outcome.commit
        )
    if isinstance(outcome, Ask):
        _check_own_question(named(steps, name), outcome)
    if not isinstance(outcome, Go | Done | Sleep):
        return outcome
    step = named(steps, name)
    if isinstance(outcome, Done):
        to = ""
    else:
        to = following(steps, name) if outcome.to is None else outcome.to
    if isinstance(outcome, Sleep) and not to:
        raise _refused(step, "sleeps, but no step follows it.", "sleep_misplaced")
    if outcome.pass_review:
        _check_pass(step, to, outcome.pass_review)
    if to != name and (step["pause_after"] or outcome.pass_review):
        return _review(step, to, outcome, given or {})
    if isinstance(outcome, Sleep):
        return replace(outcome, to=to)
    if not to:
        return Done(update=outcome.update, commit=outcome.commit, report=outcome.report)
    if isinstance(outcome, Go):
        return replace(outcome, to=to, pass_review="")
    return Go(update=outcome.update, to=to, report=outcome.report, commit=outcome.commit)


def _review(
    step: FrozenStep, to: str, outcome: Go | Done | Sleep, given: Mapping[str, Any]
) -> StepReview:
    """The template's question after a step that wants to go to the step `to`; "" is the end."""
    report = outcome.report or Report(content=f"{step['title']} is done.")
    choices = step["choices"]
    return StepReview(
        question=_question(step, report, given),
        answers={
            APPROVE: to,
            REVISE: step["revise_to"],
            **{choice["name"]: choice["to"] for choice in choices},
        },
        labels={choice["name"]: choice["label"] for choice in choices},
        approves=[choice["name"] for choice in choices if choice.get("approves")],
        report=report,
        review=getattr(report, "review", None),  # what is no report is refused later
        update=outcome.update,
        max_revisions=step["max_revisions"],
        phase=step["pause_phase"],
        required_inputs=step.get("required_inputs", {}),
        commit=outcome.commit,
        then=outcome if isinstance(outcome, Sleep) else None,
        passes=outcome.pass_review,
    )


def _question(step: FrozenStep, report: Report, given: Mapping[str, Any]) -> str:
    """What is asked after a step: as the template says, else as the report does, else as usual."""
    if words := step.get("question"):
        return text.filled(words, getattr(report, "facts", {}), given)
    title = getattr(report, "title", "")
    usual = f"Approve the result of “{step['title']}”?"
    return title or HEADINGS.get(step["pause_phase"], usual)


def _check_pass(step: FrozenStep, to: str, reason: object) -> None:
    if not isinstance(reason, str):
        raise _refused(step, "gives a `pass_review` that is no text.", "answer_invalid")
    if to == step["name"]:
        raise _refused(
            step, "passes its review and goes to itself: it is still at work.", "pass_not_allowed"
        )
    if not step.get("may_pass"):
        raise _refused(
            step,
            "wants to pass its review, and its template does not allow that: `may_pass` of the"
            " step would say when.",
            "pass_not_allowed",
        )


def _check_own_question(step: FrozenStep, ask: Ask) -> None:
    """Raise StepFailed where the answer to a step's own question would leave the step without the
    review that its template demands: a question which no answer approves is no review.
    """
    if not step["pause_after"] or not isinstance(ask.answers, Mapping) or approving(ask):
        return
    past = sorted(
        f"{action!r} to {to or 'the end'}"
        for action, to in ask.answers.items()
        if to != step["name"] and action not in {REVISE, CANCEL}
    )
    if past:
        raise _refused(
            step,
            "asks a question that leads past the review which its template demands: "
            f"{', '.join(past)}. Lead back to the step, which is reviewed when it is done, or"
            " name the answer that is an approval in `approves`.",
            "review_missing",
        )


def _refused(step: FrozenStep, what: str, code: str) -> StepFailed:
    return StepFailed(
        f"The step {step['title']} {what} Nothing of this step was recorded.", code=code
    )
