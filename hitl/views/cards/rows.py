"""A question as a row of the inbox: each row once in Python. A page has a hundred of them, and what
a template looks up, includes and escapes one by one takes several times as long.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.models import Thread
from checkpoints.text import invisible
from hitl.decisions import bulk
from hitl.decisions.reviewers import turns
from hitl.decisions.reviewers.policy import ReviewContext
from hitl.models import name_of
from hitl.rendering.links import place_of
from runs.models import Pause, WorkOrder
from runs.states import PauseKind
from runs.workflows.sequence import APPROVE

SOON = dt.timedelta(minutes=5)
"""Before its deadline a question expires soon; static/js/inbox/rows.js has the same."""


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
    risk: str
    """Of its rules and calls; "" where it is the usual."""
    soon: bool
    """Whether its time is over in less than `SOON`."""
    approve: str
    """What the button says that approves it in the row; "" where it wants a look at its page."""


def row_of(
    pause: Pause, kinds: Mapping[str, str], *, by: User, others: bool = False
) -> QuestionRow:
    """The row of a question that has its run, order, thread and people with it.

    Args:
        kinds: what the page calls each kind.
        by: who looks, and may answer it by the rules; with `others` somebody else must.
    """
    run = pause.run
    order, thread = run.work_order, run.thread
    about: WorkOrder | Thread | str = (order.title if order else "") or thread
    child = run.child_name if order else ""
    person = order.created_by if order else thread.owner
    team = gettext("for %(team)s") % {"team": escape(thread.team)} if thread.team else ""
    asked = gettext("asked by %(who)s") % {"who": invisible.html(name_of(person))}
    now = clock.now()
    left = pause.deadline_at - now if pause.deadline_at is not None else None
    holder = pause.claimed_by if pause.claimed_until and pause.claimed_until > now else None
    parts = [
        f"<b>{invisible.html(about)}</b>",
        gettext("child run %(name)s") % {"name": invisible.html(child)} if child else "",
        invisible.html(run.definition),
        f"{asked} {team}".rstrip(),
        gettext("revision %(revision)s") % {"revision": pause.revision}
        if pause.revision > 1
        else "",
        *_kind(pause, kinds),
        *_review(pause, holder),
        gettext("waits for %(waits_for)s")
        % {"waits_for": invisible.html(ReviewContext(pause, by).who)}
        if others
        else "",
    ]
    return QuestionRow(
        pause,
        pause.shown_id,
        place_of(pause),
        invisible.plain(about),
        invisible.plain(child),
        mark_safe(" · ".join(filter(None, parts))),  # noqa: S308  # each part is escaped
        "" if pause.risk == "normal" else pause.risk,
        left is not None and dt.timedelta(0) < left < SOON,
        _approve(pause) if holder in {None, by} and not others else "",
    )


def _approve(pause: Pause) -> str:
    """As with several at once: what needs a reason, data or care is answered on its page alone."""
    if turns.staged(pause) or bulk.refused(pause, APPROVE):
        return ""
    return invisible.plain(pause.labels.get(APPROVE) or gettext("Approve"))


def _kind(pause: Pause, kinds: Mapping[str, str]) -> list[str]:
    if pause.kind == PauseKind.APPROVAL:
        return []
    name = gettext(kinds[pause.kind]) if pause.kind in kinds else ""
    return [f'<span class="kind">{escape(name)}</span>']


def _review(pause: Pause, holder: User | None) -> list[str]:
    """The stages that are asked now, and who has claimed it."""
    stages = turns.titles(pause, [stage["name"] for stage in turns.open_now(pause)])
    return [
        gettext("stage %(stage)s") % {"stage": invisible.html(stages)} if stages else "",
        gettext("claimed by %(who)s") % {"who": invisible.html(name_of(holder))}
        if holder is not None
        else "",
    ]
