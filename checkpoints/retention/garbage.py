"""Remove the blobs and chunks that nothing refers to any more: those that are left unmarked when
all references have been read.

No list of references is kept, since that would cost every step a write. Instead, from time to time,
all rows that may refer to a blob or chunk are read in pages, and the blobs and chunks that they
name are marked; the unmarked ones are then removed. Why that harms no writer:

- A writer that puts a blob or chunk touches it (`store`), also where it was there already; a blob
  or chunk that was touched within GUARD stays.
- A writer that only takes over a reference has it from a row that was there when the marking began,
  so its blob or chunk is marked: `rules` drops no checkpoint between the first mark and the last
  removal.
- The statement that removes looks at the mark and the touch again.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, transaction
from django.db.models import Exists, OuterRef, QuerySet, Sum
from django.db.models.functions import Length

from checkpoints import store
from checkpoints.database import clock
from checkpoints.models import Blob, Checkpoint, Chunk, Mark

GUARD = dt.timedelta(minutes=15)
"""A writer that put a blob longer ago than this has committed the row that refers to it, or has
lost its lease.
"""
PAGE = 200
TIPS = 20
KINDS: dict[str, type[Blob] | type[Chunk]] = {"chunks": Chunk, "blobs": Blob}
MANY = 1000
"""Digests in one statement."""

Source = Callable[[str, int], tuple[set[str], str]]
"""(cursor, rows) → the digests that the next so many rows refer to, and the cursor after them: ""
where there are no more.
"""


def checkpoints(
    cursor: str,
    limit: int,
    *,
    thread_id: uuid.UUID | None = None,
    without: Collection[uuid.UUID] = (),
    rows: QuerySet[Checkpoint] | None = None,
) -> tuple[set[str], str]:
    """Read what checkpoints refer to, as a Source; with `thread_id` those of one thread, except
    `without`.
    """
    rows = (Checkpoint.objects.all() if rows is None else rows).order_by("pk")
    rows = rows.only("body", "metadata")
    if thread_id is not None:
        rows = rows.filter(thread=thread_id)
    return page(
        rows.filter(pk__gt=cursor) if cursor else rows,
        limit,
        lambda row: () if row.pk in without else store.references(row),
    )


def page(
    rows: QuerySet[Any], limit: int, references: Callable[[Any], Iterable[str]]
) -> tuple[set[str], str]:
    """Read a page of a Source whose rows come in the order of their keys."""
    page_rows = list(rows[:limit])
    digests = {digest for row in page_rows for digest in references(row)}
    return digests, str(page_rows[-1].pk) if len(page_rows) == limit else ""


def mark(digests: Iterable[str]) -> None:
    """Mark blobs and chunks, and the chunks before those. Call inside a transaction."""
    wanted = sorted(digests)
    for start in range(0, len(wanted), MANY):
        some = wanted[start : start + MANY]
        # the SQL has placeholders only, no values
        sql = (
            f"INSERT INTO checkpoints_mark (digest) {_chain(some)} WHERE TRUE ON CONFLICT DO "
            "NOTHING"
        )
        with connection.cursor() as cursor:
            cursor.execute(sql, some)
        blobs = Blob.objects.filter(pk__in=some).values_list("pk", flat=True)
        Mark.objects.bulk_create([Mark(digest=digest) for digest in blobs], ignore_conflicts=True)


def _chain(chunks: Sequence[str], *, whole: bool = False) -> str:
    """Write SQL of our own, since the ORM knows no recursion: some chunks with those before them,
    up to the first marked one or (`whole`) all.

    A marked chunk has its whole chain marked, so a chain is followed once.
    """
    stop = (
        ""
        if whole
        else (
            "WHERE NOT EXISTS (SELECT 1 FROM checkpoints_mark WHERE checkpoints_mark.digest = "
            "older.digest)"
        )
    )
    return f"""
        WITH RECURSIVE chain (digest, previous_id) AS (
            SELECT digest, previous_id FROM checkpoints_chunk WHERE digest IN
            ({", ".join(["%s"] * len(chunks))})
            UNION
            SELECT older.digest, older.previous_id FROM chain JOIN checkpoints_chunk AS older ON
            older.digest = chain.previous_id
            {stop}
        )
        SELECT digest FROM chain"""  # noqa: S608  # placeholders only


def next_unmarked(
    kind: type[Blob] | type[Chunk], after: str, *, since: dt.datetime
) -> tuple[list[str], str]:
    """Give some `unmarked` keys, and the key to go on from; chunks come from the end of their
    chains, each with those before it.
    """
    rows = (
        unmarked(kind, since=since).filter(pk__gt=after).order_by("pk").values_list("pk", flat=True)
    )
    if kind is Blob:
        keys = list(rows[:PAGE])
        return keys, keys[-1] if keys else ""
    tips = list(rows.filter(~Exists(Chunk.objects.filter(previous=OuterRef("pk"))))[:TIPS])
    if not tips:
        return [], ""
    with connection.cursor() as cursor:
        cursor.execute(_chain(tips), tips)
        return [digest for (digest,) in cursor.fetchall()], tips[-1]


def free(digests: Iterable[str], sources: Iterable[Source]) -> dict[str, tuple[int, int]]:
    """Remove those of these blobs and chunks that nothing refers to, as far as that is safe now;
    the next round of retention does the rest.

    For an erasure, which does not wait for a round: all sources are read, and no checkpoint of the
    threads that named these digests is there any more.
    """
    since = clock.now()
    going = _whole(digests)
    for source in (checkpoints, *sources):
        cursor = ""
        while True:
            used, cursor = source(cursor, PAGE)
            if hit := used & going:
                going -= _whole(hit)
            if not cursor:
                break
    freed = {}
    with transaction.atomic(durable=True):
        for name, kind in KINDS.items():
            freed[name] = remove(
                kind,
                list(kind._default_manager.filter(pk__in=going).values_list("pk", flat=True)),
                since=since,
            )
    return freed


def _whole(digests: Iterable[str]) -> set[str]:
    """Add the chunks that come before those of these digests that are chunks."""
    whole = set(digests)
    wanted = sorted(whole)
    for start in range(0, len(wanted), MANY):
        some = wanted[start : start + MANY]
        with connection.cursor() as cursor:
            cursor.execute(_chain(some, whole=True), some)
            whole |= {digest for (digest,) in cursor.fetchall()}
    return whole


def unmarked(kind: type[Blob] | type[Chunk], *, since: dt.datetime) -> QuerySet[Any]:
    """Select what nothing referred to when the marking began at `since`."""
    marks = Mark.objects.filter(pk=OuterRef("pk"))
    return kind._default_manager.filter(~Exists(marks), touched_at__lt=since - GUARD)


def weigh(rows: QuerySet[Any]) -> tuple[int, int]:
    """Count blobs or chunks, and their bytes."""
    weight = rows.aggregate(bytes=Sum(Length("content")))
    return rows.count(), weight["bytes"] or 0


def remove(
    kind: type[Blob] | type[Chunk], keys: Sequence[str], *, since: dt.datetime
) -> tuple[int, int]:
    """Remove those of these keys that are still `unmarked`; give how many, and their bytes.

    Call inside a transaction. A chunk stays, for a later round, where a chunk that stays comes
    after it.
    """
    rows = unmarked(kind, since=since).filter(pk__in=keys)
    if kind is Chunk:
        rows = rows.exclude(pk__in=_followed(dict(rows.values_list("pk", "previous_id"))))
    tally = weigh(rows)
    rows._raw_delete(using=DEFAULT_DB_ALIAS)
    return tally


def _followed(going: dict[str, str | None]) -> set[str]:
    """Find, among chunks with the one before each, those that a staying chunk leads back to."""
    stay: set[str] = set()
    following = (
        Chunk.objects.filter(previous__in=going)
        .exclude(pk__in=going)
        .values_list("previous", flat=True)
    )
    for key in following:
        at: str | None = key
        while at in going and at not in stay:
            stay.add(at)
            at = going[at]
    return stay
