"""What starts scheduled work: beat orders a round, and any worker does it.

A round asks one question by an index: which schedules are to be looked at. Of each it writes down
the occurrences that have become due, in one transaction that begins with a compare-and-set, then
starts those that are open, then notes when to look again. Whoever dies between two of these leaves
a schedule that is still to be looked at, with rows that say what is left to do.

All times are the database's. The schedule's cursor never goes back: where the clock is set back,
what was started before does not start again.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable

from django.db import transaction

from checkpoints.database import locks, outages
from checkpoints.database.rounds import RoundItem
from runs.models import Occurrence, Schedule
from runs.models.schedules import OccurrenceStatus, Overlap
from runs.schedules import starting, times

logger = logging.getLogger(__name__)

BATCH = 25
"""Schedules that one round reads together."""
WINDOW = 500
"""Of so many that are due longest a round takes some."""
AGAIN = dt.timedelta(seconds=10)
"""When a schedule is looked at again whose occurrences wait for earlier work."""
TROUBLE = dt.timedelta(minutes=1)
"""When one is looked at again with which something went wrong."""
GIVE_UP = dt.timedelta(hours=1)
"""For so long an occurrence is tried with which something goes wrong that nobody foresaw."""
WAITING = 10
"""Occurrences of one schedule that may wait for earlier work."""
KEPT = 1_000
"""The latest occurrences that a schedule's history has."""


def start_due(*, now: dt.datetime, limit: int = BATCH, share: float = 0.0) -> int:
    """Look at up to `limit` schedules that are due; gives how many those were.

    Harmless when two run at once, and when one dies at any point.

    Args:
        share: in `[0, 1)`, where to begin among the WINDOW of those that are due longest.
    """
    due = Schedule.objects.due(now=now)
    keys = list(due.order_by("next_at").values_list("pk", flat=True)[:WINDOW])
    place = min(int(share * len(keys)), max(0, len(keys) - limit))
    mine = keys[place : place + limit]
    free = locks.free(Schedule, mine)
    for schedule in due.filter(pk__in=free).order_by("next_at").select_related("owner", "team"):
        with RoundItem(logger, schedule.shown_id) as row:
            look_at(schedule, now=now)
        if row.error is not None:
            with RoundItem(logger, schedule.shown_id):
                _put_off(schedule, row.error, now)
    return len(mine)


def look_at(schedule: Schedule, *, now: dt.datetime) -> None:
    """Write down what has become due of one schedule, start what is open, and note when to look
    again.
    """
    if not _write_down(schedule, now):
        return
    waits = False
    for occurrence in Occurrence.objects.open().filter(schedule=schedule).order_by("at")[:100]:
        if schedule.until and now > times.ends(occurrence.at, schedule.until, schedule.zone):
            words = f"it could not start until {schedule.until}"
            occurrence.settle(OccurrenceStatus.SKIPPED, words, at=now)
            continue
        try:
            starting.check_overlap(schedule)  # spares making an order that the claim refuses
            starting.order(schedule, starting.OccurrenceClaim(schedule, occurrence))
        except starting.StillAtWork as error:
            if schedule.overlap == Overlap.SKIP:
                occurrence.settle(OccurrenceStatus.SKIPPED, f"{error}", at=now)
            else:
                waits = True
                _say(occurrence, f"waits: {error}")
        except starting.NotOpen as error:
            logger.info("%s: %s", occurrence.shown_id, error)
        except starting.OwnerLostRight as error:
            occurrence.settle(OccurrenceStatus.REFUSED, str(error), at=now)
            stop(schedule, str(error), now=now)
            return
        except starting.REFUSALS as error:
            occurrence.settle(OccurrenceStatus.REFUSED, str(error), at=now)
        if waits:
            break
    _look_again(schedule, now, waits=waits)


def _say(occurrence: Occurrence, why: str) -> None:
    if occurrence.why != why:
        Occurrence.objects.open().filter(pk=occurrence.pk).update(why=why)


