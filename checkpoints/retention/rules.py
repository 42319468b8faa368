"""Drop old rows of a thread: by age and by count, in small transactions, and never a row that
anything still needs.

Before a checkpoint goes, the checkpoints that build on it are written anew as snapshots: the same
state, under the same digest, behind the nearest ancestor that stays. That is the one place where a
checkpoint's row changes, and only its columns in `store.REWRITTEN` do.

Of the log only the beginning goes: `Thread.first_seq` says where the log begins now. The one
exception is streamed text, which is folded into the result of its step: its numbers are missing in
the middle, `Thread.folded` counts them, and `log.told_after` tells readers so.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import DEFAULT_DB_ALIAS, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Length

from checkpoints import ids, store
from checkpoints.models import Checkpoint, CheckpointStatus, Event, EventKind, Memo, Thread
from checkpoints.retention.garbage import Source
from checkpoints.state import codec
from checkpoints.store import bodies

BATCH = 200
"""Checkpoints in one transaction."""
REBASED = 20
"""Checkpoints that one transaction writes anew at most: the larger a state, the more that costs."""
LINES = 2000
"""Events or memos in one transaction."""


@dataclass(frozen=True, kw_only=True)
class RetentionPolicy:
    """How long rows are kept, and how many checkpoints; None sets no limit."""

    days: float | None = None
    count: int | None = None
    chunk_days: float | None = None
    """Days for which streamed text is kept of a step that is done, since the step's result stands
    for the text then; None keeps the text as long as the log.
    """


Droppable = Callable[[uuid.UUID, RetentionPolicy, dt.datetime], QuerySet[Any]]
"""(thread, policy, now) → the rows of a thread that may lose the blob that they name, oldest first.
"""


@dataclass(frozen=True, kw_only=True)
class Aging:
    """A kind of rows of the layers above: each names a blob, and lets it go when the row is old;
    the row stays and says so.
    """

    kind: str
    source: Source
    """Reads the blobs that the rows refer to; `Rules.sources` has it under `kind`. Each row has
    `created_at`.
    """
    of: Callable[[uuid.UUID], QuerySet[Any]]
    """Gives the rows of a thread that still have their text, which their column `digest` names."""
    droppable: Droppable
    drop: Callable[[QuerySet[Any]], None]
    """Lets go of the blobs that some rows name. Called inside a transaction."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The knowledge of the layers above: this module knows neither runs nor the questions that
    people were asked.
    """

    policies: Callable[[Sequence[uuid.UUID]], Mapping[uuid.UUID, RetentionPolicy]]
    """Gives the policy of each of these threads."""
    spared: Sequence[Exists]
    """A checkpoint for which one of these conditions holds is never dropped."""
    live_runs: Callable[[uuid.UUID], Sequence[uuid.UUID]]
    """Gives the runs of a thread that have not ended."""
    sources: Mapping[str, Source]
    """By name, the readers of all rows but checkpoints that refer to blobs and chunks."""
    aging: Sequence[Aging] = ()
    may_rest: Callable[[uuid.UUID], bool] = lambda thread_id: False
    """Whether the log of a thread gets a line before anything is written to the thread, and before
    anything of the layers above ends.
    """
    version: Callable[[], str] = lambda: ""
    """Gives one version for all policies: where the round before saw another one, this round looks
    at every thread.
    """


@dataclass
class Tally:
    """Rows and bytes by kind."""

    rows: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, rows: int, bytes: int) -> None:
        self.rows[kind] += rows
        self.bytes[kind] += bytes

    def __iadd__(self, other: Tally) -> Tally:
        self.rows.update(other.rows)
        self.bytes.update(other.bytes)
        return self


def droppable(
    thread_id: uuid.UUID, policy: RetentionPolicy, rules: Rules, *, now: dt.datetime
) -> QuerySet[Checkpoint]:
    """Select the checkpoints of a thread that its policy lets go, oldest first.

    Never among them: the first checkpoint, the head (which is the newest of a live run), those that
    wait or waited for an answer, and those that are spared.
    """
    bounds = []
    if policy.days is not None:
        bounds.append(ids.floor(now - dt.timedelta(days=policy.days)))
    mine = Checkpoint.objects.filter(thread=thread_id, graph=None)  # a graph's saver drops its own
    if policy.count is not None:
        bounds += mine.order_by("-pk").values_list("pk", flat=True)[policy.count - 1 : policy.count]
    if not bounds:
        return mine.none()
    head = Thread.objects.filter(pk=thread_id, head__isnull=False).values("head")
    going = (
        mine.filter(pk__lt=max(bounds), parent__isnull=False)
        .exclude(status=CheckpointStatus.PENDING_INPUT)
        .exclude(pk__in=head)
    )
    return going.filter(*(~spared for spared in rules.spared)).order_by("pk")


def steps_done() -> QuerySet[Checkpoint]:
    """Select the checkpoints that steps wrote: each carries out the step that its parent named.

    The others repeat the node and the loop of their parent, or name no node: a run's first
    checkpoint, that of an answer, and that of a stop before a step. The last checkpoint of a failed
    or cancelled run holds no result.
    """
    results = (CheckpointStatus.ACTIVE, CheckpointStatus.PENDING_INPUT, CheckpointStatus.COMPLETED)
    ran = Checkpoint.objects.filter(
        graph=None, parent__next_step=F("node_id"), status__in=results
    ).exclude(node_id="")
    return ran.exclude(
        parent__node_id=F("node_id"), parent__loop_num=F("loop_num"), parent__run_id=F("run_id")
    )


@transaction.atomic(durable=True)
def drop_checkpoints(
    thread_id: uuid.UUID, going: QuerySet[Checkpoint], *, hold: Callable[[], None], after: str
) -> tuple[Tally, str | None]:
    """Drop a batch of `droppable` checkpoints that come after the key `after`; give the key to go
    on from, or None where no more are left.

    `hold` begins the transaction and raises where another process does this work now.
    """
    hold()
    # this locks the thread's row, so its head stays where it is; the query below then looks again
    # which checkpoints are droppable
    Thread.objects.filter(pk=thread_id).update(first_seq=F("first_seq"))
    # mypy has a type of its own for rows of `values()`; a plain dict will do
    batch: list[dict[str, Any]] = list(
        (going.filter(pk__gt=after) if after else going).values(  # type: ignore[arg-type]
            "pk", "parent_id", "dropped_before"
        )[:BATCH]
    )
    rows = {row["pk"]: row for row in batch}
    children, all_of_them = _rebase(rows, limit=REBASED)
    # more checkpoints build on the first one than a batch may write anew: it goes alone
    if batch and not rows and not all_of_them:
        rows = {batch[0]["pk"]: batch[0]}
        children, _ = _rebase(rows, limit=None)
    tally = _drop(thread_id, rows, children)
    if rows and not all_of_them:
        return tally, after
    return tally, str(batch[-1]["pk"]) if len(batch) == BATCH else None


def _drop(
    thread_id: uuid.UUID, rows: Mapping[uuid.UUID, Any], children: Sequence[Checkpoint]
) -> Tally:
    tally = Tally()
    if not rows:
        return tally
    affected = steps_done().filter(thread=thread_id)
    before = affected.filter(pk__in=[*rows, *(child.pk for child in children)]).count()
    for child in children:
        Checkpoint.objects.filter(pk=child.pk).update(
            **{name: getattr(child, name) for name in store.REWRITTEN}
        )
    mine = Checkpoint.objects.filter(pk__in=list(rows))
    tally.add("checkpoints", len(rows), weight(mine, "body") + weight(mine, "metadata"))
    tally.add("rebased", len(children), sum(child.size for child in children))
    bodies.drop_on_commit(mine.values_list("body", flat=True))
    # Django's collector would refuse these rows, which are each other's parents. The database's
    # foreign keys still hold
    mine._raw_delete(using=DEFAULT_DB_ALIAS)
    balance = (
        F("step_balance")
        + before
        - affected.filter(pk__in=[child.pk for child in children]).count()
    )
    Thread.objects.filter(pk=thread_id).update(step_balance=balance)
    return tally


def _rebase(
    rows: dict[uuid.UUID, dict[str, Any]], *, limit: int | None
) -> tuple[list[Checkpoint], bool]:
    """Make snapshots, unsaved, of the children of checkpoints that go; give them, and whether the
    limit allowed all children.

    `rows` loses the checkpoints that children beyond the limit, and damaged children, still need.
    """
    children = list(
        Checkpoint.objects.filter(parent__in=list(rows)).exclude(pk__in=list(rows)).order_by("pk")
    )
    ready: list[Checkpoint] = []
    for child in children[:limit]:
        if _make_snapshot(child):
            ready.append(child)
        else:
            _spare(child, rows)
    for child in children[len(children) if limit is None else limit :]:
        _spare(child, rows)
    moved = [child for child in ready if child.parent_id in rows]
    for child in moved:
        while child.parent_id in rows:
            child.dropped_before += 1 + rows[child.parent_id]["dropped_before"]
            child.parent_id = rows[child.parent_id]["parent_id"]
    return moved, limit is None or len(children) <= limit


def _make_snapshot(child: Checkpoint) -> bool:
    """Make a snapshot of a checkpoint's row, unsaved.

    False where the state cannot be read: then the row is left as it is, for the person who looks
    into the damage.
    """
    try:
        if not child.is_snapshot:
            store.rewrite(child, codec.state(store.load(child)))
    except store.CheckpointDamaged:
        return False
    return True


def _spare(child: Checkpoint, rows: dict[uuid.UUID, dict[str, Any]]) -> None:
    """Take the ancestors of a checkpoint out of the rows that go."""
    at = child.parent_id
    while at in rows:
        at = rows.pop(at)["parent_id"]


def weight(rows: QuerySet[Any], column: str) -> int:
    """Count the bytes of a column: canonical JSON is ASCII, so a character is a byte."""
    return rows.aggregate(bytes=Sum(Length(column)))["bytes"] or 0


def droppable_events(
    thread_id: uuid.UUID, policy: RetentionPolicy, rules: Rules, *, now: dt.datetime
) -> QuerySet[Event]:
    """Select the beginning of a thread's log: all events before the first that is young or a live
    run's. The last event stays in any case, so that no log is empty.
    """
    events = Event.objects.filter(thread=thread_id).order_by("seq")
    if policy.days is None:
        return events.none()
    stays = Q(at__gte=now - dt.timedelta(days=policy.days)) | Q(
        run_id__in=rules.live_runs(thread_id)
    )
    first = events.filter(stays).values_list("seq", flat=True).first()
    last = Thread.objects.values_list("last_seq", flat=True).get(pk=thread_id)
    return events.filter(seq__lt=last if first is None else min(first, last))


@transaction.atomic(durable=True)
def drop_events(thread_id: uuid.UUID, going: QuerySet[Event], *, hold: Callable[[], None]) -> Tally:
    """Drop a batch of `droppable_events`."""
    hold()
    tally = Tally()
    seqs = list(going.values_list("seq", flat=True)[:LINES])
    if not seqs:
        return tally
    mine = Event.objects.filter(thread=thread_id, seq__lte=seqs[-1])
    steps = mine.filter(kind=EventKind.STEP_COMPLETED).count()
    # the thread's row first, as every writer of the log does
    Thread.objects.filter(pk=thread_id).update(step_balance=F("step_balance") - steps)
    tally.add("events", len(seqs), weight(mine, "data"))
    mine._raw_delete(using=DEFAULT_DB_ALIAS)
    _count_again(thread_id, dropped=len(seqs))
    return tally


def _count_again(thread_id: uuid.UUID, *, dropped: int) -> None:
    """Store where the log begins now, and how many of the numbers after that stand for folded text:
    `dropped` rows went just now.

    Call inside a transaction, with the thread's row locked.
    """
    first = (
        Event.objects.filter(thread=thread_id).order_by("seq").values_list("seq", flat=True).first()
    )
    assert first is not None  # the last event always stays
    Thread.objects.filter(pk=thread_id).update(
        first_seq=first, folded=F("folded") + dropped - (first - F("first_seq"))
    )


def foldable_chunks(
    thread_id: uuid.UUID, policy: RetentionPolicy, rules: Rules, *, now: dt.datetime
) -> QuerySet[Event]:
    """Select streamed text whose step's result is in a checkpoint: old enough, of no live run, and
    not the log's last event.

    Of a step that ended without a result the text is all there is, so it stays as long as the log.
    """
    chunks = Event.objects.filter(thread=thread_id, kind=EventKind.STREAMING_CHUNK).order_by("seq")
    if policy.chunk_days is None:
        return chunks.none()
    kept = Event.objects.filter(
        thread=thread_id,
        run_id=OuterRef("run_id"),
        seq__gt=OuterRef("seq"),
        kind=EventKind.STEP_COMPLETED,
    )
    old = chunks.filter(at__lt=now - dt.timedelta(days=policy.chunk_days)).exclude(
        run_id__in=rules.live_runs(thread_id)
    )
    return old.filter(Exists(kept), seq__lt=Thread.objects.filter(pk=thread_id).values("last_seq"))


@transaction.atomic(durable=True)
def fold_chunks(thread_id: uuid.UUID, going: QuerySet[Event], *, hold: Callable[[], None]) -> Tally:
    """Drop a batch of `foldable_chunks`."""
    hold()
    tally = Tally()
    # this locks the thread's row, as every writer of the log does
    Thread.objects.filter(pk=thread_id).update(first_seq=F("first_seq"))
    seqs = list(going.values_list("seq", flat=True)[:LINES])
    if not seqs:
        return tally
    mine = Event.objects.filter(thread=thread_id, seq__in=seqs)
    tally.add("chunks_folded", len(seqs), weight(mine, "data"))
    mine._raw_delete(using=DEFAULT_DB_ALIAS)
    _count_again(thread_id, dropped=len(seqs))
    return tally


def droppable_memos(
    thread_id: uuid.UUID, policy: RetentionPolicy, rules: Rules, *, now: dt.datetime
) -> QuerySet[Memo]:
    """Select the recorded results of old executions: none while a run is live, and never those that
    a retry would take up.
    """
    memos = Memo.objects.filter(thread=thread_id)
    if policy.days is None or rules.live_runs(thread_id):
        return memos.none()
    head = (
        Checkpoint.objects.filter(pk__in=Thread.objects.filter(pk=thread_id).values("head"))
        .only("metadata")
        .first()
    )
    scope = str(head.metadata.get("scope", "")) if head else ""
    return memos.filter(created_at__lt=now - dt.timedelta(days=policy.days)).exclude(scope=scope)


@transaction.atomic(durable=True)
def drop_memos(going: QuerySet[Memo], *, hold: Callable[[], None]) -> Tally:
    """Drop a batch of `droppable_memos`."""
    hold()
    tally = Tally()
    keys = list(going.values_list("pk", flat=True)[:LINES])
    mine = Memo.objects.filter(pk__in=keys)
    if keys:
        tally.add("memos", len(keys), weight(mine, "value"))
        mine._raw_delete(using=DEFAULT_DB_ALIAS)
    return tally


@transaction.atomic(durable=True)
def drop_aged(kind: Aging, going: QuerySet[Any], *, hold: Callable[[], None]) -> Tally:
    """Have a batch of `Aging.droppable` rows let go of their blobs; those that nothing else names
    are removed at the end of the round.
    """
    hold()
    tally = Tally()
    keys = list(going.values_list("pk", flat=True)[:BATCH])
    if keys:
        mine = going.model._default_manager.filter(pk__in=keys)
        tally.add(kind.kind, len(keys), weigh(mine))
        kind.drop(mine)
    return tally


def weigh(rows: QuerySet[Any]) -> int:
    """Count the bytes of the texts that some rows of an Aging name, as their steps gave them."""
    return rows.aggregate(bytes=Sum("size"))["bytes"] or 0
