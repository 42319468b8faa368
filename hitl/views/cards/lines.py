"""A question that is over as a line of the history, as the rows of the inbox are made: for the
pages and for all open inboxes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from html import escape

from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext, gettext_noop
from lucide.templatetags.lucide import lucide

from checkpoints.text import invisible
from hitl.models import Decision
from hitl.rendering.links import address
from hitl.rendering.moments import Moments
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


def history(rows: Iterable[Past]) -> SafeString:
    """The lines as a list."""
    words = {
        "asked": gettext("%(question)s, revision %(revision)s"),
        "receipt": gettext("receipt"),
        "receipt_of": gettext("Receipt: %(title)s, %(action)s"),
        "nobody": gettext("Nobody answered in time"),
    }
    moments = Moments()
    lines = "\n".join(_line(past, words, moments) for past in rows)
    return SafeString(f'<ul class="rows card quiet">\n{lines}\n</ul>')


def _line(past: Past, words: Mapping[str, str], moments: Moments) -> str:
    pause, work, decision = past.pause, past.work, past.decision
    question = pause.question.replace("Waiting for ", "")
    asked = words["asked"] % {
        "question": invisible.html(question),
        "revision": pause.revision,
    }
    if decision is not None:
        kind, who = escape(decision.action), invisible.html(decision.who)
        of = words["receipt_of"] % {
            "title": escape(invisible.plain(work.title)),
            "action": kind,
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
        f"{invisible.html(work.title)}</a>"
        f"<p>{child}{asked}{_feedback(decision)}</p></div>"
        f'<span class="by">{who} · {moments.since(past.at)}{receipt}</span></li>'
    )


def _feedback(decision: Decision | None) -> str:
    said = decision.feedback if decision is not None else ""
    if len(said) > FEEDBACK:
        said = Truncator(said).chars(FEEDBACK)
    return f": <q>{invisible.html(said)}</q>" if said else ""


def verdict(action: str, labels: Mapping[str, str]) -> SafeString:
    """What was answered, with its icon; labels: of the template's own answers."""
    icon, words = VERDICTS.get(action, ("check", ""))
    said = escape(gettext(words)) if words else invisible.html(labels.get(action) or action)
    return SafeString(f"{_drawn(icon)} {said}")


@cache
def _drawn(icon: str) -> str:
    return str(lucide(icon, size=14, aria_hidden="true"))
