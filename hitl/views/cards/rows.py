"""A question as a row of the inbox: each row once in Python. A page has a hundred of them, and what
a template looks up, includes and escapes one by one takes several times as long.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from html import escape
from urllib.parse import urlencode

from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import get_language, gettext, gettext_noop

from checkpoints.text import invisible
from hitl.decisions import bulk
from hitl.decisions.reviewers import policy, turns
from hitl.find.marks import NOTHING, Found
from hitl.rendering.icons import icon
from hitl.rendering.links import decide_of
from hitl.rendering.moments import Moments
from hitl.rendering.own_words import own
from hitl.views.common import risk_words
from hitl.views.lists.reading import Waiting
from runs.models import Pause
from runs.states import PauseKind
from runs.workflows.sequence import APPROVE

FACTS = 2
"""Facts of a row."""
SOON = dt.timedelta(minutes=5)
"""Before its deadline a question expires soon; static/js/rows.js has the same."""
WORDS = {
    "select": gettext_noop("Select %(row)s"),
    "look": gettext_noop("Review %(row)s"),
    "review": gettext_noop("Review"),
    "approve": gettext_noop("Approve"),
    "paused": gettext_noop("Paused "),
    "due": gettext_noop("Due "),
    "soon": gettext_noop("Expires soon"),
    "child": gettext_noop("child run %(name)s"),
    "asked": gettext_noop("asked by %(who)s"),
    "team": gettext_noop("for %(team)s"),
    "votes": gettext_noop("%(given)s of %(needed)s approvals"),
    "revision": gettext_noop("revision %(revision)s"),
    "stage": gettext_noop("stage %(stage)s"),
    "claimed": gettext_noop("claimed by %(who)s"),
    "waits": gettext_noop("waits for %(waits_for)s"),
}
NOBODY: Mapping[uuid.UUID, str] = {}


@cache
def _words(language: str | None) -> Mapping[str, str]:
    """What all rows say, in the language that holds."""
    return {name: gettext(words) for name, words in WORDS.items()}


class QuestionRows:
    """The rows of one page of open questions; what they share is made once.

    Args:
        by: the key of who looks; what somebody else has claimed they do not answer. None is nobody
            who has.
        kinds: what the page calls each kind.
        several: whether some may be chosen and answered together.
        waits_for: for each question whom it waits for, where somebody else must answer them all:
            nothing is answered here.
        token: makes one against forgery, where a row has a form; of "" the page puts it in.
        back: the query of the list that an answer leads back to; as with the token.
        found: the words that were searched for.
    """

    def __init__(
        self,
        by: int | None,
        kinds: Mapping[str, str],
        *,
        several: bool = False,
        waits_for: Mapping[uuid.UUID, str] | None = None,
        token: Callable[[], str] = str,
        back: str = "",
        found: Found = NOTHING,
    ) -> None:
        self._by, self._kinds = by, kinds
        self._several, self._others = several, waits_for is not None
        self._waits_for = waits_for or NOBODY
        self._html, self._found = found.html, found
        self._words = _words(get_language())
        self._moments = Moments()
        self._now = self._moments.now
        self._token, self._back = token, back
        self._list = urlencode({"list": back}) if back else ""

    @cached_property
    def _answer(self) -> str:
        return (
            f'<input type="hidden" name="csrfmiddlewaretoken" value="{self._token()}">'
            f'<input type="hidden" name="back" value="{escape(self._back)}">'
        )

    @cached_property
    def _tick(self) -> str:
        return icon("check", 16)

    def html(self, row: Waiting) -> SafeString:
        pause, work, words = row.pause, row.work, self._words
        holder = held_by(row, self._now)
        key = pause.shown_id
        place = f"{work.home}?pause={key}" if work.is_child else work.home
        if self._list:
            place += ("&" if work.is_child else "?") + self._list
        place = escape(place)
        name = escape(invisible.plain(work.title))
        child = work.child if work.is_of_order else ""
        whose = f", {escape(invisible.plain(child))}" if child else ""
        approve = self._approve(pause) if holder in {None, self._by} and not self._others else ""
        line = " · ".join(filter(None, self._line(row, child, holder)))
        risk = pause.risk
        parts = [
            f'<li data-row="{key}" data-changed="{pause.changed_at.isoformat()}">',
            f'<input type="checkbox" form="several" name="pause" value="{key}" '
            f'aria-label="{words["select"] % {"row": name}}">'
            if self._several
            else "",
            f'<div class="what"><a dir="auto" class="main-link" href="{place}">'
            f"{self._html(own(pause.question))}</a>",
            f' <span class="risk {escape(risk)}">{escape(capfirst(risk_words(risk)))}</span>'
            if risk != "normal"
            else "",
            self._says(pause),
            self._found.beside(pause.pk) if self._found.told else "",
            f"<p>{line}</p></div>",
            f'<span class="when">{self._moments.since(pause.opened_at, words["paused"])}',
            self._due(pause.deadline_at) if pause.deadline_at is not None else "",
            "</span>",
            self._form(pause, escape(approve), f"{name}{whose}") if approve else "",
            f'<a class="button" href="{place}" '
            f'aria-label="{words["look"] % {"row": name}}{whose}">{words["review"]}</a></li>',
        ]
        return SafeString("".join(parts))  # what others wrote is escaped in each part

    def _says(self, pause: Pause) -> str:
        """What is decided: the summary, and the first facts."""
        facts = "".join(
            f" <span>{self._html(own(label))} <b>{self._html(own(value))}</b></span>"
            for label, value in pause.facts[:FACTS]
        )
        if not pause.summary and not facts:
            return ""
        whole = " whole" if pause.brief else ""  # what is answered here is not cut
        return f'<p class="gist{whole}" dir="auto">{self._html(own(pause.summary))}{facts}</p>'

    def _due(self, at: dt.datetime) -> str:
        left = at - self._now
        late = " late" if left <= dt.timedelta(0) else ""
        hidden = "" if dt.timedelta(0) < left < SOON else " hidden"
        return (
            f'<span class="due{late}" data-due>{self._moments.until(at, self._words["due"])}'
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

    def _line(self, row: Waiting, child: str, holder: int | None) -> list[str]:
        """Whose question it is, and how it stands."""
        pause, work, words = row.pause, row.work, self._words
        asked = words["asked"] % {"who": invisible.html(work.asker)}
        return [
            f"<b>{self._html(work.title)}</b>",
            words["child"] % {"name": invisible.html(child)} if child else "",
            invisible.html(work.definition),
            f"{asked} {words['team'] % {'team': escape(work.team)}}" if work.team else asked,
            words["revision"] % {"revision": pause.revision} if pause.revision > 1 else "",
            words["votes"] % {"given": pause.approvals, "needed": policy.quorum(pause)}
            if policy.quorum(pause) > 1
            else "",
            self._kind(pause) if pause.kind != PauseKind.APPROVAL else "",
            self._stage(pause) if turns.staged(pause) else "",
            words["claimed"] % {"who": invisible.html(row.claimer)} if holder is not None else "",
            words["waits"] % {"waits_for": invisible.html(self._waits_for[pause.pk])}
            if pause.pk in self._waits_for
            else "",
        ]

    def _kind(self, pause: Pause) -> str:
        name = gettext(self._kinds[pause.kind]) if pause.kind in self._kinds else ""
        return f'<span class="kind">{escape(name)}</span>'

    def _stage(self, pause: Pause) -> str:
        """The stages that are asked now."""
        stages = turns.titles(pause, [stage["name"] for stage in turns.open_now(pause)])
        return self._words["stage"] % {"stage": invisible.html(stages)} if stages else ""

    def _approve(self, pause: Pause) -> str:
        """Where the row shows all that is decided. What needs a reason, data or care is answered on
        its page alone, as with several at once.
        """
        if not pause.brief or turns.staged(pause) or bulk.refused(pause, APPROVE):
            return ""
        return invisible.plain(own(pause.labels.get(APPROVE, "")) or self._words["approve"])


def texts_of(row: Waiting) -> list[str]:
    """What a row shows of a question in others' words."""
    pause = row.pause
    said = [part for fact in pause.facts[:FACTS] for part in fact]
    return [own(pause.question), pause.summary, row.work.title, *map(str, said)]


def held_by(row: Waiting, now: dt.datetime) -> int | None:
    """Who has claimed it, while that lasts."""
    until = row.pause.claimed_until
    return row.claimed_by if until is not None and until > now else None
