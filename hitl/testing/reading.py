"""What a test reads of work: its questions as their cards show them, effects and checkpoints."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.store import get_blob
from hitl.decisions.reviewers import turns
from hitl.models import Vote
from runs.models import Pause
from runs.workflows import CANCEL
from runs.workflows.reviews import stages


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage of the review of a question."""

    name: str
    title: str
    question: str
    status: str
    """`waiting`, `open` or `complete`."""
    approvals: int


@dataclass(frozen=True, kw_only=True)
class Question:
    """An open question, as its card shows it."""

    id: str
    step: str
    title: str
    summary: str
    """What a row of the inbox says beside the title."""
    content: str
    """Markdown."""
    patch: str
    facts: Mapping[str, Any]
    effects: Sequence[str]
    """What approving does, in the step's own sentences."""
    answers: Sequence[str]
    """The answers that it takes."""
    schema: Mapping[str, Any]
    """JSON Schema of the data that must come with the answer; {} where words are enough."""
    known: Mapping[str, Any]
    """What the form begins with."""
    calls: Sequence[Mapping[str, Any]]
    """The tool calls that are decided one by one."""
    kind: str
    phase: str
    revision: int
    approvals: int
    """Votes for going on so far, where the rules ask for several."""
    stages: Sequence[Stage]
    """Those that the review rules name, in their order."""
    deadline: dt.datetime | None
    child: str
    """The name of the child run that asks; "" where it is the order's own."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A result that `context.once` recorded."""

    step: str
    loop_num: int
    key: str
    result: Any
    child: str


@dataclass(frozen=True, kw_only=True)
class Point:
    """A checkpoint: the state after a step, and what comes next."""

    step: str
    loop_num: int
    next_step: str
    status: str
    state: Mapping[str, Any]


def question_of(pause: Pause) -> Question:
    return Question(
        id=pause.shown_id,
        step=pause.step,
        title=pause.question,
        summary=pause.summary,
        content=pause.content,
        patch=get_blob(pause.patch_digest).decode() if pause.patch_digest else "",
        facts=dict(pause.facts),
        effects=pause.effects,
        answers=list(dict.fromkeys([*pause.answers, CANCEL])),
        schema=pause.required_inputs,
        known=pause.known,
        calls=pause.calls,
        kind=str(pause.kind),
        phase=pause.phase,
        revision=pause.revision,
        approvals=pause.approvals,
        stages=_stages(pause),
        deadline=pause.deadline_at,
        child=pause.run.child_name,
    )


def _stages(pause: Pause) -> list[Stage]:
    votes = list(Vote.objects.filter(pause=pause)) if turns.staged(pause) else []
    standing = turns.statuses(pause, votes)
    return [
        Stage(
            name=stage["name"],
            title=stages.titled(stage),
            question=stage.get("question", ""),
            status=standing[stage["name"]],
            approvals=sum(vote.stage == stage["name"] for vote in votes),
        )
        for stage in stages.of(pause.review)
    ]
