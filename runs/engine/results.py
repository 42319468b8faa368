"""What a step answered, checked and parsed once: what comes out of here is written as it is."""

from __future__ import annotations

from typing import Any

from runs.engine import children, questions
from runs.engine.context import ClaimedRun
from runs.engine.questions import Question
from runs.workflows import review_rules, sequence
from runs.workflows.base import Ask, Done, Gather, Go, StepFailed

Result = Go | Done | Gather | Question
"""A step's answer that can be recorded."""


def parse(held: ClaimedRun, outcome: Any) -> Result:
    """Give a step's answer as it is recorded, if it is one and leads to steps that there are.

    Raises StepFailed, codec.NotJson, schemas.SchemaRefused, sequence.UnknownName, and TypeError for
    what is no answer.
    """
    if isinstance(outcome, Ask | Gather) and not held.run.keeps_checkpoints:
        raise StepFailed(
            "This step asks, or starts child runs, and its template keeps no checkpoints.",
            code="checkpoints_off",
        )
    result: Result
    match outcome:
        case Go(to=to):
            result, targets = outcome, [to]
        case Done():
            result, targets = outcome, []
        case Ask(actions=ways):
            step = sequence.named(held.steps, held.at)
            result, targets = questions.parse(outcome, review_rules.of(step)), [*ways.values()]
        case Gather(to=to):
            step = sequence.named(held.steps, held.at)
            children.check(step, outcome, depth=held.run.depth)
            result, targets = outcome, [to]
        case _:
            raise TypeError(f"a step answers Go, Ask, Done or Gather, not {outcome!r:.100}")
    for target in filter(None, targets):
        sequence.named(held.steps, target)
    return result
