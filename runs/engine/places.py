"""Runs of templates with limits: how many are at work at once, how many begin in a time, and whose
turn it is.

It is decided when a run is claimed, under the rows of its limits, by counting the leases that hold:
no counter can leak, and a killed worker's place is free once its lease has ended. A run without a
place stays pending, holds nothing, and says what it waits for. Its turn comes by the message of
whoever lets a place go, or by the sweep.

Whose turn: runs that have begun, then by the limit's priority, then as `runs.urgency` judges: teams
take turns there, and a run's own priority counts. Who was offered a place and does not
come, because no worker serves its queue, is passed over.

Where a limit has a rate, each run that begins under it leaves a row (`Beginning`), and the next one
waits until the row before which so many began is older than the rate's time. A run that has begun
goes on at any rate.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Coalesce

from checkpoints.database import clock
from checkpoints.database.rounds import RoundItem
from checkpoints.events import log
from checkpoints.models.fields import demand
from checkpoints.state import codec
from checkpoints.state.encryption import KeyMissing, SealBroken
from runs.engine import record
from runs.engine.context.claimed_run import ClaimedRun
from runs.engine.drafts.events import line
from runs.engine.ending import Wake
from runs.models import Beginning, Place, Run, WorkLimit
from runs.models.priority import NORMAL
from runs.states import ENDED, PENDING
from runs.urgency import NewRun, Share, Turns, share_of
from runs.workflows.base import pointers, rates

logger = logging.getLogger(__name__)

OFFER = dt.timedelta(seconds=30)
"""For so long a place that was offered is kept for whom it was offered to."""
LOOK_AGAIN, LOOK_AGAIN_AT_MOST = 15.0, 120.0
"""Seconds until a run that waits asks for itself; more, the more are before it."""
RATE_AT_MOST = 3_600.0
"""Seconds until one asks for itself that a rate holds back, at most."""
LINE = 500
"""Waiting runs of one key that are looked at."""
KEYS = 200
"""Keys that one sweep looks at."""
WHOSE = (
    "run__epoch",
    "limit__priority",
    "run",
    "run__thread__team",
    "run__thread__owner",
    "priority",
    "since",
    "limit__most",
    "limit__rate",
    "run__queue",
    "offered_at",
)


class _Wait(NamedTuple):
    limit: WorkLimit
    key: str
    words: str
    """Why, for people."""
    seconds: float
    """Until it asks again."""


@dataclass(frozen=True)
class _InLine:
    """A run in line for places of one key."""

    begun: bool
    limit_priority: int
    run: NewRun
    most: int
    rate: str
    queue: str
    offered_at: dt.datetime | None = None

    def rank(self, turns: Turns) -> tuple[Any, ...]:
        """The lowest goes first."""
        return (not self.begun, -self.limit_priority, self.run.rank(turns))


def claim(held: ClaimedRun) -> bool:
    """As `record.claim`, of a run whose template has limits; False too where it has to wait."""
    found = list(WorkLimit.objects.acting().filter(template=held.run.frozen.template_slug))
    wanted = [(limit, key) for limit in found if (key := _key(limit, held))]
    if not wanted:
        return record.claim(held)
    with transaction.atomic(durable=True):
        _lock([limit for limit, _ in wanted])
        now = clock.now()
        waits = [
            _Wait(limit, key, words, seconds)
            for limit, key in wanted
            for words, seconds in [_why_wait(limit, key, held.run, now)]
            if words
        ]
        if waits:
            _wait(held, waits, now)
            return False
        if not record.claim(held):
            transaction.set_rollback(True)
            return False
        if not held.run.epoch:
            _note_beginnings(wanted, now)
        Place.objects.filter(run=held.run).delete()
        Place.objects.bulk_create(
            [
                Place(run=held.run, limit=limit, key=key, epoch=held.epoch, since=now)
                for limit, key in wanted
            ]
        )
    return True


def let_go(held: ClaimedRun, *, claimed: bool = True) -> list[Wake]:
    """Free the places of a claim that has ended, or was refused; gives the runs whose turn it
    is.
    """
    # where it was refused, the places of the next epoch are of another worker's claim
    epoch = held.epoch if claimed else held.run.epoch
    places = Place.objects.filter(run=held.run)
    keys = list(places.values_list("key", flat=True))
    places.filter(epoch=epoch).delete()
    return offer(keys)


def offer(keys: Iterable[str]) -> list[Wake]:
    """Let the runs whose turn it is ask for free places of these keys."""
    woken: list[Wake] = []
    for key in dict.fromkeys(keys):
        now = clock.now()
        busy, in_line = _standing(key, None, now)
        if not in_line:
            continue
        turns = Turns.read(busy)
        turn = sorted(in_line, key=lambda one: one.rank(turns))
        held_back = turn[0].rate if turn[0].rate else ""
        free = _may_begin(key, held_back, now) if held_back else len(turn)
        turn = [one for number, one in enumerate(turn) if one.begun or number < free]
        for place, one in enumerate(turn):
            if len(busy) + place >= one.most:
                break
            if one.offered_at is not None:
                continue
            run_id = one.run.run_id
            due = Run.objects.filter(pk=run_id, status=PENDING)
            if due.update(due_at=clock.FromNow()):
                Place.objects.filter(run=run_id, key=key).update(offered_at=now)
                woken.append((run_id, one.queue))
    return woken


def sweep() -> list[Wake]:
    """Offer what killed workers left; forget the places of runs that have ended.

    Asks one question where no template with limits is at work.
    """
    if not Place.objects.exists():
        return []
    Place.objects.filter(run__status__in=sorted(ENDED)).delete()
    waiting = Place.objects.waiting().order_by("since").values_list("key", flat=True)
    woken: list[Wake] = []
    for key in list(dict.fromkeys(waiting[:LINE]))[:KEYS]:
        with RoundItem(logger, "the places of a limit"):
            woken += offer([key])
    return woken


def _key(limit: WorkLimit, held: ClaimedRun) -> str:
    """What the run's place is counted under; "" where the limit is not about it."""
    scope = f"name:{limit.name}" if limit.name else f"limit:{limit.pk}"
    if not limit.pointer:
        return scope[:100]
    try:
        given = demand(held.order.input if held.order is not None else held.run.input)
    except (KeyMissing, SealBroken):
        return ""
    value = pointers.at(given, limit.pointer)
    return "" if value is None else codec.digest(codec.encode([scope, value]))


