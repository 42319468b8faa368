"""A question that is over as a line of the history, as the rows of the inbox are made: for the
pages and for all open inboxes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape

from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import get_language, gettext, gettext_noop

from checkpoints.database.people import User
from checkpoints.text import invisible
from hitl.find import marks
from hitl.find.marks import NOTHING, Found
from hitl.models import Decision
from hitl.models.decisions import NOBODYS
from hitl.rendering import icons
from hitl.rendering.links import address
from hitl.rendering.moments import Moments
from hitl.rendering.own_words import own
from hitl.views.lists.reading import Past

EXPIRED = "expired"
FEEDBACK = 120
"""Characters of a reason that a line has."""
VERDICTS = {
    "approve": ("check", gettext_noop("Approved")),
    "revise": ("pencil", gettext_noop("Revised")),
    "undo": ("undo-2", gettext_noop("Undone")),
    "step_around": ("corner-up-right", gettext_noop("Bypassed")),
    "cancel": ("x", gettext_noop("Cancelled")),
    EXPIRED: ("clock", gettext_noop("Expired")),
}
"""Answer → icon and words; of a template's own answers its label."""


WORDS = {
    "asked": gettext_noop("%(question)s, revision %(revision)s"),
    "receipt": gettext_noop("receipt"),
    "receipt_of": gettext_noop("Receipt: %(title)s, %(action)s"),
    "nobody": gettext_noop("Nobody answered in time"),
}


def find(rows: Iterable[Past], words: Sequence[str], user: User) -> Found:
    """Look for the words of a search in what these lines show, and in what is behind them."""
    shown = (
        (past.key, [past.work.title, _question(past), _feedback(past.decision)]) for past in rows
    )
    return marks.find(words, shown, marks.of_answers(user))


def history(rows: Iterable[Past], found: Found = NOTHING) -> SafeString:
    """The lines as a list, with the words marked that were searched for."""
    words, moments = _words(get_language()), Moments()
    lines = "\n".join([_line(past, words, moments, found) for past in rows])
    return SafeString(f'<ul class="rows card quiet">\n{lines}\n</ul>')


@cache
def _words(language: str | None) -> Mapping[str, str]:
    """What all lines say, in the language that holds."""
    verdicts = {name: words for name, (_, words) in VERDICTS.items()}
    return {name: gettext(words) for name, words in {**WORDS, **verdicts}.items()}


def _line(past: Past, words: Mapping[str, str], moments: Moments, found: Found) -> str:
    pause, work, decision = past.pause, past.work, past.decision
    feedback = _feedback(decision)
    said = f": <q>{found.html(feedback)}</q>" if feedback else ""
    asked = words["asked"] % {
        "question": found.html(_question(past)),
        "revision": pause.revision,
    }
    if decision is not None:
        kind, who = escape(decision.action), str(invisible.html(decision.who))
        of = words["receipt_of"] % {
            "title": escape(invisible.plain(work.title)),
            "action": own(pause.labels.get(decision.action, "")) or decision.action,
        }
        place = address("hitl:receipt", Decision.PREFIX, decision.pk)
        receipt = f' · <a href="{place}" aria-label="{of}">{words["receipt"]}</a>'
    else:
        kind, who, receipt = "expired", words["nobody"], ""
    child = f"{invisible.html(work.child)}: " if work.child else ""
    return (
        f'<li data-of="{pause.shown_id}">'
        f'<span class="verdict {kind}">'
        f"{verdict(decision.action if decision else EXPIRED, pause.labels)}</span>"
        f'<div class="what"><a dir="auto" class="main-link" href="{escape(work.home)}">'
        f"{found.html(work.title)}</a>{found.beside(past.key)}"
        f"<p>{child}{asked}{said}</p></div>"
        f'<span class="by">{who} · {moments.since(past.at)}{receipt}</span></li>'
    )


def _question(past: Past) -> str:
    return own(past.pause.question.replace("Waiting for ", ""))


def said_by(decision: Decision) -> str:
    """What was said with an answer: in the reader's language where no person said it."""
    return own(decision.feedback) if decision.via in NOBODYS else decision.feedback


def _feedback(decision: Decision | None) -> str:
    said = said_by(decision) if decision is not None else ""
    return Truncator(said).chars(FEEDBACK) if len(said) > FEEDBACK else said


def verdict(action: str, labels: Mapping[str, str]) -> SafeString:
    """What was answered, with its icon; labels: of the template's own answers."""
    if action not in VERDICTS:
        return SafeString(
            f"{icons.icon('check', 14)} {invisible.html(own(labels.get(action, '')) or action)}"
        )
    icon, _ = VERDICTS[action]
    return SafeString(f"{icons.icon(icon, 14)} {escape(_words(get_language())[action])}")
