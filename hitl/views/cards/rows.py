"""A question as a row of the inbox: each row once in Python. A page has a hundred of them, and what
a template looks up, includes and escapes one by one takes several times as long.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_noop
from lucide.templatetags.lucide import lucide

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.models import Thread
from checkpoints.text import invisible
from hitl.decisions import bulk
from hitl.decisions.reviewers import turns
from hitl.decisions.reviewers.policy import ReviewContext
from hitl.models import name_of
from hitl.rendering.links import decide_of, place_of
from hitl.rendering.moments import since, until
from hitl.views.common import risk_words
from runs.models import Pause, WorkOrder
from runs.states import PauseKind
from runs.workflows.sequence import APPROVE

SOON = dt.timedelta(minutes=5)
"""Before its deadline a question expires soon; static/js/inbox/rows.js has the same."""


class QuestionRows:
    """The rows of one page of open questions; what they share is made once.

    Args:
        by: who looks; what somebody else has claimed they do not answer. None is nobody who has.
        kinds: what the page calls each kind.
        several: whether some may be chosen and answered together.
        others: somebody else must answer them, so nothing is answered here.
        token: against forgery; without one the page puts it in.
        back: the query of the list that an answer leads back to; as with the token.
    """

    def __init__(
        self,
        by: User | None,
        kinds: Mapping[str, str],
        *,
        several: bool = False,
        others: bool = False,
        token: str = "",
        back: str = "",
    ) -> None:
        self._by, self._kinds, self._others = by, kinds, others
        self._several = several
        self._words = {
            name: gettext(words)
            for name, words in {
                "select": gettext_noop("Select %(row)s"),
                "look": gettext_noop("Review %(row)s"),
                "review": gettext_noop("Review"),
                "paused": gettext_noop("Paused "),
                "due": gettext_noop("Due "),
                "soon": gettext_noop("Expires soon"),
            }.items()
        }
        self._answer = (
            f'<input type="hidden" name="csrfmiddlewaretoken" value="{token}">'
            f'<input type="hidden" name="back" value="{escape(back)}">'
        )
        self._tick = lucide("check", size=16, aria_hidden="true")

    def html(self, pause: Pause) -> SafeString:
        """The row of a question that has its run, order, thread and people with it."""
        run = pause.run
        order, thread = run.work_order, run.thread
        about: WorkOrder | Thread | str = (order.title if order else "") or thread
        child = run.child_name if order else ""
        now = clock.now()
        holder = held_by(pause)
        key, place = pause.shown_id, escape(place_of(pause))
        name = escape(invisible.plain(about))
        whose = f", {escape(invisible.plain(child))}" if child else ""
        approve = _approve(pause) if holder in {None, self._by} and not self._others else ""
        line = " · ".join(filter(None, self._line(pause, about, child, holder)))
        risk = pause.risk
        parts = [
            f'<li data-row="{key}" data-changed="{pause.changed_at.isoformat()}">',
            f'<input type="checkbox" form="several" name="pause" value="{key}" '
            f'aria-label="{self._words["select"] % {"row": name}}">'
            if self._several
            else "",
            f'<div class="what"><a dir="auto" class="main-link" href="{place}">'
            f"{invisible.html(pause.question)}</a>",
            f' <span class="risk {escape(risk)}">{escape(capfirst(risk_words(risk)))}</span>'
            if risk != "normal"
            else "",
            f"<p>{line}</p></div>",
            f'<span class="when">{since(pause.opened_at, self._words["paused"])}',
            self._due(pause, now) if pause.deadline_at is not None else "",
            "</span>",
            self._form(pause, escape(approve), f"{name}{whose}") if approve else "",
            f'<a class="button" href="{place}" '
            f'aria-label="{self._words["look"] % {"row": name}}{whose}">{self._words["review"]}</a>'
            "</li>",
        ]
        return mark_safe("".join(parts))  # noqa: S308  # what others wrote is escaped in each part

    def _due(self, pause: Pause, now: dt.datetime) -> str:
        assert pause.deadline_at is not None
        left = pause.deadline_at - now
        late = " late" if left <= dt.timedelta(0) else ""
        hidden = "" if dt.timedelta(0) < left < SOON else " hidden"
        return (
            f'<span class="due{late}" data-due>{until(pause.deadline_at, self._words["due"])}'
            f'<b class="soon"{hidden}>{self._words["soon"]}</b></span>'
        )

    def _form(self, pause: Pause, approve: str, name: str) -> str:
        return (
            f'<form method="post" action="{decide_of(pause)}" data-row-answer>{self._answer}'
            f'<input type="hidden" name="revision" value="{pause.revision}">'
            f'<input type="hidden" name="content_digest" value="{escape(pause.content_digest)}">'
            f'<button class="button approve" name="action" value="approve" '
            f'aria-label="{approve}: {name}">{self._tick}<span data-label>{approve}</span></button>'
            "</form>"
        )

    def _line(
        self, pause: Pause, about: WorkOrder | Thread | str, child: str, holder: User | None
    ) -> list[str]:
        """Whose question it is, and how it stands."""
        run = pause.run
        order, thread = run.work_order, run.thread
        team = gettext("for %(team)s") % {"team": escape(thread.team)} if thread.team else ""
        who = invisible.html(name_of(order.created_by if order else thread.owner))
        asked = gettext("asked by %(who)s") % {"who": who}
        return [
            f"<b>{invisible.html(about)}</b>",
            gettext("child run %(name)s") % {"name": invisible.html(child)} if child else "",
            invisible.html(run.definition),
            f"{asked} {team}".rstrip(),
            gettext("revision %(revision)s") % {"revision": pause.revision}
            if pause.revision > 1
            else "",
            *_kind(pause, self._kinds),
            *_review(pause, holder),
            gettext("waits for %(waits_for)s")
            % {"waits_for": invisible.html(ReviewContext(pause, self._by).who)}
            if self._others and self._by is not None
            else "",
        ]


def held_by(pause: Pause) -> User | None:
    """Who has claimed it, while that lasts."""
    until = pause.claimed_until
    return pause.claimed_by if until is not None and until > clock.now() else None


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
