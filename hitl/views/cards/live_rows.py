"""The rows of questions that changed, for the sockets of all open inboxes: each is written once in
a language, whoever looks at it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator

from django.utils import translation

from checkpoints.database import clock
from hitl.find.lists import KINDS
from hitl.live.inbox_feed import RowText
from hitl.views.cards import lines
from hitl.views.cards.rows import QuestionRows, held_by
from hitl.views.lists import reading
from hitl.views.lists.reading import Past, Waiting
from runs.states import PauseStatus


def tell(
    pauses: Collection[uuid.UUID], languages: Collection[str]
) -> dict[tuple[uuid.UUID, str], RowText]:
    """The questions in these languages, as `hitl.live.inbox_feed` hands them to pages: open ones
    as rows without a token and the way back, which the page has; those that are over as lines of
    the history. One that ended without an answer, and not by its deadline, has none.
    """
    keys = list(pauses)
    rows = [row for row in reading.waiting(keys) if row.pause.status == PauseStatus.OPEN]
    over = list(_over(keys))
    found: dict[tuple[uuid.UUID, str], RowText] = {}
    for language in languages:
        with translation.override(language):
            for row in rows:
                found[row.pause.pk, language] = _row(row)
            for past in over:
                line = lines.history([past])
                by = past.decision.decided_by_id if past.decision else None
                found[past.pause.pk, language] = RowText(line, line, by, is_over=True)
    return found


def _row(row: Waiting) -> RowText:
    holder = held_by(row, clock.now())
    free = QuestionRows(holder, KINDS, several=True).html(row)
    held = free if holder is None else QuestionRows(None, KINDS, several=True).html(row)
    return RowText(free, held, holder, is_over=False)


def _over(keys: list[uuid.UUID]) -> Iterator[Past]:
    decided = {past.pause.pk: past for past in reading.answers_to(keys)}
    yield from decided.values()
    for past in reading.lapses(keys):
        if past.pause.pk not in decided and past.pause.status == PauseStatus.EXPIRED:
            yield past
