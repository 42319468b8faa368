"""Where a run stops or passes over a step though the step itself did not ask: interrupts,
suspension, conditions, loop limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runs.engine import questions
from runs.engine.questions import CheckedAsk
from runs.models import Run
from runs.states import AFTER, BEFORE, SUSPENDED
from runs.workflows import schemas, sequence
from runs.workflows.base import Ask, Done, Gather, Go, Report, Sleep, StepFailed
from runs.workflows.registry import traits_of
from runs.workflows.reviews import rules
from runs.workflows.sequence import APPROVE, FrozenStep, StepReview

MAX_LOOPS = 100
AGENT_LOOPS = 500
"""Of a step that may be an agent's: all its rounds in one run together, each of which has a limit
of its own.
"""
LOOP_LIMIT = "loop_limit"
LONGEST = 300
"""Characters of a question."""


def asks_before(run: Run, step: FrozenStep) -> bool:
    """Whether this run, or its template, wants to be asked before the step."""
    return step["name"] in run.interrupt_before or step.get("interrupt_before", False)


def before(step: FrozenStep) -> CheckedAsk:
    """Asked before a step that this run is to be asked about."""
    report = Report(
        content=f"The run stops here before **{step['title']}** begins. Approve to let it begin."
    )
    ask = Ask(
        question=f"Waiting before {step['title']}",
        answers={APPROVE: step["name"]},
        report=report,
        phase=BEFORE,
    )
    return questions.parse(ask, rules.of(step))


def after(
    run: Run, step: FrozenStep, outcome: Go | Done | Gather | Sleep | CheckedAsk
) -> Go | Done | Gather | Sleep | CheckedAsk:
    """Asked after a step that this run is to be asked about, or within it before what comes next or
    after what has ended; what asks itself stays.
    """
    if isinstance(outcome, Go) and (outcome.stop or outcome.stop_after):
        place = f"before {outcome.stop}" if outcome.stop else f"after {outcome.stop_after}"
        question = f"Waiting {place} in {step['title']}"
        stop = _stop(step, outcome, question=question[:LONGEST], phase=AFTER)
        return questions.parse(stop, rules.of(step))
    if not isinstance(outcome, Go | Done | Sleep) or not (
        step["name"] in run.interrupt_after or step.get("interrupt_after", False)
    ):
        return outcome
    ask = _stop(step, outcome, question=f"Waiting after {step['title']}", phase=AFTER)
    return questions.parse(ask, rules.of(step))


def suspended(step: FrozenStep, outcome: Go, *, by: str) -> CheckedAsk:
    """The stop at a step boundary that a person wanted: no rule of the step's is about it. `by`
    names them, with their reason.
    """
    question = f"Suspended by {by}"
    question = question if len(question) <= LONGEST else f"{question[: LONGEST - 1]}…"
    return questions.parse(_stop(step, outcome, question=question, phase=SUSPENDED), {})


def _stop(step: FrozenStep, outcome: Go | Done | Sleep, *, question: str, phase: str) -> Ask:
    to = "" if isinstance(outcome, Done) else outcome.to or ""
    shown = outcome.report or Report(content=f"**{step['title']}** is done. Approve to go on.")
    return StepReview(
        question=question,
        answers={APPROVE: to},
        report=replace(shown, review=None),  # that is about the review of the step
        update=outcome.update,
        phase=phase,
        commit=outcome.commit,
        then=outcome if isinstance(outcome, Sleep) else None,
    )


def skips(step: FrozenStep, state: dict[str, Any]) -> bool:
    """Whether the step's condition says to pass it over.

    One frozen before conditions were checked as all other schemas are, and that
    the check refuses now, fails the step in words instead of running its patterns without bound.
    """
    condition = step.get("skip_when")
    if condition is None:
        return False
    try:
        return schemas.fits(schemas.check(condition), state)
    except schemas.SchemaRefused as error:
        raise StepFailed(
            f"The condition of {step['name']} cannot be used: {error}", code="skip_when_invalid"
        ) from error


def skip(steps: Sequence[FrozenStep], step: FrozenStep) -> Go | Done:
    to = sequence.following(steps, step["name"])
    return Go(to=to) if to else Done()


def guard_loops(step: FrozenStep, number: int, *, before: Mapping[str, int]) -> None:
    """A step that goes to itself ends somewhere.

    `before` counts its loops in the runs that this one takes up.
    """
    usual = AGENT_LOOPS if traits_of(step["function"]).uses_models else MAX_LOOPS
    limit = step.get("max_loops", usual)
    if number - before.get(step["name"], 0) > limit:
        raise StepFailed(
            f"The step {step['name']} has run {limit} times in this run, which is its limit. "
            "`max_loops` of its template, or of `use(…)`, allows more.",
            code=LOOP_LIMIT,
        )
