"""The review of a booking: a person answers, or the booking passes without a question, which the
template allows where nothing is in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extensions.booking.books import Books
from extensions.booking.case import Case
from extensions.booking.questions import BOOKKEEPER, Decide, about, ask_bookkeeper, facts, part_of
from extensions.booking.state import (
    BOOKKEEPERS,
    BookingDecision,
    BookingState,
    OpenQuestion,
    is_settled,
    material,
    passing,
)
from runs.workflows import Ask, Context, Go, Report, StepFailed
from runs.workflows.text import count


def pass_or_ask(go: Go, now: BookingState, case: Case, books: Books, context: Context) -> Go | Ask:
    """Let a sure booking pass its review, where the template allows that; else ask a bookkeeper.

    A booking that a bookkeeper has just decided on needs neither.
    """
    made: BookingDecision = go.update["decision"]
    if any(now.get(key) for key in BOOKKEEPERS):
        require_answers(now, context)
    answered = not now.get("passed") and context.approved(context.step) is not None
    if made["by"] == "bookkeeper" and answered:
        return go
    if not context.may_pass:
        assigned = now.get("assigned", {})
        ids = part_of(case, books, made["positions"], assigned)
        asked = Decide(ids=ids, assigned=assigned, held={})
        question = ask_bookkeeper(case, books, [], asked, way=context.step)
        return put_question(question, BOOKKEEPER, ids, now, context)
    passed = passing(now, made)
    why = (
        "a bookkeeper has decided on these positions"
        if made["by"] == "bookkeeper"
        else f"nothing is in doubt, and the confidence {made['confidence']} is not below "
        f"{case.policy.threshold}"
    )
    report = Report(
        content=f"# {about(case)}\n\n{count(len(made['positions']), 'position')} to book.",
        facts=facts(case),
        material=passed,
    )
    return replace(go, update={**go.update, "passed": passed}, report=report, pass_review=why)


def put_question(
    question: Ask, reason: str, ids: Sequence[str], now: BookingState, context: Context
) -> Ask:
    """Put a question, and note in the state what it is about: an earlier answer does not count."""
    inputs = list(question.required_inputs.get("properties", {}))
    asked = OpenQuestion(reason=reason, positions=list(ids), inputs=inputs)
    shown = material(now, asked)
    note = {"asked": asked, "shown": shown, "passed": None, "decided": {context.step: ""}}
    return replace(
        question,
        report=replace(question.report, material=shown),
        update={**dict.fromkeys(inputs), **note},
    )


def require_answers(now: BookingState, context: Context, *, optional: bool = False) -> None:
    """Raise StepFailed unless a person decided, on this very booking, everything that the state
    ascribes to a person; or this very booking has passed.
    """
    wanted = now.get("passed") or now.get("shown") or {}
    context.require_approval("booking.decide", wanted, optional=optional)
    if not is_settled(now):
        raise changed_since()
    if any(now.get(key) for key in BOOKKEEPERS) and context.approved("booking.decide") is None:
        raise StepFailed(
            "The state holds a bookkeeper's answers, and no bookkeeper gave them. Nothing "
            "was booked. Go on from before the question.",
            code="approval_missing",
        )


def changed_since() -> StepFailed:
    return StepFailed(
        "What is to be booked is not what was answered: accounts, rates, lines or the "
        "supplier were changed since. Nothing was booked. "
        "Go on from the checkpoint of the answer, or from before the question.",
        code="content_changed",
    )
