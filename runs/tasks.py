"""Celery's part: "look again at run X".

Messages carry ids only; a lost one costs a sweep, a doubled one nothing.
"""

from __future__ import annotations

import atexit
import datetime as dt
import logging
import os
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any

from celery import shared_task
from celery.exceptions import Reject
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection, transaction
from django.db.models import QuerySet
from kombu.exceptions import ChannelError

from checkpoints import ids
from checkpoints.database import clock, locks, outages
from checkpoints.database.rounds import RoundItem
from checkpoints.events import watermark
from checkpoints.store import StoreUnavailable
from checkpoints.store.prepared_queries import Prepared
from runs import retention, rounds
from runs.engine import places
from runs.engine.advance import advance
from runs.engine.body_processes import child as body_process
from runs.engine.dispatch import pool as pools
from runs.engine.dispatch.lane import Lane
from runs.engine.dispatch.later import Later
from runs.engine.dispatch.sender import Sender
from runs.engine.ending import Wake
from runs.engine.recovery import lost_runs, postpone
from runs.engine.workers import clocks, heartbeat, lease
from runs.engine.workers.shutdown import stopping
from runs.git import housekeeping
from runs.models import Place, QueuedTurn, Run
from runs.rounds import Round
from runs.rounds import check_connection as check_connection
from runs.urgency import Urgency
from runs.workflows.sequence import DEFAULT_QUEUE

logger = logging.getLogger(__name__)

BREAKER_SECONDS = 10.0
"""After a failed send, do not try again for so long: the sweep finds the run, and nothing piles up
while the broker is away.
"""
FULL = 500
"""Messages in a queue that keep its workers busy until the next sweep."""
AT_LEAST = 1
"""Messages that a sweep sends to a full queue."""
FLUSH_SECONDS = 1.0
"""What the end of a process waits for its last messages."""

NEXT_TURN = "runs.turn_tasks.begin_next"
"""The task that begins what waits for its turn: in a module above this one, so it is sent by its
name.
"""
TURNS = 200
"""Threads for which one sweep sends it."""

LATER_BY = 0.05
"""Seconds: what comes too early finds nothing due."""
LATEST = 600.0
SOON = dt.timedelta(seconds=30)
"""How near the time of a run or a question is that a worker leaves a hint for; a sweep is late by a
few seconds, which is much of such a time.
"""

_lane: Lane | None = None
"""Threads of their own for runs, where one worker takes all queues."""
_broken_until = 0.0


@shared_task(acks_late=True, ignore_result=True)
def advance_run(run_id: str) -> None:
    if stopping():
        if _lane is not None:
            return None  # the queue ends with this process, and the next start finds the run
        raise Reject(requeue=True)  # another worker takes it
    if _lane is not None:
        delivered: Mapping[str, Any] = advance_run.request.delivery_info or {}
        return _lane.give(run_id, delivered.get("priority") or 0)
    return work_on(run_id)


def use_lane(threads: int) -> None:
    """Take up runs in threads of their own from now on: for a worker that takes all queues."""
    global _lane
    _lane = Lane(work_on, threads)


def end_bodies(seconds: float) -> None:
    """Take up no more runs, wait so long for those at work, and end what is left of them."""
    if _lane is not None:
        _lane.close(seconds)
    pools.end()


def work_on(run_id: str) -> None:
    """Take up a run, in a body process where this worker has any."""
    pool = pools.here()
    if pool is None:
        return take_up(run_id)
    for wanted, queue in pool.take_up(uuid.UUID(run_id)):
        send(wanted, queue)
    return None


def take_up(run_id: str) -> None:
    """Take steps of a run here, and send the messages that come of it."""
    check_connection()
    try:
        wake = advance(
            uuid.UUID(run_id), budget=settings.WAYSTATION_SLICE_SECONDS, remind=remind_soon
        )
    except StoreUnavailable as error:
        return postpone.put_off(uuid.UUID(run_id), words=str(error))
    except (DatabaseError, InterfaceError) as error:
        if not outages.is_trouble(error):
            raise
        check_connection()
        return postpone.cut_off(uuid.UUID(run_id), words=str(error))
    for wanted, queue in wake:
        send(wanted, queue)
    if uuid.UUID(run_id) not in {wanted for wanted, _ in wake}:
        for turn in _due_behind.get(uuid.UUID(run_id)):
            send_next_turn(turn.thread_id)
    return None


_due_behind = Prepared(
    lambda run_id: QueuedTurn.objects.due().filter(thread__runs=run_id)[:1], uuid.UUID
)
"""What waits for its turn on the thread of a run that has ended: asked behind each, and nearly
always nothing.
"""


