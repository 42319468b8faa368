"""A question as a row of the inbox: each row once in Python. A page has a hundred of them, and what
a template looks up, includes and escapes one by one takes several times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from checkpoints.database import clock
from checkpoints.models import Thread
from checkpoints.text import invisible
from hitl.decisions.reviewers import turns
from hitl.models import name_of
from hitl.rendering.links import place_of
from runs.models import Pause, WorkOrder
from runs.states import PauseKind


@dataclass(frozen=True)
class QuestionRow:
    """What a row shows of an open question."""

    pause: Pause
    shown_id: str
    address: str
    name: str
    """What it is about, for attributes."""
    child: str
    """What its order calls the child run that asks; "" where none does."""
    line: SafeString
    """Whose question it is, and how it stands."""


def row_of(pause: Pause, kinds: Mapping[str, str]) -> QuestionRow:
    """The row of a question that has its run, order, thread and people with it.

    Args:
        kinds: what the page calls each kind.
    """
    run = pause.run
    order, thread = run.work_order, run.thread
    about: WorkOrder | Thread | str = (order.title if order else "") or thread
    child = run.child_name if order else ""
    person = order.created_by if order else thread.owner
    team = f" for {escape(thread.team)}" if thread.team else ""
    parts = [
        f"<b>{invisible.html(about)}</b>",
        f"child run {invisible.html(child)}" if child else "",
        invisible.html(run.definition),
        f"asked by {invisible.html(name_of(person))}{team}",
        f"revision {pause.revision}" if pause.revision > 1 else "",
        *_kind(pause, kinds),
        *_review(pause),
    ]
    return QuestionRow(
        pause,
        pause.shown_id,
        place_of(pause),
        invisible.plain(about),
        invisible.plain(child),
        mark_safe(" · ".join(filter(None, parts))),  # noqa: S308  # each part is escaped
    )


def _kind(pause: Pause, kinds: Mapping[str, str]) -> list[str]:
    if pause.kind == PauseKind.APPROVAL:
        return []
    return [f'<span class="kind">{escape(kinds.get(pause.kind, ""))}</span>']


def _review(pause: Pause) -> list[str]:
    """The stages that are asked now, and who has claimed it."""
    stages = turns.titles(pause, [stage["name"] for stage in turns.open_now(pause)])
    live = pause.claimed_until is not None and pause.claimed_until > clock.now()
    return [
        f"stage {invisible.html(stages)}" if stages else "",
        f"claimed by {invisible.html(name_of(pause.claimed_by))}"
        if live and pause.claimed_by
        else "",
    ]