def _lock(limits: Collection[WorkLimit]) -> None:
    """Let claims of the same places come one after the other; the rows in one order."""
    names = {limit.name for limit in limits if limit.name}
    same = WorkLimit.objects.filter(Q(pk__in=[limit.pk for limit in limits]) | Q(name__in=names))
    list(same.order_by("pk").select_for_update(no_key=True).values_list("pk"))


def _standing(key: str, but: Run | None, now: dt.datetime) -> tuple[list[Share], list[_InLine]]:
    """The teams of the runs at work under a key, and the runs in line that may be waited for."""
    rows = Place.objects.filter(key=key).annotate(
        priority=Coalesce("run__work_order__priority", NORMAL)
    )
    if but is not None:
        rows = rows.exclude(run=but)
    busy = [share_of(*row) for row in rows.at_work().values_list(*WHOSE[3:5])]
    fresh = rows.waiting().filter(Q(offered_at=None) | Q(offered_at__gt=now - OFFER))
    found = fresh.order_by("since").values_list(*WHOSE)[:LINE]
    return busy, [
        _InLine(
            epoch > 0, limit_priority, NewRun(run, share_of(team, owner), priority, since), *rest
        )
        for epoch, limit_priority, run, team, owner, priority, since, *rest in found
    ]


def _why_wait(limit: WorkLimit, key: str, run: Run, now: dt.datetime) -> tuple[str, float]:
    """Why a run may not have a place, "" where it may; and the seconds until it asks again."""
    before = Place.objects.filter(run=run, limit=limit, epoch=None).first()
    busy, ahead = _before(limit, key, run, before.since if before is not None else now, now)
    seconds = min(LOOK_AGAIN + ahead, LOOK_AGAIN_AT_MOST)
    if busy >= limit.most:
        return f"It waits for a place: {busy} of {limit.most} at work ({limit}).", seconds
    if busy + ahead >= limit.most:
        words = f"It waits for its turn: {busy} of {limit.most} at work, {ahead} before it"
        return f"{words} ({limit}).", seconds
    if limit.rate and not run.epoch and (until := _rate_over(key, limit.rate, ahead, now)) > now:
        words = f"It waits for its turn: {limit.rate} begin, {ahead} before it ({limit})."
        return words, min((until - now).total_seconds(), RATE_AT_MOST)
    return "", seconds