@shared_task(ignore_result=True)
def order_rounds() -> None:
    """Beat's look: order the rounds that have something to do. While nothing has, it is one
    statement.

    Two at once, or one too many, order a round twice, which begins once (`runs.rounds`).
    """
    _mend_breaker()
    for name in rounds.with_something_due():
        _send(partial(_order, name), f"the round {name}")
    if not connection.in_atomic_block:
        clocks.note()
        with RoundItem(logger, heartbeat.LOOK):
            heartbeat.note_look()
            watermark.note()
    with RoundItem(logger, housekeeping.__name__):
        housekeeping.tend(now=clock.now())  # the folders of this machine, whose files say when


def _order(name: str) -> None:
    order_rounds.app.tasks[name].apply_async()


def _sweeps() -> Iterator[QuerySet[Any]]:
    """What a sweep has to do."""
    yield Run.objects.lost(now=clock.FromNow())
    yield Run.objects.overdue(before=clock.FromNow(-settings.WAYSTATION_PATIENCE_SECONDS))
    yield Run.objects.gathers_due(now=clock.FromNow())
    yield Place.objects.all()
    yield QueuedTurn.objects.due()
    yield from retention.due()


@shared_task(base=Round, ignore_result=True, due=staticmethod(_sweeps))
def sweep() -> None:
    """Take runs back from lost workers and send lost messages again.

    Harmless when two run at once.
    """
    _mend_breaker()
    with locks.impatient():
        _sweep()


class BrokerAway(Exception):
    """The broker does not answer: nothing was sent. The sweep sends it when the broker is back."""


def send_again(run_id: uuid.UUID) -> bool:
    """Do for one run, now, what a sweep does for all: take it back where its worker is lost, and
    send its message again.

    False where it needs none: it is at work, has ended, or waits for something else. Raises
    BrokerAway.
    """
    _mend_breaker()
    with locks.impatient():
        now = clock.read()
        wanted = lost_runs.due_again(now=now, patience=dt.timedelta(), only=run_id)
    for (again, queue), how in wanted.items():
        send(again, queue, how)
    if wanted and time.monotonic() < _broken_until:
        raise BrokerAway
    return bool(wanted)


def _mend_breaker() -> None:
    global _broken_until
    _broken_until = 0.0  # a message came, or somebody wants it tried: so no waiting


def _sweep() -> None:
    wanted = lost_runs.due_again(
        now=clock.read(), patience=dt.timedelta(seconds=settings.WAYSTATION_PATIENCE_SECONDS)
    )
    room = _room({queue for _, queue in wanted})
    for (run_id, queue), urgency in wanted.items():
        room[queue] -= 1
        if room[queue] >= 0:
            send(run_id, queue, urgency)
    with RoundItem(logger, "places"):
        for run_id, queue in places.sweep():
            send(run_id, queue)
    for thread_id in set(QueuedTurn.objects.due().values_list("thread", flat=True)[:TURNS]):
        send_next_turn(thread_id)
    for chore in (retention, housekeeping):
        with RoundItem(logger, chore.__name__):
            chore.tend(now=clock.read())


def _room(queues: Collection[str]) -> dict[str, int]:
    """How many messages each queue may get from one sweep: workers that are behind would drown in
    the same ones sent again and again.

    The oldest at any rate, so that a run whose message was lost waits no longer than those before
    it.
    """
    if not queues or time.monotonic() < _broken_until:
        return dict.fromkeys(queues, 0)
    try:
        with advance_run.app.connection_for_write() as broker, broker.channel() as channel:
            return {queue: max(FULL - _waiting_in(channel, queue), AT_LEAST) for queue in queues}
    except Exception as error:  # noqa: BLE001  # as in `send`
        _open_breaker()
        logger.warning("could not ask the broker how much waits in it: %s", error)
        return dict.fromkeys(queues, 0)


def _waiting_in(channel: Any, queue: str) -> int:
    try:
        return int(channel.queue_declare(queue, passive=True).message_count)
    except ChannelError:  # Redis knows no empty queue
        return 0


def hand_back(pids: Collection[int]) -> None:
    """Give the runs of these processes, which end now, to other workers.

    May take seconds with a broker that hangs.
    """
    for run_id, queue in lost_runs.hand_back([lease.owner(pid) for pid in pids]):
        send(run_id, queue)


def send(run_id: uuid.UUID, queue: str, urgency: Urgency = Urgency.GOING_ON) -> None:
    """Send a message now.

    For tasks: one that ends may take its process along, and the sender's thread with it.

    Never raises: with the broker away, the sweep does it later. May take seconds with one that
    hangs. What a body process has to send, its worker sends, over one connection for all of them.
    """
    if body_process.here is not None:
        return body_process.here.say("nudge", str(run_id), queue, int(urgency))
    return _send(
        lambda: advance_run.apply_async((str(run_id),), queue=queue, priority=int(urgency)),
        ids.show("run", run_id),
    )


