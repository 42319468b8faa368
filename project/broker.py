"""What workers and beat do about a broker that is away: they look for it every second, and outlive it."""

from __future__ import annotations

import itertools
import queue
from typing import Any

from celery.app.amqp import AMQP
from kombu import Connection
from kombu.transport import TRANSPORT_ALIASES, memory, redis

LOOK_AGAIN_SECONDS = 1.0


class QoS(redis.QoS):
    """Tells a lost connection as one, also where a message is acknowledged after its channel was let go.

    kombu 5.7 looks for the broker's address in the transport that a closed channel no longer has. The AttributeError is none of the
    connection errors that Celery expects of an acknowledgement, and ends the worker. docs/upstream/kombu-closed-channel.md has the report.
    """

    def ack(self, delivery_tag: str) -> None:
        try:
            super().ack(delivery_tag)
        except AttributeError as error:
            raise self._lost(error) from error

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        try:
            super().reject(delivery_tag, requeue=requeue)
        except AttributeError as error:
            raise self._lost(error) from error

    def _lost(self, error: AttributeError) -> Exception:
        connection = self.channel.connection
        if connection is not None and connection.client is not None:
            return error
        return ConnectionResetError("the channel of this message was closed with its connection; the sweep has what it was about")


class RedisChannel(redis.Channel):
    QoS = QoS


class RedisTransport(redis.Transport):
    Channel = RedisChannel


class MemoryChannel(memory.Channel):
    """Keeps priorities, as Redis does: the lowest number first, then in the order in which messages came."""

    queues: dict[str, queue.Queue[Any]] = {}
    _numbers = itertools.count()

    def _new_queue(self, queue: str, **_: Any) -> None:
        self._queue_for(queue)

    def _queue_for(self, name: str) -> queue.Queue[Any]:
        return self.queues.setdefault(name, queue.PriorityQueue())

    def _put(self, queue: str, message: Any, **_: Any) -> None:
        self._queue_for(queue).put((self._get_message_priority(message), next(self._numbers), message))

    def _put_fanout(self, exchange: str, message: Any, routing_key: Any = None, **_: Any) -> None:
        for name in self._lookup(exchange, routing_key):
            self._put(name, message)

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        return self._queue_for(queue).get(block=False)[2]


class MemoryTransport(memory.Transport):
    Channel = MemoryChannel


for _scheme, _transport in {"redis": RedisTransport, "rediss": RedisTransport, "memory": MemoryTransport}.items():
    # by name, not by a connection's class: pools make connections of a class of their own, and both ends must have the same queues
    TRANSPORT_ALIASES[_scheme] = f"{__name__}:{_transport.__name__}"


class PromptConnection(Connection):
    """Looks for its broker once a second, however long that has been away.

    kombu waits two seconds longer each time, up to half a minute, and no setting tells the worker or beat otherwise: after a long outage,
    work would go on half a minute after the broker is back instead of with the next sweep.
    """

    def ensure_connection(self, *args: Any, **kwargs: Any) -> Any:
        intervals = {"interval_start": LOOK_AGAIN_SECONDS, "interval_step": 0, "interval_max": LOOK_AGAIN_SECONDS}
        return super().ensure_connection(*args, **{**intervals, **kwargs})

    def maybe_close_channel(self, channel: Any) -> None:
        """A channel whose transport is gone gives no messages back.

        After a lost connection Celery closes it twice; the second time kombu looks for the address in the transport that the first time
        let go, and that ends the worker (kombu 5.7). Messages only say "look again", so the sweep has whatever they were about.
        """
        if channel.connection is None or channel.connection.client is None:
            channel.do_restore = False
        super().maybe_close_channel(channel)


class Broker(AMQP):
    Connection = PromptConnection
