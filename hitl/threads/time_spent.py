"""Where the time of an order, or of a child run, went, from the events of its thread."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from checkpoints.models import Event, EventKind
from hitl.rendering.diagrams import times
from hitl.rendering.diagrams.times import Moment, Span

MOMENTS = 3000
"""Events of one thread that are looked at; the newest of them."""
LINES = 1000
"""Lines of its log that are looked at for timers and tries; the newest of them."""


@dataclass(frozen=True, kw_only=True)
class TimeSpent:
    """What the events of a thread tell."""

    moments: Sequence[Moment]
    spans: Sequence[Span]
    cut: bool
    """Older events were left out."""


def of_thread(thread_id: uuid.UUID, *, asked_at: dt.datetime, now: dt.datetime) -> TimeSpent:
    """Two queries, whatever the length of the log."""
    events = Event.objects.filter(thread=thread_id).order_by("-seq")
    fields = ("seq", "at", "kind", "data")
    newest = list(
        events.filter(kind__in=(*times.KINDS, *times.ASKS)).values_list(*fields)[: MOMENTS + 1]
    )
    cut = len(newest) > MOMENTS
    lines = [
        row
        for row in events.filter(kind=EventKind.LOG).values_list(*fields)[:LINES]
        if isinstance(row[3], dict) and row[3].get("code") in times.CODES
        if not cut or row[0] > newest[MOMENTS - 1][0]
    ]
    rows = sorted([*newest[:MOMENTS], *lines], key=itemgetter(0))
    moments = [Moment(*row[1:]) for row in rows]
    first = moments[0].at if cut else asked_at
    return TimeSpent(moments=moments, spans=times.spans(moments, asked_at=first, now=now), cut=cut)
