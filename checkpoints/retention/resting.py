"""Threads that the round of keeping leaves alone: most of what there ever was has ended, and is
young enough, or has nothing left that may go.

When something of a thread goes at the earliest is found out once, after it was looked at; with that
is noted what its checkpoints refer to, so the marking need not read them again. Whoever writes to
the thread writes to its log, and with its next number the note is void. What a thread keeps for
others is kept for runs of its own: forks stay in their thread.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator

from django.db import DEFAULT_DB_ALIAS, transaction
from django.db.models import Exists, Min, OuterRef, QuerySet

from checkpoints import ids
from checkpoints.models import Checkpoint, RestingThread, Thread
from checkpoints.retention import garbage
from checkpoints.retention import rules as keeping
from checkpoints.retention.rules import RetentionPolicy, Rules

NEVER = dt.datetime(9000, 1, 1, tzinfo=dt.UTC)


def awake(*, now: dt.datetime) -> QuerySet[Thread]:
    """The threads that are to be looked at."""
    notes = RestingThread.objects.filter(
        thread=OuterRef("pk"), seq=OuterRef("last_seq"), until__gt=now
    )
    return Thread.objects.exclude(Exists(notes))


def rests(
    thread_id: uuid.UUID,
    last_seq: int,
    policy: RetentionPolicy,
    rules: Rules,
    *,
    now: dt.datetime,
    hold: Callable[[], None],
) -> bool:
    """Whether a thread can be left alone now; if so, that is noted, with how long.

    Args:
        last_seq: where its log ended before any of it was looked at.
    """
    going = keeping.droppable(thread_id, policy, rules, now=now)  # too many, or too old
    if not rules.may_rest(thread_id) or going.exists():
        return False
    until = min(_times(thread_id, policy, rules), default=NEVER)
    if until <= now:
        return False
    mine = Checkpoint.objects.filter(thread=thread_id)
    note = RestingThread(
        thread_id=thread_id,
        seq=last_seq,
        until=until,
        newest=mine.order_by("-pk").values_list("pk", flat=True).first(),
        references=sorted(_references(thread_id)),
    )
    with transaction.atomic(durable=True):
        hold()
        RestingThread.objects.bulk_create(
            [note],
            update_conflicts=True,
            unique_fields=["thread"],
            update_fields=["seq", "until", "newest", "references"],
        )
    return True


def forget(thread_id: uuid.UUID, *, hold: Callable[[], None]) -> None:
    """Take back what was noted of a thread that does not rest: it may name what has gone since, and
    would keep that for as long as the thread goes on. Its checkpoints are read instead.
    """
    with transaction.atomic(durable=True):
        hold()
        RestingThread.objects.filter(thread=thread_id)._raw_delete(using=DEFAULT_DB_ALIAS)


def _times(thread_id: uuid.UUID, policy: RetentionPolicy, rules: Rules) -> Iterator[dt.datetime]:
    """When something of each kind goes, at the earliest: what would ever go, by its age today."""
    days = dt.timedelta(days=policy.days or 0)
    going = keeping.droppable(thread_id, policy, rules, now=NEVER)
    yield from (ids.made_at(key) + days for key in going.values_list("pk", flat=True)[:1])
    events = keeping.droppable_events(thread_id, policy, rules, now=NEVER)
    yield from (event.at + days for event in events.only("at")[:1])
    chunks = keeping.foldable_chunks(thread_id, policy, rules, now=NEVER)
    folded = dt.timedelta(days=policy.chunk_days or 0)
    yield from (chunk.at + folded for chunk in chunks.only("at")[:1])
    memos = keeping.droppable_memos(thread_id, policy, rules, now=NEVER)
    for rows in (memos, *(kind.droppable(thread_id, policy, NEVER) for kind in rules.aging)):
        first = rows.order_by().aggregate(at=Min("created_at"))["at"]
        if first is not None:
            yield first + days


def _references(thread_id: uuid.UUID) -> set[str]:
    found: set[str] = set()
    cursor = ""
    while True:
        digests, cursor = garbage.checkpoints(cursor, garbage.PAGE, thread_id=thread_id)
        found |= digests
        if not cursor:
            return found


def _moving(cursor: str, limit: int) -> tuple[set[str], str]:
    """What checkpoints refer to of which no note knows, as a `garbage.Source`."""
    notes = RestingThread.objects.filter(
        thread=OuterRef("thread"), seq=OuterRef("thread__last_seq"), newest__gte=OuterRef("pk")
    )
    return garbage.checkpoints(cursor, limit, rows=Checkpoint.objects.exclude(Exists(notes)))


def _noted(cursor: str, limit: int) -> tuple[set[str], str]:
    """What the notes know, as a `garbage.Source`; also those that are void by now: a thread that
    goes on builds on what it had.
    """
    rows = RestingThread.objects.exclude(references=[]).only("references").order_by("pk")
    return garbage.page(
        rows.filter(pk__gt=cursor) if cursor else rows, limit, lambda row: row.references
    )


SOURCES = {"moving checkpoints": _moving, "resting threads": _noted}
"""Together what all checkpoints refer to. Not called `checkpoints`: a version that knows no notes
reads all of them.
"""
