"""What workers and beat do about a broker that is away: they look for it every second, and outlive
it.
"""

from __future__ import annotations

import itertools
import logging
import queue
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from celery.app.amqp import AMQP
from kombu import Connection
from kombu.transport import TRANSPORT_ALIASES, memory, redis, virtual
from redis.exceptions import ResponseError

logger = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 1.0


class QoS(virtual.QoS):
    """Keeps in memory alone which messages the worker has taken: an acknowledgement asks nothing of
    Redis, so it cannot fail.

    kombu's own keeps them in Redis too. An acknowledgement that fails there is logged, and its
    place among the messages that the worker may take is never free again: a worker whose Redis hung
    for a second took no further message, or it ended where Redis was out of memory or read-only.
    docs/upstream/kombu-closed-channel.md has the reports. What a killed worker had taken, the sweep
    finds.
    """

    channel: Any
    _delivered: OrderedDict[str, Any]
    _flush: Callable[[], None]

    # kombu gives what could not be restored, its stubs say None
    def restore_unacked(self) -> list[Any]:  # type: ignore[override]
        """Put back what the worker took and did not finish, at its end.

        Where Redis is away, the sweep finds that too.
        """
        self._flush()
        try:
            for message in self._delivered.values():
                self.channel._restore(message)
        except self.channel.connection_errors as error:
            logger.warning(
                "could not give messages back, the sweep will find what they are about: %s", error
            )
        self._delivered.clear()
        return []

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        try:
            super().reject(delivery_tag, requeue=requeue)
        finally:
            self.ack(delivery_tag)  # also where it could not be put back


class RedisChannel(redis.Channel):
    ack_emulation = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.QoS = QoS  # type: ignore[assignment]  # kombu itself puts `virtual.QoS` there

    def _restore(self, message: Any, leftmost: bool = False) -> None:
        if self.connection is None or self.connection.client is None:
            raise ConnectionResetError(
                "the channel of this message was closed with its connection; the sweep has "
                "what it was about"
            )
        super()._restore(message)


class RedisTransport(redis.Transport):
    """Takes a refusal for a lost connection: a Redis that is full, read-only or without its disk is
    asked again a second later.

    Celery ends a worker at any error that its transport does not call a connection error.
    """

    Channel = RedisChannel
    connection_errors = (*redis.Transport.connection_errors, ResponseError)


relay: Callable[[str, int, Any], None] | None = None
"""In a body process: its worker's process takes what it sends."""


class MemoryChannel(memory.Channel):
    """Keeps priorities, as Redis does: the lowest number first, then in the order in which messages
    came.
    """

    queues: dict[str, queue.Queue[Any]] = {}
    _numbers = itertools.count()

    def _new_queue(self, queue: str, **_: Any) -> None:
        self._queue_for(queue)

    def _queue_for(self, name: str) -> queue.Queue[Any]:
        return self.queues.setdefault(name, queue.PriorityQueue())

    def _put(self, queue: str, message: Any, **_: Any) -> None:
        priority = self._get_message_priority(message)
        if relay is not None:
            relay(queue, priority, message)
        else:
            self.take(queue, priority, message)

    @classmethod
    def take(cls, queue_name: str, priority: int, message: Any) -> None:
        """Put a message into a queue of this process."""
        waiting = cls.queues.setdefault(queue_name, queue.PriorityQueue())
        waiting.put((priority, next(cls._numbers), message))

    def _put_fanout(self, exchange: str, message: Any, routing_key: Any = None, **_: Any) -> None:
        for name in self._lookup(exchange, routing_key):
            self._put(name, message)

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        return self._queue_for(queue).get(block=False)[2]


class MemoryTransport(memory.Transport):
    Channel = MemoryChannel


for _scheme, _transport in {
    "redis": RedisTransport,
    "rediss": RedisTransport,
    "memory": MemoryTransport,
}.items():
    # by name, not by a connection's class: pools make connections of a class of their own, and both
    # ends must have the same queues
    TRANSPORT_ALIASES[_scheme] = f"{__name__}:{_transport.__name__}"


class PromptConnection(Connection):
    """Looks for its broker once a second, however long that has been away.

    kombu waits two seconds longer each time, up to half a minute, and no setting tells the worker
    or beat otherwise: after a long outage, work would go on half a minute after the broker is back
    instead of with the next sweep.
    """

    def ensure_connection(self, *args: Any, **kwargs: Any) -> Any:
        intervals = {
            "interval_start": LOOK_AGAIN_SECONDS,
            "interval_step": 0,
            "interval_max": LOOK_AGAIN_SECONDS,
        }
        return super().ensure_connection(*args, **{**intervals, **kwargs})

    def maybe_close_channel(self, channel: Any) -> None:
        """A channel whose transport is gone gives no messages back.

        After a lost connection Celery closes it twice; the second time kombu looks for the address
        in the transport that the first time let go, and that ends the worker (kombu 5.7). Messages
        only say "look again", so the sweep has whatever they were about.
        """
        if channel.connection is None or channel.connection.client is None:
            channel.do_restore = False
        super().maybe_close_channel(channel)


class Broker(AMQP):
    Connection = PromptConnection
