"""A template's ordered steps: which comes next, and where a person is asked. Pure functions over the frozen definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from runs.workflows.base import Ask, Done, Go, Outcome, Report

APPROVE, REVISE, CANCEL = "approve", "revise", "cancel"

PHASES = {"planning": "planning", "execute": "executing", "review": "reviewing", "deliver": "reviewing"}
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
    to: str
    """The step it leads to."""


class FrozenStep(TypedDict):
    """One step of a work order, as it was when the order was made."""

    name: str
    step_type: str
    title: str
    step_template_slug: str
    step_template_version: int
    function: str
    config: dict[str, object]
    pause_after: bool
    pause_phase: str
    revise_to: str
    choices: list[Choice]
    max_revisions: int
    effects: NotRequired[list[str]]


class UnknownName(Exception):
    """A checkpoint names a step that its definition does not have."""


def named(steps: Sequence[FrozenStep], name: str) -> FrozenStep:
    for step in steps:
        if step["name"] == name:
            return step
    raise UnknownName(f"the definition has no step {name!r}")


def following(steps: Sequence[FrozenStep], name: str) -> str:
    """The name of the step after `name`; "" after the last."""
    names = [step["name"] for step in steps]
    position = names.index(named(steps, name)["name"]) + 1
    return names[position] if position < len(names) else ""


def completed(steps: Sequence[FrozenStep], next_step: str) -> int:
    """How many steps lie before `next_step`; all of them where nothing follows."""
    names = [step["name"] for step in steps]
    return names.index(next_step) if next_step in names else len(names)


def phase_of(step_type: str) -> str:
    return PHASES.get(step_type, "executing")


def conclude(steps: Sequence[FrozenStep], name: str, outcome: Outcome) -> Outcome:
    """What a step's outcome means in this template: a pause where the template asks for one, an end after the last step."""
    if not isinstance(outcome, Go):
        return outcome
    step = named(steps, name)
    to = following(steps, name) if outcome.to is None else outcome.to
    if step["pause_after"] and outcome.to is None:
        ways = {APPROVE: to, REVISE: step["revise_to"], **{choice["name"]: choice["to"] for choice in step["choices"]}}
        return Ask(
            question=HEADINGS.get(step["pause_phase"], f"Waiting for an answer after {step['title']}"),
            ways=ways,
            labels={choice["name"]: choice["label"] for choice in step["choices"]},
            report=outcome.report or Report(content=f"{step['title']} is done."),
            update=outcome.update,
            max_revisions=step["max_revisions"],
            commit=outcome.commit,
        )
    if not to:
        return Done(update=outcome.update, commit=outcome.commit)
    return Go(update=outcome.update, to=to, report=outcome.report, commit=outcome.commit)
