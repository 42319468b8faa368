"""What an order's page with an open question is told when it looks again: nothing, what changed, or
the whole.

A page says which version it has. What a version is made of is known before anything is rendered:

- `state`: all that decides what this person sees of the order but for the lines below, their rights
  among it, and which questions are open. Another one means the whole page.
- `who`, `answering`: who answers the question on the card, and what this person may do there.
- `seq`: the last event of the thread. The events since say what else changed, and are told alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from django.utils.translation import get_language

from checkpoints.database.people import User
from checkpoints.models import Event, EventKind
from hitl.rendering.paging import ListAddress
from hitl.views.cards.standing import Card
from hitl.views.story import NEW
from runs.models import Pause, Run, WorkOrder

SEPARATOR = "."
WHO, TALK, ANSWERING, LOG, TIMELINE = "who", "talk", "answering", "log", "timeline"
"""Names of parts, as their templates have them in `data-live`."""
CLAIMS = frozenset({"claimed", "released", "taken_over"})
TALKED = frozenset({"commented", "comment_withdrawn"})
"""What a `pause_updated` may say that changes a part alone."""
PART_OF = dict.fromkeys(CLAIMS, ANSWERING) | dict.fromkeys(TALKED, TALK)


class Version(NamedTuple):
    """Which version of a page somebody has."""

    state: str
    who: str
    answering: str
    seq: int

    def __str__(self) -> str:
        return SEPARATOR.join([self.state, self.who, self.answering, str(self.seq)])


def read(tag: str) -> Version | None:
    """The version that a page says it has; None where that is none of ours."""
    state, who, answering, seq, *more = [
        *tag.strip().removeprefix("W/").strip('"').split(SEPARATOR, 4),
        *[""] * 3,
    ][:5]
    if any(more) or not (seq.isascii() and seq.isdecimal() and len(seq) < 19):
        return None
    return Version(state, who, answering, int(seq))


class Looked(NamedTuple):
    """What is read of an order at each look, before it is known what changed."""

    order: WorkOrder
    observes: bool
    pauses: Sequence[Pause]
    below: Sequence[Run]
    standing: Card | None
    """How the person stands to the question on the card."""


def version_of(looked: Looked, here: ListAddress, *, by: User) -> Version | None:
    """The version of the page at this address; None where it asks nothing: what else may stand on
    its card then is no matter of the order alone.
    """
    order, run, card = looked.order, looked.order.latest_run, looked.standing
    if card is None or run is None:
        return None
    thread, pause, seats = order.thread, card.pause, card.standing.seats
    state = (
        *(by.pk, by.is_superuser, looked.observes, getattr(order, "may_raise", None)),
        *(get_language(), str(here), order.priority, getattr(order, "asked_again_as", None)),
        *(thread.head_id, thread.first_seq, thread.team_id),
        *[_of_run(one) for one in (run, *looked.below)],
        *[(one.thread_id, one.thread.last_seq, one.thread.head_id) for one in looked.below],
        *[(one.pk, one.revision) for one in looked.pauses],
        pause.pk,
    )
    who = (
        *(pause.stage, pause.turn, pause.approvals, pause.deadline_at, card.stage),
        *(bool(card.approve), card.handed_to, *(seat.pk for seat in seats)),
    )
    answering = (card.key, pause.overdue, pause.claimed_until, card.stage)
    return Version(_digest(state), _digest(who), _digest(answering), thread.last_seq)


def _of_run(run: Run) -> tuple[object, ...]:
    wish = run.suspend_by, run.suspend_because
    return (run.pk, str(run.status), run.awaited, *wish, run.due_at, run.ended_at)


def _digest(values: tuple[object, ...]) -> str:
    return hashlib.blake2b(repr(values).encode(), digest_size=12).hexdigest()


def changed(before: Version, now: Version, events: Sequence[Event]) -> frozenset[str] | None:
    """The names of the parts that changed between two versions; None where the page is told whole.

    Args:
        events: what happened between them, as `hitl.views.story.since` gives it.
    """
    if before.state != now.state or before.seq > now.seq or len(events) > NEW:
        return None
    parts: set[str] = set()
    if before.who != now.who:
        parts |= {WHO, ANSWERING}
    if before.answering != now.answering:
        parts.add(ANSWERING)
    for event in events:
        parts.add(LOG if event.kind == EventKind.LOG else TIMELINE)
        if event.kind == EventKind.PAUSE_UPDATED:
            what = event.data.get("what") if isinstance(event.data, dict) else ""
            part = PART_OF.get(str(what))
            parts |= {WHO, ANSWERING, TALK} if part is None else {part}
    return frozenset(parts)
