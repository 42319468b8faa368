"""What people ask of a checkpoint: which events belong to its step, how its branch went, who may
read its state.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import connection
from django.utils.translation import pgettext

from checkpoints import ids
from checkpoints.forensics.diff import Comparison
from checkpoints.lineage import Branch, Node
from checkpoints.models import Checkpoint, Event, EventKind
from checkpoints.models.labels import CONTEXT
from checkpoints.security import observers
from checkpoints.text.states import WORDS, state_words

STEP_EVENTS = 300
"""Events of one step that are shown, chunks of streamed text left out."""
AHEAD = 500
"""Checkpoint events between the time of a checkpoint and its own, at most: a few milliseconds'
worth.
"""
CLOSE = dt.timedelta(milliseconds=5)
BEGINS = {EventKind.STEP_STARTED, EventKind.APPROVAL_RECEIVED, EventKind.CHECKPOINT_CREATED}
"""With these the log turns to the next checkpoint."""
ENDS_SHOWN = 3
"""Checkpoints at each end of a branch that its outline names, whatever they are."""


def may_read_state(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether this member of staff may see what is in a state.

    The one place to ask, for pages and downloads of the admin.
    """
    return bool(
        getattr(user, "has_perm", lambda _: False)("checkpoints.view_checkpoint")
    ) and observers.may_see_state(user)


def events_of(checkpoint: Checkpoint) -> list[Event]:
    """The events of the step that ended in a checkpoint, oldest first: three queries, however long
    the log.

    An event belongs to the first `checkpoint_created` that follows it; what the same commit says
    after that, to this one too.
    """
    seq = _seq_of(checkpoint)
    if seq is None:
        return []
    near = Event.objects.filter(
        thread=checkpoint.thread_id,
        run_id=checkpoint.run_id,
        seq__gt=seq - 4 * STEP_EVENTS,
        seq__lte=seq + 20,
    )
    events = list(
        near.exclude(kind=EventKind.STREAMING_CHUNK).order_by("-seq")[: STEP_EVENTS + 20]
    )[::-1]
    place = next(index for index, event in enumerate(events) if event.seq == seq)
    return events[_first(events, place) : _end(events, place)]


def _first(events: Sequence[Event], place: int) -> int:
    """The first event of the step whose checkpoint is told at `place`."""
    first = place
    while first > 0 and events[first - 1].kind != EventKind.CHECKPOINT_CREATED:
        first -= 1
    return first if first == 0 else min(_end(events, first - 1), place)


def _end(events: Sequence[Event], place: int) -> int:
    end = place + 1
    while end < len(events) and events[end].kind not in BEGINS:
        end += 1
    return end


def _seq_of(checkpoint: Checkpoint) -> int | None:
    """The number of the event that announced a checkpoint: the first of its name after what is
    surely older.
    """
    events = Event.objects.filter(thread=checkpoint.thread_id, kind=EventKind.CHECKPOINT_CREATED)
    events = events.filter(
        seq__gt=_older_than(checkpoint.thread_id, checkpoint.created_at - CLOSE)
    ).order_by("seq")
    for seq, data in events.values_list("seq", "data")[:AHEAD]:
        if isinstance(data, dict) and data.get("checkpoint_id") == checkpoint.shown_id:
            return int(seq)
    return None


def _older_than(thread_id: uuid.UUID, at: dt.datetime) -> int:
    """The last number of a thread's log that is older than `at`: bisection in one query, since
    times rise with the numbers.

    Where events were pruned, the next one that is kept answers for them.
    """
    earlier = """COALESCE((SELECT at FROM checkpoints_event WHERE thread_id = %s AND seq >= (low +
        high + 1) / 2
                           ORDER BY seq LIMIT 1) < %s, 1 = 0)"""
    sql = f"""
        WITH RECURSIVE search (low, high) AS (
            SELECT CAST(0 AS bigint), last_seq FROM checkpoints_thread WHERE id = %s
            UNION ALL
            SELECT CASE WHEN {earlier} THEN (low + high + 1) / 2 ELSE low END,
                   CASE WHEN {earlier} THEN high ELSE (low + high + 1) / 2 - 1 END
            FROM search WHERE low < high
        )
        SELECT max(low) FROM search"""  # noqa: S608  # only our own words in it
    key = Checkpoint._meta.pk.get_db_prep_value(thread_id, connection)
    when = connection.ops.adapt_datetimefield_value(at)
    with connection.cursor() as cursor:
        cursor.execute(sql, [key, key, when, key, when])
        return int(cursor.fetchone()[0] or 0)


@dataclass(frozen=True, slots=True)
class Item:
    """A line in a branch's outline: a checkpoint with the branches that left it, or a stretch of
    ordinary ones.
    """

    node: Node | None
    forks: Sequence[Branch] = ()
    passed: int = 0
    """Checkpoints of the stretch."""


def outline(branch: Branch) -> list[Item]:
    """A branch as a person reads it: its ends, where others left it, where it waited, failed or
    ended; the rest as stretches.
    """
    forks: dict[uuid.UUID | None, list[Branch]] = {}
    for fork in branch.forks:
        forks.setdefault(fork.start, []).append(fork)
    items: list[Item] = []
    for index, node in enumerate(branch.nodes):
        at_end = index < ENDS_SHOWN or index >= len(branch.nodes) - ENDS_SHOWN
        if at_end or node.id in forks or (node.status != "active" and len(items) < STEP_EVENTS):
            items.append(Item(node, forks.get(node.id, ())))
        elif items and items[-1].node is None:
            items[-1] = Item(None, passed=items[-1].passed + 1)
        else:
            items.append(Item(None, passed=1))
    return items


def beside(comparison: Comparison) -> list[tuple[str, str, str]]:
    """What differs beside the state, as words."""
    return [
        (pgettext(CONTEXT, name.replace("_", " ")), _words(then), _words(now))
        for name, then, now in comparison.fields
    ]


def _words(value: Any) -> str:
    return (
        ids.show("run", value)
        if isinstance(value, uuid.UUID)
        else state_words(value)
        if value in WORDS
        else str(value)
        if value != ""
        else "-"
    )
