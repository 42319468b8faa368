"""What a step answered, checked and parsed once: what comes out of here is written as it is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

from checkpoints.database import clock
from runs.definitions import reviewer_index
from runs.engine import children, questions
from runs.engine.context.claimed_run import ClaimedRun
from runs.engine.questions import CheckedAsk
from runs.workflows import sequence
from runs.workflows.base import Ask, Done, Gather, Go, Report, Sleep, StepFailed
from runs.workflows.reviews import rules

Result = Go | Done | Gather | Sleep | CheckedAsk
"""A step's answer that can be recorded; of a Sleep `until` is the time it ends."""

TEXTS = (
    "question", "phase", "otherwise", "prompt_id", "into", "content", "patch", "pass_review",
    "stop",
    "title", "summary", "rate",
)  # fmt: skip
"""Parts of answers, and of what reviewers are shown, that are texts."""
NAMED: dict[str, type | tuple[type, ...]] = {
    "answers": str, "labels": str, "facts": (str, int, float), "known": object,
}  # fmt: skip
"""Parts that are objects, and what their values are."""
LONGEST_NAME = 64
"""Characters of a phase, and of an action's name."""
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
    if isinstance(outcome, Ask | Gather | Sleep) and "ending" in held.run.frozen.content:
        raise StepFailed(
            "This step follows the end of a run: it asks nobody, sleeps not, and starts no child "
            "runs.",
            code="ending_may_not_wait",
        )
    outcome = _plain(outcome)
    if wrong := _misshapen(outcome):
        raise StepFailed(
            f"The step's {type(outcome).__name__} {wrong}. Nothing of this step was recorded.",
            code="answer_invalid",
        )
    result: Result
    match outcome:
        case Go(to=to):
            result, targets = outcome, [to]
        case Done():
            result, targets = outcome, []
        case Ask(answers=answers):
            step = sequence.named(held.steps, held.progress.at)
            if isinstance(outcome, sequence.StepReview) and outcome.then is not None:
                _timer(outcome.then)
            question = questions.parse(outcome, rules.of(step))
            if outcome.review is not None or outcome.report.review is not None:
                reviewer_index.check_narrowed(held.run, question.review)
            result, targets = question, [*answers.values()]
        case Gather(to=to):
            step = sequence.named(held.steps, held.progress.at)
            children.check(step, outcome, depth=held.run.depth)
            result, targets = outcome, [to]
        case Sleep(to=to):
            result, targets = _timer(outcome), [to]
        case _:
            raise TypeError(f"a step answers Go, Ask, Done, Gather or Sleep, not {outcome!r:.100}")
    for target in filter(None, targets):
        sequence.named(held.steps, target)
    return result


def _plain(outcome: Any) -> Any:
    """The answer with an ordinary object as its update, whatever the author took for one."""
    update = getattr(outcome, "update", None)
    if not isinstance(outcome, Go | Done | Ask | Gather | Sleep) or type(update) is dict:
        return outcome
    if not isinstance(update, Mapping):
        raise StepFailed(
            f"The step's update is a {type(update).__name__}, and no object such as "
            '`{"key": value}`. Nothing of this step was recorded.',
            code="update_invalid",
        )
    return replace(outcome, update=dict(update))


def _misshapen(outcome: Any) -> str:
    """The first part of an answer that is not what people and programs can read, in words."""
    report = getattr(outcome, "report", None)
    if isinstance(outcome, Ask) and report is None:
        return "has no report: a question says what it is about"
    if report is not None and not isinstance(report, Report):
        return _other("report", report, "a Report")
    for part in filter(None, (outcome, report)):
        kind_of_part: Any = type(part)
        texts, named_parts = _parts(kind_of_part)
        for name in texts:
            if not isinstance(getattr(part, name), str):
                return _other(name, getattr(part, name), "a text")
        for name, kind in named_parts.items():
            named = getattr(part, name)
            if not isinstance(named, Mapping):
                return _other(name, named, "an object")
            for key, value in named.items():
                if not isinstance(key, str) or not isinstance(value, kind):
                    wrong = value if isinstance(key, str) else key
                    return _other(f"{name}[{key!r:.50}]", wrong, "a text")
    if isinstance(outcome, Ask):
        if isinstance(outcome.approves, str) or not isinstance(outcome.approves, Sequence):
            return _other("approves", outcome.approves, "a list of answers")
        if unknown := [name for name in outcome.approves if name not in outcome.answers]:
            return f"says that {unknown[0]!r:.60} approves, which is none of its answers"
        if {sequence.REVISE, sequence.CANCEL} & {*outcome.approves}:
            return "says that revise or cancel approves"
        for name in (outcome.phase, *outcome.answers):
            if len(name) > LONGEST_NAME:
                return f"names an action or a phase with more than {LONGEST_NAME} characters"
    return ""


@lru_cache(maxsize=256)
def _parts(kind: type) -> tuple[list[str], dict[str, type | tuple[type, ...]]]:
    """The texts and the objects, with the types of their values, among the fields of a class."""
    names = {field.name for field in fields(kind)} if is_dataclass(kind) else set()
    return (
        [name for name in TEXTS if name in names],
        {name: NAMED[name] for name in NAMED if name in names},
    )


def _other(name: str, value: Any, wanted: str) -> str:
    return f"has a `{name}` of type {type(value).__name__}, and {wanted} is wanted"


def unrecordable(error: Exception) -> StepFailed:
    """An answer that the types of its parts let through, and that cannot be written down."""
    return StepFailed(
        f"What the step answered cannot be recorded ({type(error).__name__}: {error}), so nothing "
        "of this step was. Hold its answer against the reference of the SDK; the server's log "
        "names the line.",
        code="answer_invalid",
    )


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
