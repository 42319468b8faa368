"""The rows of questions that changed, for the sockets of all open inboxes: each is written once in
a language, whoever looks at it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator

from django.template.loader import render_to_string
from django.utils import translation

from hitl.find.lists import KINDS
from hitl.live.inbox_feed import RowText
from hitl.views.cards.rows import QuestionRows, held_by
from hitl.views.inbox import open_shown
from hitl.views.lists.history import Past, decisions_shown, lapses_shown
from runs.models import Pause
from runs.states import PauseStatus


def tell(
    pauses: Collection[uuid.UUID], languages: Collection[str]
) -> dict[tuple[uuid.UUID, str], RowText]:
    """The questions in these languages, as `hitl.live.inbox_feed` hands them to pages: open ones
    as rows without a token and the way back, which the page has; those that are over as lines of
    the history. One that ended without an answer, and not by its deadline, has none.
    """
    waiting = list(open_shown().filter(pk__in=pauses, status=PauseStatus.OPEN))
    over = list(_over(pauses))
    found: dict[tuple[uuid.UUID, str], RowText] = {}
    for language in languages:
        with translation.override(language):
            for pause in waiting:
                found[pause.pk, language] = _row(pause)
            for past in over:
                line = render_to_string("hitl/lists/_history.html", {"rows": [past]})
                by = past.decision.decided_by_id if past.decision else None
                found[past.pause.pk, language] = RowText(line, line, by, is_over=True)
    return found


def _row(pause: Pause) -> RowText:
    holder = held_by(pause)
    free = QuestionRows(holder, KINDS, several=True).html(pause)
    held = free if holder is None else QuestionRows(None, KINDS, several=True).html(pause)
    return RowText(free, held, holder.pk if holder else None, is_over=False)


def _over(pauses: Collection[uuid.UUID]) -> Iterator[Past]:
    decided: dict[uuid.UUID, Past] = {}
    for decision in decisions_shown().filter(pause__in=pauses).order_by("decided_at", "pk"):
        if decision.pause is not None:
            decided[decision.pause.pk] = Past(decision.pause, decision, decision.decided_at)
    yield from decided.values()
    for pause in lapses_shown().filter(pk__in=pauses, status=PauseStatus.EXPIRED):
        if pause.pk not in decided and pause.closed_at is not None:
            yield Past(pause, None, pause.closed_at)