def _same(schedule: Schedule) -> Callable[..., int]:
    """Change the schedule where nobody has changed it since it was read."""
    return Schedule.objects.filter(
        pk=schedule.pk, enabled=True, version=schedule.version, cursor=schedule.cursor
    ).update


@transaction.atomic(durable=True)
def _write_down(schedule: Schedule, now: dt.datetime) -> bool:
    """Write the rows of what has become due; False where another sweep, or a person, was faster."""
    plan = times.plan(
        schedule.cron,
        schedule.zone,
        since=schedule.cursor,
        now=now,
        catch_up=schedule.catch_up,
        most=schedule.catch_up_most,
    )
    if plan.last is None:
        return True
    if not _same(schedule)(cursor=plan.last):
        return False
    rows = [_due(schedule, at) for at in plan.starts]
    if schedule.overlap == Overlap.QUEUE:
        room = max(0, WAITING - Occurrence.objects.open().filter(schedule=schedule).count())
        for row in rows[room:]:
            row.status, row.settled_at = OccurrenceStatus.SKIPPED, now
            row.why = f"{WAITING} occurrences wait for earlier work already"
    skipped = plan.skipped
    if skipped is not None:
        several = skipped.count > 1
        rows.append(
            Occurrence(
                schedule=schedule,
                at=skipped.first,
                local=starting.describe(skipped.first, schedule),
                until=skipped.last if several else None,
                count=skipped.count,
                status=OccurrenceStatus.SKIPPED,
                why=plan.why
                + (f"; more than the {times.COUNTED} that were counted" if skipped.more else ""),
                settled_at=now,
            )
        )
    # a time that has a row has its order, or its reason, already
    Occurrence.objects.bulk_create(rows, ignore_conflicts=True)
    schedule.cursor = plan.last
    return True


def _due(schedule: Schedule, at: dt.datetime) -> Occurrence:
    return Occurrence(schedule=schedule, at=at, local=starting.describe(at, schedule))


def _look_again(schedule: Schedule, now: dt.datetime, *, waits: bool) -> None:
    following = next(times.after(schedule.cron, schedule.zone, schedule.cursor), None)
    again = now + AGAIN
    if waits:
        following = again if following is None else min(again, following)
    _same(schedule)(next_at=following)
    _forget(schedule)


def _forget(schedule: Schedule) -> None:
    """Drop what is older than the latest KEPT; nothing of it can come again, the cursor is past."""
    rows = Occurrence.objects.filter(schedule=schedule)
    oldest = rows.order_by("-at").values_list("at", flat=True)[KEPT : KEPT + 1]
    for at in oldest:
        rows.filter(at__lte=at).exclude(status=OccurrenceStatus.DUE).delete()


def stop(schedule: Schedule, why: str, *, now: dt.datetime) -> None:
    """Switch a schedule off for a reason that its page shows; what waits is skipped."""
    if not _same(schedule)(enabled=False, stopped_because=why[:1000], next_at=None):
        return
    logger.warning("%s was stopped: %s", schedule.shown_id, why)
    Occurrence.objects.open().filter(schedule=schedule).update(
        status=OccurrenceStatus.SKIPPED, why="the schedule was stopped", settled_at=now
    )


def _put_off(schedule: Schedule, error: Exception, now: dt.datetime) -> None:
    """Look again in a while; what has been tried for long is refused, with the kind of error, but
    for the database's trouble, which passes.
    """
    if not outages.is_trouble(error):
        old = Occurrence.objects.open().filter(schedule=schedule, made_at__lte=now - GIVE_UP)
        words = f"something went wrong on the server ({type(error).__name__}); its log says what"
        old.update(status=OccurrenceStatus.REFUSED, why=words, settled_at=now)
    fresh = Schedule.objects.due(now=now).filter(pk=schedule.pk)
    fresh.update(next_at=now + TROUBLE)
