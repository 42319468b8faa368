"""The round of keeping: drop what is old thread by thread, then mark what is referred to, then free
what is not; then rest.

It goes on where it stopped, in pieces, by whoever finds it due: the sweep gives it a moment each
time, `manage.py prune` does all of it.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db import DEFAULT_DB_ALIAS, IntegrityError, OperationalError, transaction
from django.db.models import Exists, QuerySet

from checkpoints import ids
from checkpoints.database import clock, outages
from checkpoints.database.rounds import RoundItem
from checkpoints.models import Chore, Mark, Thread
from checkpoints.retention import garbage, resting
from checkpoints.retention import rules as keeping
from checkpoints.retention.jobs import ClaimLost, RoundClaim, claim
from checkpoints.retention.rules import RetentionPolicy, Rules, Tally

logger = logging.getLogger(__name__)

NAME = "keeping"
THREADS = 100
"""Threads whose policies are looked up at once."""


class HousekeepingBusy(Exception):
    """Another process is dropping what is old at this moment."""

    code = "keeping_busy"


def due() -> list[QuerySet[Any]]:
    """One of them has a row where `tend` would take a round up, or the next piece of one."""
    chore = Chore.objects.filter(pk=NAME)
    now = clock.FromNow()
    first = Thread.objects.exclude(Exists(chore))  # the first round of all
    return [chore.filter(due_at__lte=now, busy_until__lte=now), first]


def tend(rules: Rules, *, seconds: float, every: dt.timedelta, now: dt.datetime) -> Tally:
    """Do what can be done of a round in some seconds, if one is due; the next begins `every` after
    this one's end.
    """
    held = claim(NAME, now=now)
    return (
        Tally()
        if held is None
        else _work(held, rules, until=time.monotonic() + seconds, every=every, now=now)
    )


def whole(rules: Rules, *, every: dt.timedelta, now: dt.datetime) -> Tally:
    """A whole round from its beginning. Raises HousekeepingBusy."""
    held = claim(NAME, now=now, early=True)
    if held is None:
        raise HousekeepingBusy(
            "Another process drops what is old at this moment; nothing was done. Try again "
            "in a minute."
        )
    held.place = {}
    return _work(held, rules, until=float("inf"), every=every, now=now)


def _work(
    held: RoundClaim, rules: Rules, *, until: float, every: dt.timedelta, now: dt.datetime
) -> Tally:
    tally, ended = Tally(), False
    try:
        for part in _round(held, rules, now):
            tally += part
            if time.monotonic() > until:
                break
        else:
            ended, held.place = True, {"version": held.place.get("version")}
    except ClaimLost:
        return tally
    held.release(due_at=clock.now() + every if ended else now)
    return tally


def _round(held: RoundClaim, rules: Rules, now: dt.datetime) -> Iterator[Tally]:
    """Pieces of a round from where it stands; each leaves its place in the claim."""
    place = held.place
    if "phase" not in place:
        version = rules.version()
        everything = place.get("version") != version
        place |= {"phase": "drop", "version": version, "everything": everything}
    if place["phase"] == "drop":
        yield from _drop(held, rules, now)
        _begin_marking(held)
    if place["phase"] == "mark":
        yield from _mark(held, {**resting.SOURCES, **rules.sources})
        place |= {"phase": "free", "kind": "chunks", "cursor": ""}
    yield from _free(held)
    with transaction.atomic(durable=True):
        held.hold()
        Mark.objects.all()._raw_delete(using=DEFAULT_DB_ALIAS)


def _threads(after: str, threads: QuerySet[Thread]) -> dict[uuid.UUID, int]:
    """The next threads, each with the number at which its log ends."""
    threads = threads.order_by("pk")
    rows = (threads.filter(pk__gt=after) if after else threads).values_list("pk", "last_seq")
    return dict(rows[:THREADS])


def _drop(held: RoundClaim, rules: Rules, now: dt.datetime) -> Iterator[Tally]:
    place = held.place
    place.setdefault("cursor", "")
    if "newest" not in place:
        newest = Thread.objects.order_by("-pk").values_list("pk", flat=True).first()
        place["newest"] = "" if newest is None else str(newest)
    if not place["newest"]:
        return
    # one that a version before this one began has all
    everything = place.get("everything", True)
    threads = Thread.objects.all() if everything else resting.awake(now=now)
    # ids follow time: where threads come as fast as this goes, the round ends all the same, and the
    # next one begins with those that have come of age behind it
    threads = threads.filter(pk__lte=place["newest"])
    while page := _threads(place["cursor"], threads):
        policies = rules.policies(list(page))
        for thread_id, last_seq in page.items():
            try:
                with RoundItem(
                    logger, ids.show(Thread.PREFIX, thread_id), but=(IntegrityError, ClaimLost)
                ):
                    yield from _visit(held, thread_id, last_seq, policies[thread_id], rules, now)
            except (IntegrityError, OperationalError) as error:
                if isinstance(error, OperationalError) and not outages.is_about_rows(error):
                    raise
                # somebody holds one of its rows, or began to need it just then; another round looks
                # again
                logger.warning(
                    "nothing was dropped of %s this time: %s",
                    ids.show(Thread.PREFIX, thread_id),
                    error,
                )
            place["cursor"] = str(thread_id)
            yield Tally()


def _visit(
    held: RoundClaim,
    thread_id: uuid.UUID,
    last_seq: int,
    policy: RetentionPolicy,
    rules: Rules,
    now: dt.datetime,
) -> Iterator[Tally]:
    def rests() -> bool:
        return resting.rests(thread_id, last_seq, policy, rules, now=now, hold=held.hold)

    if not rests():
        yield from _drop_of(held, thread_id, policy, rules, now)
        if not rests():
            resting.forget(thread_id, hold=held.hold)


def _drop_of(
    held: RoundClaim, thread_id: uuid.UUID, policy: RetentionPolicy, rules: Rules, now: dt.datetime
) -> Iterator[Tally]:
    going = keeping.droppable(thread_id, policy, rules, now=now)
    after: str | None = "" if going.exists() else None
    while after is not None:
        tally, after = keeping.drop_checkpoints(thread_id, going, hold=held.hold, after=after)
        yield tally
    events = keeping.droppable_events(thread_id, policy, rules, now=now)
    while (dropped := keeping.drop_events(thread_id, events, hold=held.hold)).rows:
        yield dropped
    chunks = keeping.foldable_chunks(thread_id, policy, rules, now=now)
    while (dropped := keeping.fold_chunks(thread_id, chunks, hold=held.hold)).rows:
        yield dropped
    memos = keeping.droppable_memos(thread_id, policy, rules, now=now)
    while (dropped := keeping.drop_memos(memos, hold=held.hold)).rows:
        yield dropped
    for kind in rules.aging:
        aged = kind.droppable(thread_id, policy, now)
        while (dropped := keeping.drop_aged(kind, aged, hold=held.hold)).rows:
            yield dropped


def _begin_marking(held: RoundClaim) -> None:
    with transaction.atomic(durable=True):
        version = held.place.get("version")
        held.place.clear()
        held.place.update(
            {
                "phase": "mark",
                "cursor": "",
                "since": clock.now().isoformat(),
                "version": version,
            }
        )
        held.hold()
        Mark.objects.all()._raw_delete(using=DEFAULT_DB_ALIAS)  # of a round that did not end


def _mark(held: RoundClaim, sources: Mapping[str, garbage.Source]) -> Iterator[Tally]:
    """Mark what the sources refer to.

    The claim names those that were read to their end, so a version of this program that knows other
    ones may go on with the round.
    """
    place = held.place
    place.setdefault("read", [])
    while left := [name for name in sources if name not in place["read"]]:
        name = place.get("reading", "")
        if name not in left:
            name, place["cursor"] = left[0], ""
        place["reading"] = name
        digests, place["cursor"] = sources[name](place["cursor"], garbage.PAGE)
        if not place["cursor"]:
            place["read"] = [*place["read"], name]
        _mark_these(held, digests)
        yield Tally()


def _free(held: RoundClaim) -> Iterator[Tally]:
    place = held.place
    since = dt.datetime.fromisoformat(place["since"])
    while place["kind"]:
        kind = garbage.KINDS[place["kind"]]
        keys, after = garbage.next_unmarked(kind, place["cursor"], since=since)
        if not keys:
            place |= {"kind": "blobs" if place["kind"] == "chunks" else "", "cursor": ""}
            continue
        tally, place["cursor"] = Tally(), after
        with transaction.atomic(durable=True):
            held.hold()
            tally.add(place["kind"], *garbage.remove(kind, keys, since=since))
        yield tally


def report(rules: Rules, *, now: dt.datetime) -> Tally:
    """What `whole` would drop, without dropping it; marks are its scratch paper.

    Raises HousekeepingBusy.
    """
    held = claim(NAME, now=now, early=True)
    if held is None:
        raise HousekeepingBusy(
            "Another process drops what is old at this moment; nothing was looked at. Try "
            "again in a minute."
        )
    tally, since = Tally(), clock.now()
    held.place = {}
    _begin_marking(held)
    after = ""
    while page := _threads(after, Thread.objects.all()):
        policies = rules.policies(list(page))
        for thread_id in page:
            tally += _look(held, thread_id, policies[thread_id], rules, now)
            after = str(thread_id)
    aging = {kind.kind for kind in rules.aging}
    others = {name: source for name, source in rules.sources.items() if name not in aging}
    for _ in _mark(held, others):
        pass
    for name, kind in garbage.KINDS.items():
        tally.add(name, *garbage.weigh(garbage.unmarked(kind, since=since)))
    _begin_marking(held)
    held.place = {}
    held.release(due_at=now)
    return tally


def _look(
    held: RoundClaim, thread_id: uuid.UUID, policy: RetentionPolicy, rules: Rules, now: dt.datetime
) -> Tally:
    """What would go of a thread; what its other checkpoints refer to is marked."""
    tally = Tally()
    going = keeping.droppable(thread_id, policy, rules, now=now)
    keys = set(going.values_list("pk", flat=True))
    tally.add(
        "checkpoints",
        len(keys),
        sum(keeping.weight(going.order_by(), column) for column in ("body", "metadata")),
    )
    events = keeping.droppable_events(thread_id, policy, rules, now=now).order_by()
    tally.add("events", events.count(), keeping.weight(events, "data"))
    chunks = (
        keeping.foldable_chunks(thread_id, policy, rules, now=now)
        .exclude(seq__in=events.values("seq"))
        .order_by()
    )
    tally.add("chunks_folded", chunks.count(), keeping.weight(chunks, "data"))
    memos = keeping.droppable_memos(thread_id, policy, rules, now=now)
    tally.add("memos", memos.count(), keeping.weight(memos, "value"))
    for kind in rules.aging:
        aged = kind.droppable(thread_id, policy, now)
        tally.add(kind.kind, aged.count(), keeping.weigh(aged.order_by()))
        _mark_these(
            held,
            kind.of(thread_id)
            .exclude(pk__in=aged.order_by().values("pk"))
            .values_list("digest", flat=True),
        )
    cursor = ""
    while True:
        digests, cursor = garbage.checkpoints(
            cursor, garbage.PAGE, thread_id=thread_id, without=keys
        )
        _mark_these(held, digests)
        if not cursor:
            return tally


def _mark_these(held: RoundClaim, digests: Iterable[str]) -> None:
    with transaction.atomic(durable=True):
        held.hold()
        garbage.mark(digests)
