"""A step's question, checked and parsed once (`parse`): `record.ask` only writes what it holds.

`opens` and `asked_outside` give what follows from a question's rules, to all who open one: a step,
another engine's wait, a run that asks again, and an answer that is taken back.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkpoints.models import Thread
from checkpoints.state import codec, redaction
from runs.definitions import due_times, reviewer_index
from runs.states import PauseKind
from runs.workflows import external_reviewers, owned, schemas, sequence, tool_calls
from runs.workflows.base import Ask, Outside, Sleep, StepFailed
from runs.workflows.refusals import FieldRefused
from runs.workflows.reviews import deadlines, narrowing, stages
from runs.workflows.reviews.review import Review
from runs.workflows.sequence import APPROVE, CANCEL, REVISE, StepReview
from runs.workflows.wait_for_input import ANSWER


@dataclass(frozen=True, kw_only=True)
class CheckedAsk:
    """What a step asks, checked: nothing of it is parsed again."""

    ask: Ask
    """As the step gave it; of its schema and its calls what is below counts."""
    kind: PauseKind
    prompt_id: str
    calls: Sequence[Mapping[str, Any]]
    """The tool calls that it is about, as `tool_calls.kept` has them."""
    required_inputs: Mapping[str, Any]
    """The schema of the data that is asked for, as it is kept; {} where words are enough."""
    answers_without_input: Sequence[str]
    """The answers that bring no data."""
    review: Review
    """The rules that it is asked by."""
    outside: Mapping[str, Any]
    """Who is asked without an account, as `external_reviewers.asked` has it."""
    approves: Sequence[str] = ()
    """The answers that are approvals beside `approve`."""
    sleeps: Mapping[str, Any] = field(default_factory=dict)
    """The timer that an approval leads to: `until` or `seconds`, and `reason`; {} without one."""
    passes: str = ""
    """Why the workflow approves at once; "" where people are asked."""


def parse(ask: Ask, rules: Review) -> CheckedAsk:
    """Check what a step asks by these rules, which it may narrow.

    Raises StepFailed, codec.NotJson and schemas.SchemaRefused.
    """
    inputs, review = _inputs_of(ask), _narrowed(ask, rules)
    kind, calls = kind_of(ask), calls_of(ask)
    try:
        stages.check_inputs(inputs, review)
    except FieldRefused as error:
        raise StepFailed(
            f"What this step asks for does not fit its stages: {error} Nothing of this step was "
            "recorded.",
            code="stages_invalid",
        ) from error
    if calls:
        inputs = schemas.check_inputs(tool_calls.required(calls))
    return CheckedAsk(
        ask=ask,
        kind=kind,
        prompt_id=prompt_of(ask),
        calls=calls,
        required_inputs=inputs,
        answers_without_input=[*ask.answers_without_input, *([APPROVE] if calls else [])],
        review=limited(ask, review),
        outside=asked_outside(review, calls, ask.answers, ask.outside),
        approves=[action for action in sequence.approving(ask) if action != APPROVE],
        **_of_template(ask, review, calls),
    )


def _narrowed(ask: Ask, rules: Review) -> Review:
    wanted = ask.review if ask.review is not None else ask.report.review
    if wanted is None:
        return rules
    try:
        return narrowing.narrow(rules, wanted)
    except FieldRefused as error:
        place = f"review.{error.field}".rstrip(".")
        raise StepFailed(
            f"This question cannot be asked by narrower rules: {place}: {error} Rules of a "
            "question never widen those of its step. Nothing of this step was recorded.",
            code="review_widened",
        ) from error


def _of_template(ask: Ask, review: Review, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the template's own question after a step holds besides."""
    if not isinstance(ask, StepReview):
        return {}
    if ask.passes and (is_of_high_risk(review, calls) or review.get("step_up")):
        raise StepFailed(
            "This step wants to pass its review, and what it asks is of high risk or wants a "
            "second factor: somebody must answer. Nothing of this step was recorded.",
            code="pass_not_allowed",
        )
    passes = codec.readable(ask.passes).strip()[:LONGEST_PASS]
    return {"passes": passes, "sleeps": _timer(ask.then) if ask.then else {}}


def _timer(sleep: Sleep) -> dict[str, Any]:
    ends = (
        {"until": sleep.until.isoformat()}
        if sleep.until is not None
        else {"seconds": sleep.for_.total_seconds() if sleep.for_ is not None else 0}
    )
    return {**ends, "reason": codec.readable(sleep.reason)[:LONGEST_REASON]}


LONGEST_PASS = 1_000
"""Characters of a reason to pass a review that are kept."""
LONGEST_REASON = 200
"""Characters of what a run sleeps for."""


def is_of_high_risk(review: Review, calls: Sequence[Mapping[str, Any]]) -> bool:
    return review.get("risk") == "high" or any(call["risk"] == "high" for call in calls)


def opens(
    review: Review, thread: Thread, *, at: dt.datetime, until: dt.datetime | None = None
) -> dict[str, Any]:
    """Give all columns of a question on a thread that follow from its rules and from when it opens:
    the rules, who answers by them, whose turn it is, and when they act.

    Call inside a transaction.
    """
    team = thread.team if thread.team_id is not None and deadlines.by_team(review) else None
    return {
        "review": dict(review),
        "panel_id": reviewer_index.keep(review),
        "turn": stages.turn(review),
        "opened_at": at,
        **due_times.columns(review, at, until=until, team=team.name if team is not None else ""),
    }


