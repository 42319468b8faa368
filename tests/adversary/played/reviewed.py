"""Steps that leave their reviews by every way there is, pass them, or narrow who answers."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

from runs.workflows.base import Ask, Context, Done, Go, Outcome, Sleep, State
from runs.workflows.registry import step
from tests.adversary.played.book import ASKED, drafted, given, text_of, write_down

SMALL = 15
"""What is less needs nobody, where the template says so."""
NARROWED: dict[str, dict[str, Any]] = {
    "cy": {"reviewers": {"users": ["cy"]}},
    "two": {"quorum": 2},
    "risk": {"risk": "high"},
    "dee": {"reviewers": {"users": ["dee"]}},
    "team": {"reviewers": {"groups": ["platform"]}},
    "me": {"self_approval": True},
}
"""By which rules a question may want to be asked: the first three narrow those of its template, the
others would widen them.
"""


def reason(known: State) -> str:
    """Why nobody has to be asked; "" where somebody has to."""
    amount = int(known.get("amount", 0) or 0)
    return f"{amount} is under {SMALL}" if amount < SMALL else ""


@step("adversary.leave")
def leave(state: State, context: Context) -> Outcome:
    """What is to be approved, by a step that names where it goes then: at once, later, or after a
    question about data.
    """
    known, update, report = drafted(state, context)
    to = str(context.config["to"])
    if known.get("leave") == "sleep":
        return Sleep(for_=dt.timedelta(hours=1), to=to, update=update, report=report)
    if known.get("leave") == "ask":
        return Ask(question="Where to?", answers={"answer": to}, update=update, report=report)
    return Go(to=to, update=update, report=report)


@step("adversary.finish")
def finish(state: State, context: Context) -> Outcome:
    """The same in a child run, which ends with it; what is in a hurry passes where it may."""
    known, update, report = drafted(state, context)
    passes = reason(known) if known.get("hurry") else ""
    return Done(update=update, report=report, pass_review=passes)


@step("adversary.pass")
def pass_it(state: State, context: Context) -> Outcome:
    """What is small passes its review, whatever its template says."""
    known, update, report = drafted(state, context)
    if known.get("risky"):
        report = replace(report, review=NARROWED["risk"])
    return Go(update=update, report=report, pass_review=reason(known))


@step("adversary.narrow")
def narrow(state: State, context: Context) -> Outcome:
    """Whoever asks for the work says by which rules it is reviewed."""
    known, update, report = drafted(state, context)
    wanted = NARROWED.get(str(known.get("narrow")), NARROWED["cy"])
    ASKED[context.run_id, context.step] = wanted
    return Go(update=update, report=replace(report, review=wanted))


GRANTED = frozenset({"approve", "allow"})
"""The answers to `adversary.several` that are approvals."""


@step("adversary.several", asks=True)
def several(state: State, context: Context) -> Outcome:
    """A question of the step's own, all of whose answers lead on."""
    _, update, report = drafted(state, context)
    then = str(context.config["then"])
    answers = {**dict.fromkeys(("approve", "allow", "deny"), then)}
    return Ask(
        question="May this be paid?",
        answers={**answers, "revise": str(context.config["revise"])},
        approves=["allow"],
        update=update,
        report=report,
    )


@step("adversary.over")
def over(state: State, context: Context) -> Outcome:
    """Leads past a step that would ask."""
    return Go(to="pay")


@step("adversary.rest")
def rest(state: State, context: Context) -> Outcome:
    return Go()


@step("adversary.heedless")
def heedless(state: State, context: Context) -> Outcome:
    """Effects that ask for nobody's approval: one says that it needs none."""
    text = text_of(given(state, context))
    context.once("unheeded", lambda: write_down("plain", context, text))
    context.once("optional", lambda: None, optional=True)
    return Go()


@step("adversary.settle")
def settle(state: State, context: Context) -> Outcome:
    """An effect that relies on the review of its child run."""
    known = dict(given(state, context))
    for changes in state.get("kin", {}).values():
        known |= changes
    write_down("child", context, text_of(known), of="kin/draft")
    return Go()
