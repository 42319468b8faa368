"""A broker that was away for long is found again within a second or so (P3)."""

from __future__ import annotations

import datetime as dt
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from django.utils import timezone
from kombu import Consumer, Queue
from kombu.common import ignore_errors
from kombu.transport import TRANSPORT_ALIASES
from kombu.utils.imports import symbol_by_name
from redis.connection import DefaultParser

from project.celery import app
from runs import tasks
from tests.servers.private import Redis, free_port


class Enough(Exception):
    """The broker has been away for as long as the test wants."""


@pytest.mark.parametrize(
    "kind", ["connection_for_read", "connection_for_write"], ids=["worker", "beat"]
)
def test_an_absent_broker_is_looked_for_every_second_however_long_it_is_away(monkeypatch, kind):
    """P3: kombu's own pause grows to half a minute, so that everything would go on that much later
    than the next sweep.
    """
    monkeypatch.setattr("kombu.utils.functional.sleep", lambda seconds: None)
    pauses: list[float] = []

    def away(error, interval):
        pauses.append(interval)
        if len(pauses) == 40:
            raise Enough

    url = f"redis://127.0.0.1:{free_port()}/0"
    with pytest.raises(Enough), getattr(app, kind)(url) as connection:
        connection.ensure_connection(away, app.conf.broker_connection_max_retries)
    assert set(pauses) == {1.0}


def test_a_worker_outlives_a_connection_that_is_lost_while_it_has_a_message(tmp_path):
    """P3: as Celery closes it, twice, with a message that is not acknowledged; kombu's own
    connection ends the worker then.
    """
    broker = Redis(tmp_path)
    broker.start()
    connection = app.connection_for_read(broker.url)
    connection.SimpleQueue("lost").put({})
    channels: list[Any] = [connection.default_channel, connection.channel()]
    for channel, name in zip(channels, ("lost", "other"), strict=True):
        Consumer(channel, [Queue(name)], callbacks=[lambda body, message: None]).consume()
    connection.drain_events(timeout=10)
    for channel in channels:
        if not channel._in_poll:
            channel._brpop_start()
    broker.kill()
    connection.collect(socket_timeout=1)
    ignore_errors(connection, connection.close)
    assert channels[0].closed


@contextmanager
def a_message_of(broker: Redis) -> Iterator[tuple[Any, Any]]:
    """A connection as a worker has it, which may take one message at a time, and the message that
    it took.
    """
    broker.start()
    connection = app.connection_for_read(broker.url, transport_options={"socket_timeout": 1})
    taken: list[Any] = []
    consumer = Consumer(
        connection.default_channel,
        [Queue("lost")],
        callbacks=[lambda body, message: taken.append(message)],
    )
    consumer.qos(prefetch_count=1)
    connection.SimpleQueue("lost").put({})
    consumer.consume()
    connection.drain_events(timeout=10)
    yield connection, taken[0]
    ignore_errors(connection, connection.close)
    broker.kill()


@pytest.mark.parametrize("how", ["ack", "reject", "requeue"])
def test_a_worker_outlives_an_acknowledgement_after_its_connection_was_lost(tmp_path, how):
    """P3: Celery acknowledges late, so a step often ends after Redis did. kombu's AttributeError
    ended the worker (2 of 44 kills).
    """
    with a_message_of(broker := Redis(tmp_path)) as (connection, message):
        broker.kill()
        connection.collect(socket_timeout=1)
        ignore_errors(connection, connection.close)
        acts = {"ack": message.ack, "reject": message.reject, "requeue": message.requeue}
        # which Celery logs, and goes on
        with pytest.raises(connection.connection_errors) if how == "requeue" else nullcontext():
            acts[how]()


@pytest.mark.parametrize("how", ["ack", "reject", "requeue"])
def test_a_worker_takes_the_next_message_after_redis_hung_while_it_acknowledged(tmp_path, how):
    """P3: Redis stood still for a second and a half while two steps ended; the worker took nothing
    more, for ever, and said nothing.
    """
    with a_message_of(broker := Redis(tmp_path)) as (connection, message):
        assert broker.process is not None
        broker.process.send_signal(signal.SIGSTOP)
        acts = {"ack": message.ack, "reject": message.reject, "requeue": message.requeue}
        with pytest.raises(connection.connection_errors) if how == "requeue" else nullcontext():
            acts[how]()
        broker.process.send_signal(signal.SIGCONT)
        assert connection.default_channel.qos.can_consume()


def test_a_worker_that_ends_gives_back_what_it_has_not_finished(tmp_path):
    """A deploy costs no sweep: at its priority, for the next worker."""
    with a_message_of(Redis(tmp_path)) as (connection, _):
        connection.close()
        with connection.clone() as heir:
            message = heir.SimpleQueue("lost").get(timeout=5)
            message.ack()
        assert message.payload == {}


@pytest.mark.parametrize(
    "words",
    [
        "OOM command not allowed",
        "READONLY You can't write",
        "MISCONF Redis is configured to save",
        "NOREPLICAS",
    ],
)
def test_a_refusal_of_redis_is_a_connection_that_is_lost_and_is_made_again(words):
    """P3: a worker ended at once when Redis was full, read-only or could not write to its disk."""
    transport = app.connection_for_read("redis://127.0.0.1:1/0").transport_cls
    errors = symbol_by_name(TRANSPORT_ALIASES.get(transport, transport)).connection_errors
    assert issubclass(DefaultParser.parse_error(words).__class__, errors)


def test_messages_of_the_embedded_broker_keep_their_urgency():
    """P3: `make up` has one process and no Redis; there too an answer goes before new work."""
    with app.connection_for_write("memory://") as connection:
        line = connection.SimpleQueue("urgency")
        for number, priority in enumerate([6, 3, 0, 3, 0]):
            line.put(number, priority=priority)
        assert [line.get(timeout=1).payload for _ in range(5)] == [2, 4, 1, 3, 0]


@pytest.mark.django_db
def test_a_sweep_that_arrives_mends_the_breaker(make_order, sending_at_once, monkeypatch):
    """P3: it is a message itself, so the ones it sends will arrive too; else they would wait for
    the next sweep or the one after.
    """
    sent = []
    order = make_order()
    order.latest_run.due_at = timezone.now() - dt.timedelta(minutes=1)
    order.latest_run.save(update_fields=["due_at"])
    monkeypatch.setattr(tasks, "_broken_until", float("inf"))
    monkeypatch.setattr(
        tasks.advance_run, "apply_async", lambda arguments, queue, priority: sent.append(arguments)
    )
    tasks.sweep()
    assert sent == [(str(order.latest_run_id),)]
