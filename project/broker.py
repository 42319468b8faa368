"""How long workers and beat wait between two looks for a broker that is away."""

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


class Broker(AMQP):
    Connection = PromptConnection