def send_next_turn(thread_id: uuid.UUID) -> None:
    """As `send`: a worker is to begin what waits for its turn on a thread."""
    if body_process.here is not None:
        return body_process.here.say("turn", str(thread_id))
    return _send(
        lambda: advance_run.app.send_task(NEXT_TURN, (str(thread_id),)), ids.show("thr", thread_id)
    )


def _send(message: Callable[[], object], about: str) -> None:
    if time.monotonic() < _broken_until:
        return
    try:
        message()
    # brokers raise their clients' own errors; the row is the truth, the message a hint
    except Exception as error:  # noqa: BLE001
        _open_breaker()
        logger.warning("could not send a message for %s, the sweep will find it: %s", about, error)


def _open_breaker() -> None:
    global _broken_until
    _broken_until = time.monotonic() + BREAKER_SECONDS


def nudge(
    run_id: uuid.UUID, queue: str = DEFAULT_QUEUE, urgency: Urgency = Urgency.GOING_ON
) -> None:
    """Tell a worker of that queue to look at a run. Neither raises nor waits for the broker."""
    if body_process.here is not None:
        return send(run_id, queue, urgency)
    if time.monotonic() < _broken_until:
        return None
    if not _sender.give(lambda: send(run_id, queue, urgency)):
        logger.warning(
            "too many messages wait for the broker; the sweep will find %s", ids.show("run", run_id)
        )
    return None


RELAYS: Mapping[str, Callable[..., None]] = {
    "nudge": lambda run_id, queue, urgency: nudge(uuid.UUID(run_id), queue, Urgency(urgency)),
    "turn": lambda thread_id: next_turn(uuid.UUID(thread_id)),
    "look": lambda at: _look_later(dt.datetime.fromisoformat(at)),
    "later": lambda run_id, queue, at: _nudge_later(
        uuid.UUID(run_id), queue, dt.datetime.fromisoformat(at)
    ),
}
"""What a worker does with what its body processes have to send."""


_turns = Prepared(
    lambda thread_id: QueuedTurn.objects.waiting().filter(thread=thread_id), uuid.UUID
)


def next_turn_on_commit(thread_id: uuid.UUID) -> None:
    """Have the message that waits first begin, once the open transaction commits, which ends a run:
    where any waits.
    """
    if _turns.get(thread_id):
        transaction.on_commit(lambda: next_turn(thread_id), robust=True)


def next_turn(thread_id: uuid.UUID) -> None:
    """As `nudge`, of what waits for its turn on a thread."""
    if body_process.here is not None:
        return send_next_turn(thread_id)
    _sender.give(lambda: send_next_turn(thread_id))
    return None


def nudge_on_commit(
    run_id: uuid.UUID,
    queue: str = DEFAULT_QUEUE,
    *,
    at: dt.datetime | None = None,
    urgency: Urgency = Urgency.GOING_ON,
) -> None:
    """Nudge once the open transaction commits, or later, once the run is due."""
    transaction.on_commit(
        lambda: nudge(run_id, queue, urgency) if at is None else _nudge_later(run_id, queue, at),
        robust=True,
    )


def _nudge_later(run_id: uuid.UUID, queue: str, at: dt.datetime) -> None:
    """A hint for when a run is due.

    It dies with the process, and there are so many at most; the sweep finds the run all the same.
    """
    if body_process.here is not None:  # which may end before
        return body_process.here.say("later", str(run_id), queue, at.isoformat())
    seconds = (at - clock.now()).total_seconds() + LATER_BY
    if seconds <= LATEST:
        _later.give(max(0.0, seconds), partial(nudge, run_id, queue))
    return None


def _look_later(at: dt.datetime) -> None:
    """A hint for when a question's rules act, as `_nudge_later`: the rounds with something to do
    are ordered then.
    """
    if body_process.here is not None:
        return body_process.here.say("look", at.isoformat())
    seconds = (at - clock.now()).total_seconds() + LATER_BY
    look = partial(_send, order_rounds.apply_async, "what is due")
    _later.give(max(0.0, seconds), partial(_sender.give, look))
    return None


def remind_soon(at: dt.datetime, run: Wake | None) -> None:
    """Leave a hint for a time that is near: a run is due then, or where none is named, a question's
    rules act.

    What is further away, and what dies with this process, a sweep finds.
    """
    if at - clock.now() > SOON:
        return
    if run is None:
        _look_later(at)
    else:
        _nudge_later(*run, at)


def flush(seconds: float = FLUSH_SECONDS) -> bool:
    """Wait until the nudges of this process are sent; False when the time is up first."""
    return _sender.flush(seconds)


def _new_threads() -> None:
    global _sender, _later
    _sender, _later = Sender(), Later()


_sender, _later = Sender(), Later()
# a forked child inherits the variable, but neither the thread nor what waits for it
os.register_at_fork(after_in_child=_new_threads)
# a command such as `workorder` ends right after it nudged
atexit.register(flush)
