"""What a step answered, checked and parsed once: what comes out of here is written as it is."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

from checkpoints.database import clock
from runs.engine import children, questions
from runs.engine.context.claimed_run import ClaimedRun
from runs.engine.questions import Question
from runs.workflows import sequence
from runs.workflows.base import Ask, Done, Gather, Go, Sleep, StepFailed
from runs.workflows.reviews import rules

Result = Go | Done | Gather | Sleep | Question
"""A step's answer that can be recorded; of a Sleep `until` is the time it ends."""

LONGEST_SLEEP = dt.timedelta(days=3660)


def parse(held: ClaimedRun, outcome: Any) -> Result:
    """Give a step's answer as it is recorded, if it is one and leads to steps that there are.

    Raises StepFailed, codec.NotJson, schemas.SchemaRefused, sequence.UnknownName, and TypeError for
    what is no answer.
    """
    if isinstance(outcome, Ask | Gather | Sleep) and not held.run.keeps_checkpoints:
        raise StepFailed(
            "This step asks, sleeps, or starts child runs, and its template keeps no checkpoints.",
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
            result, targets = questions.parse(outcome, rules.of(step)), [*ways.values()]
        case Gather(to=to):
            step = sequence.named(held.steps, held.at)
            children.check(step, outcome, depth=held.run.depth)
            result, targets = outcome, [to]
        case Sleep(to=to):
            result, targets = _timer(outcome), [to]
        case _:
            raise TypeError(f"a step answers Go, Ask, Done, Gather or Sleep, not {outcome!r:.100}")
    for target in filter(None, targets):
        sequence.named(held.steps, target)
    return result


def _timer(sleep: Sleep) -> Sleep | Go:
    """The timer with its end, by the database's clock; a plain Go where that is over already."""
    now = clock.now()
    if (sleep.for_ is None) == (sleep.until is None):
        raise _misused("names both `for_` and `until`, or neither")
    if not isinstance(sleep.reason, str):
        raise _misused("gives a reason that is no text")
    if sleep.for_ is not None and not isinstance(sleep.for_, dt.timedelta):
        raise _misused("names a `for_` that is no timedelta")
    if sleep.until is not None and (
        not isinstance(sleep.until, dt.datetime) or sleep.until.utcoffset() is None
    ):
        raise _misused("names an `until` that is no datetime with a time zone")
    wait = sleep.for_ if sleep.until is None else sleep.until - now
    assert wait is not None
    if wait > LONGEST_SLEEP:
        raise _misused(f"lasts longer than {LONGEST_SLEEP.days} days")
    if wait <= dt.timedelta(0):
        return Go(update=sleep.update, to=sleep.to, commit=sleep.commit)
    return replace(sleep, until=now + wait, for_=None)


def _misused(what: str) -> StepFailed:
    return StepFailed(
        f"The step's Sleep {what}. Nothing of this step was recorded.", code="sleep_invalid"
    )
