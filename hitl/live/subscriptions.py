"""What may be followed live (a thread, a run, a work order), by whom, which of its events, and
where it ends. SSE and sockets alike.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from checkpoints import ids
from checkpoints.database.people import User
from checkpoints.events.log import Envelope
from checkpoints.models import Event, EventKind
from hitl.decisions import services, visibility
from hitl.live.hub import hub
from hitl.live.outages import Outage
from hitl.live.topics import LiveEvent, in_database_thread
from hitl.wait_gate import waits
from runs.models import Run, WorkOrder
from runs.states import ENDED

TERMINAL = {
    EventKind.RUN_COMPLETED,
    EventKind.RUN_FAILED,
    EventKind.RUN_CANCELLED,
    EventKind.RUN_EXPIRED,
}
LEVELS = ("debug", "info", "warning", "error")


class FilterInvalid(ValueError):
    """A filter of the address is none."""


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which events are told.

    Those that end a run always are, so that whoever filters learns of the end.
    """

    level: str = ""
    """Log lines of at least this level, and nothing else."""
    step: str = ""
    """Events of this step."""
    since: dt.datetime | None = None

    @classmethod
    def of(cls, query: dict[str, list[str]]) -> Filter:
        """From `?level=&step=&since=`; raises FilterInvalid."""
        level, step, since = (query.get(name, [""])[0] for name in ("level", "step", "since"))
        if level and level not in LEVELS:
            raise FilterInvalid(f"level is one of {', '.join(LEVELS)}, not {level[:30]!r}")
        return cls(level=level, step=step, since=_moment(since) if since else None)

    def lets(self, event: Envelope) -> bool:
        if event["event"] in TERMINAL:
            return True
        data = event["data"]
        if self.since is not None and dt.datetime.fromisoformat(event["at"]) < self.since:
            return False
        if self.step and data.get("step", data.get("node_id")) != self.step:
            return False
        if not self.level:
            return True
        level = data.get("level", "info")
        return (
            event["event"] == EventKind.LOG
            and level in LEVELS
            and LEVELS.index(level) >= LEVELS.index(self.level)
        )


def _moment(text: str) -> dt.datetime:
    try:
        moment = parse_datetime(text.replace(" ", "+"))  # a plus sign that was not escaped
    except ValueError:
        moment = None
    if moment is None:
        raise FilterInvalid(f"since is a time such as 2026-01-31T12:00:00Z, not {text[:40]!r}")
    return moment if timezone.is_aware(moment) else timezone.make_aware(moment)


ALL = Filter()


@dataclass(frozen=True, kw_only=True)
class Subscription:
    """What somebody follows."""

    thread_id: uuid.UUID
    run_id: uuid.UUID | None = None
    """Not the events of other runs of the thread."""
    order_id: uuid.UUID | None = None
    only: Filter = field(default_factory=Filter)

    @property
    def ends(self) -> bool:
        """A thread goes on for ever; a run and an order end."""
        return self.run_id is not None or self.order_id is not None

    @cached_property
    def _names(self) -> tuple[str | None, ...]:
        """What events of this run, and those of no run, have as their run."""
        return () if self.run_id is None else (None, ids.show(Run.PREFIX, self.run_id))

    @property
    def lets_all(self) -> bool:
        return self.run_id is None and self.only == ALL

    def lets(self, event: Envelope) -> bool:
        others = self.run_id is not None and event["run_id"] not in self._names
        return not others and self.only.lets(event)

    def is_visible(self, user: User) -> bool:
        return visibility.sees(self.thread_id, by=user)

    def is_over(self) -> bool:
        if self.run_id is not None:
            return Run.objects.filter(pk=self.run_id, status__in=sorted(ENDED)).exists()
        return (
            self.order_id is not None
            and WorkOrder.objects.filter(
                pk=self.order_id, latest_run__status__in=sorted(ENDED)
            ).exists()
        )

    def has_ended(self, seq: int) -> bool:
        """Whether it is over and nothing of it comes after `seq`.

        Of an order everything on its thread counts.
        """
        mine = {} if self.run_id is None else {"run_id": self.run_id}
        return (
            self.is_over()
            and not Event.objects.filter(thread=self.thread_id, seq__gt=seq, **mine).exists()
        )

    def start(self, seq: int) -> int:
        """Where to begin for who has `seq`: a run's first event may lie behind those of many runs
        before.
        """
        if self.run_id is None or seq:
            return seq
        first = (
            Event.objects.filter(thread=self.thread_id, run_id=self.run_id)
            .order_by("seq")
            .values_list("seq", flat=True)
            .first()
        )
        return first - 1 if first else 0


def find_thread(user: User, thread_id: uuid.UUID) -> Subscription | None:
    """The subject, or None where there is none for this person; likewise below."""
    return Subscription(thread_id=thread_id) if visibility.sees(thread_id, by=user) else None


def find_run(user: User, run_id: uuid.UUID) -> Subscription | None:
    run = Run.objects.filter(pk=run_id).only("thread_id").first()
    return (
        Subscription(thread_id=run.thread_id, run_id=run_id)
        if run and visibility.sees(run.thread_id, by=user)
        else None
    )


def find_named(user: User, name: str) -> Subscription | None:
    """A run of ours by its id, which ends; or one of another engine by the id that it has there,
    with all its waits, one after another.
    """
    try:
        return find_run(user, ids.parse(Run.PREFIX, name))
    except ValueError:
        pass
    try:
        run, _ = waits.look_for(name, by=user)
    except services.NotFound:
        return None
    return Subscription(thread_id=run.thread_id)


def find_order(user: User, order_id: uuid.UUID) -> Subscription | None:
    order = WorkOrder.objects.filter(pk=order_id).only("thread_id").first()
    return (
        Subscription(thread_id=order.thread_id, order_id=order_id)
        if order and visibility.sees(order.thread_id, by=user)
        else None
    )


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events in order, and the number up to which all that belongs to the subject was told."""

    told: list[LiveEvent]
    seq: int
    stirred: bool = False
    """Other people look at the question, or no longer."""
    outage: Outage | None = None
    """The database went away, or is back."""


async def pages(
    subject: Subscription, seq: int, *, stirs: bool = False
) -> AsyncGenerator[EventPage, None]:
    """What happens to a subject after `seq`: ends behind the last event of one that ends, at once
    for who has that already.

    There are pages without events too: when the database goes away or is back, and, with `stirs`,
    when other people look at its question.
    """
    over = told = False
    if subject.ends:  # of a thread nothing is to be looked up
        seq, over, told = await in_database_thread(_begin)(subject, seq)
    if told:  # whose connection broke between the last event and the end
        return
    lets_all = subject.lets_all
    async with aclosing(hub().follow(subject.thread_id, seq, stirs=stirs)) as following:
        async for page in following:
            if isinstance(page, Outage) or not page:
                yield (
                    EventPage([], seq, outage=page)
                    if isinstance(page, Outage)
                    else EventPage([], seq, stirred=True)
                )
                continue
            seq = page[-1].seq
            yield EventPage(
                page if lets_all else [event for event in page if subject.lets(event.event)],
                page[-1].seq,
            )
            if not subject.ends:
                continue
            over = over or any(event.event["event"] in TERMINAL for event in page)
            # asked behind every later page too: a run's last event is followed by its checkpoint
            if over and await in_database_thread(subject.has_ended)(page[-1].seq):
                return


def _begin(subject: Subscription, seq: int) -> tuple[int, bool, bool]:
    """Where to begin, whether it is over, and whether all of it was told."""
    over = subject.is_over()
    return subject.start(seq), over, over and seq > 0 and subject.has_ended(seq)