def asked_outside(
    review: Review,
    calls: Sequence[Mapping[str, Any]],
    answers: Mapping[str, str],
    outside: Outside | None = None,
) -> dict[str, Any]:
    """Give what a question keeps of who is asked without an account.

    Raises StepFailed (`outside_invalid`).
    """
    high_risk = is_of_high_risk(review, calls)
    return external_reviewers.asked(outside, review, answers, high_risk=high_risk)


RESERVED = {APPROVE, REVISE, CANCEL, ANSWER, "expire", "escalate"}
"""What `Ask.otherwise` is never called: answers of people, and words of the review rules."""
LONGEST_WAIT = dt.timedelta(days=3650)


def limited(ask: Ask, review: Review) -> Review:
    """The rules of a question that names its own time limit, which takes the place of theirs.

    Raises StepFailed.
    """
    if ask.within is None and not ask.otherwise:
        return review
    if not isinstance(ask.within, dt.timedelta) or not (
        dt.timedelta(seconds=1) <= ask.within <= LONGEST_WAIT
    ):
        raise _bad_limit("`within` is a timedelta of one second to ten years")
    if APPROVE in ask.answers:
        raise _bad_limit("a verdict has its deadline in the review rules of its step")
    if ask.otherwise and (
        ask.otherwise not in ask.answers
        or ask.otherwise in RESERVED
        or (ask.required_inputs and ask.otherwise not in ask.answers_without_input)
    ):
        raise _bad_limit(
            "`otherwise` names one of the question's answers and, where data is asked for, one of "
            f"`answers_without_input`, and none of {', '.join(sorted(RESERVED))}"
        )
    if review.get("deadline", {}).get("outcome") == "escalate":
        raise _bad_limit("the step's rules escalate at a deadline of their own")
    seconds = round(ask.within.total_seconds())
    return {
        **review,
        "deadline": {"after": f"PT{seconds}S", "outcome": ask.otherwise or "expire"},
    }


def _bad_limit(rule: str) -> StepFailed:
    return StepFailed(
        f"This question cannot be asked with a time limit: {rule}. Nothing of this step was "
        "recorded.",
        code="limit_invalid",
    )


def _inputs_of(ask: Ask) -> dict[str, Any]:
    if not ask.required_inputs:
        return {}
    inputs = schemas.check_inputs(ask.required_inputs)
    if taken := owned.named(schemas.asked_for(inputs)):
        raise schemas.SchemaRefused(
            "properties",
            f"{', '.join(taken)}: these names are the engine's own. Ask under another.",
        )
    return inputs


def digest(
    read: Sequence[Any],
    facts: Sequence[Any],
    inputs: Mapping[str, Any],
    wanted: Sequence[Any] = (),
) -> str:
    """What a decision is bound to: what is `read` (content and patch, or what is material of them),
    facts, and what is asked for.
    """
    bound = [
        *read,
        list(facts),
        *([dict(inputs)] if inputs else []),
        *([list(wanted)] if wanted else []),
    ]
    return codec.digest(codec.encode(bound))


PROMPT_ID = re.compile(r"(?!pse_)[A-Za-z0-9][A-Za-z0-9._:~@=+-]{0,199}", re.ASCII)
"""An author's own name of a question; never one that looks like an id of ours."""


def prompt_of(outcome: Ask) -> str:
    """The name that its author gave a question; raises StepFailed."""
    if outcome.prompt_id and not PROMPT_ID.fullmatch(outcome.prompt_id):
        message = (
            "A prompt_id has up to 200 letters, digits and . _ : ~ @ = + -, begins with a "
            "letter or digit, and not with pse_."
        )
        raise StepFailed(message, code="prompt_invalid")
    return outcome.prompt_id


def kind_of(outcome: Ask) -> PauseKind:
    """What the question wants, where the step does not say so itself."""
    if outcome.calls:
        return PauseKind.TOOLS
    if outcome.kind:
        return PauseKind(outcome.kind)
    return (
        PauseKind.INPUT
        if APPROVE not in outcome.answers and (outcome.required_inputs or ANSWER in outcome.answers)
        else PauseKind.APPROVAL
    )


def calls_of(outcome: Ask) -> list[dict[str, Any]]:
    """The calls as the question holds them.

    Raises StepFailed, codec.NotJson and schemas.SchemaRefused.
    """
    if not outcome.calls:
        return []
    if ANSWER not in outcome.answers or outcome.required_inputs:
        message = (
            f"A question about calls is answered with {ANSWER!r}, which must be one of its "
            "answers, and asks for nothing else."
        )
        raise StepFailed(message, code=tool_calls.CallsRefused.code)
    try:
        return checked_calls(outcome.calls)
    except tool_calls.CallsRefused as error:
        raise StepFailed(str(error), code=error.code) from error


def checked_calls(wanted: Sequence[tool_calls.Call]) -> list[dict[str, Any]]:
    """Tool calls as a question holds them.

    Raises tool_calls.CallsRefused, codec.NotJson and schemas.SchemaRefused.
    """
    calls = tool_calls.kept(wanted)
    for call in calls:
        codec.check(call, f"calls[{call['id']}]")
        secrets = [name for name in (call["id"],) if redaction.is_secret(name)] + list(
            redaction.found(call["arguments"])
        )
        if secrets:
            message = (
                f"The call {call['id']} holds {', '.join(secrets)}, named like a secret, which "
                "is not kept. The tool reads it itself."
            )
            raise tool_calls.CallsRefused(message)
    return calls
