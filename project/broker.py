"""What workers and beat do about a broker that is away: they look for it every second, and outlive it."""

from __future__ import annotations

from typing import Any

from celery.app.amqp import AMQP
from kombu import Connection

LOOK_AGAIN_SECONDS = 1.0


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