def _rate_over(key: str, text: str, ahead: int, now: dt.datetime) -> dt.datetime:
    """When a run may begin before which so many others do."""
    rate = rates.parse(text)
    begun = _begun(key, rate, now)
    if ahead < rate.most - len(begun):
        return now
    turns, place = divmod(ahead - (rate.most - len(begun)), rate.most)
    window = dt.timedelta(seconds=rate.seconds)
    at = begun[place] if place < len(begun) else now
    return at + window * (turns + 1)


def _begun(key: str, rate: rates.Rate, now: dt.datetime) -> list[dt.datetime]:
    """When those began that count for the rate now, the earliest first."""
    since = now - dt.timedelta(seconds=rate.seconds)
    found = Beginning.objects.filter(key=key, at__gt=since).order_by("-at")
    return list(found.values_list("at", flat=True)[: rate.most])[::-1]


def _may_begin(key: str, text: str, now: dt.datetime) -> int:
    """How many may begin now."""
    rate = rates.parse(text)
    return rate.most - len(_begun(key, rate, now))


def _note_beginnings(wanted: Iterable[tuple[WorkLimit, str]], now: dt.datetime) -> None:
    """Note that a run begins under these limits, where they have a rate."""
    for limit, key in wanted:
        if limit.rate:
            window = dt.timedelta(seconds=rates.parse(limit.rate).seconds)
            Beginning.objects.filter(key=key, at__lte=now - window).delete()
            Beginning.objects.create(key=key, at=now)


def _before(
    limit: WorkLimit, key: str, run: Run, since: dt.datetime, now: dt.datetime
) -> tuple[int, int]:
    """How many runs are at work in the places that a run waits for since then, and how many go
    before it.
    """
    busy, in_line = _standing(key, run, now)
    if not in_line:
        return len(busy), 0
    turns = Turns.read(busy)
    mine = _InLine(
        run.epoch > 0,
        limit.priority,
        NewRun(
            run.pk,
            share_of(run.thread.team_id, run.thread.owner_id),
            run.work_order.priority if run.work_order is not None else NORMAL,
            since,
        ),
        limit.most,
        limit.rate,
        run.queue,
    ).rank(turns)
    return len(busy), sum(one.rank(turns) < mine for one in in_line)


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where a run stands in the line for places of a limit."""

    limit: WorkLimit
    since: dt.datetime
    busy: int
    """Runs at work there."""
    ahead: int
    """Runs that go before it."""


def positions(run: Run, *, now: dt.datetime, most: int) -> list[Position]:
    """Where a run stands that waits for places, of up to `most` limits; [] where it waits for
    none.
    """
    waiting = Place.objects.waiting().filter(run=run).select_related("limit").order_by("limit")
    return [
        Position(limit=place.limit, since=place.since, busy=busy, ahead=ahead)
        for place in waiting[:most]
        for busy, ahead in [_before(place.limit, place.key, run, place.since, now)]
    ]


def _wait(held: ClaimedRun, waits: list[_Wait], now: dt.datetime) -> None:
    """Leave the run in line, to ask again in a while; what has not become due stays as it is."""
    run = held.run
    seconds = max(wait.seconds for wait in waits)
    due = Run.objects.filter(
        pk=run.pk, status=PENDING, epoch=run.epoch, due_at__lte=clock.FromNow()
    )
    if not due.update(due_at=clock.FromNow(seconds)):
        return
    known = {place.limit_id: place for place in Place.objects.filter(run=run, epoch=None)}
    since = min((place.since for place in known.values()), default=now)
    Place.objects.filter(run=run).delete()
    Place.objects.bulk_create(
        [
            Place(run=run, limit=wait.limit, key=wait.key, since=since, words=wait.words[:200])
            for wait in waits
        ]
    )
    if not known:
        log.append(run.thread_id, run.pk, [line(waits[0].words, held.progress.at)])
