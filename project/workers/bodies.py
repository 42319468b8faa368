"""Body processes as this project has them: what they are forked with, and what of theirs only their
worker's process can send.
"""

from __future__ import annotations

from functools import partial

from channels.layers import get_channel_layer
from django.conf import settings

from checkpoints.events import live
from project import broker, local_layer
from project.telemetry import errors, tracing
from runs import tasks
from runs.engine.body_processes import fork_server
from runs.engine.body_processes.child import BodyProcess
from runs.engine.dispatch import pool

FLUSH_SECONDS = 1.0
"""What the end of a body process waits for its last messages."""


def begin() -> None:
    """Have bodies run in processes of their own from now on. Call before this process has
    threads.
    """
    if settings.WAYSTATION_BODIES == "threads":
        return
    server = fork_server.start(tasks.take_up, flush=_flush, enter=_enter, leave=_leave)
    pool.use(
        server, {"put": broker.MemoryChannel.take, "publish": _publish, "later": tasks.nudge_later}
    )


def leave() -> None:
    """Let the body processes of this process end that have no work, where they may have something
    to send: else they end with their worker.
    """
    if tracing.is_on() or errors.is_on():
        pool.leave()


def _enter(process: BodyProcess) -> None:
    """In a body process: the embedded default's queues and watchers are its worker's."""
    if not settings.REDIS_URL:
        broker.relay = partial(process.say, "put")
        local_layer.relay = partial(process.say, "publish")


def _publish(messages: list[tuple[str, dict[str, object]]]) -> None:
    layer = get_channel_layer()
    if isinstance(layer, local_layer.LocalChannelLayer):
        layer.publish(messages)


def _flush() -> None:
    tasks.flush(FLUSH_SECONDS)
    live.flush(FLUSH_SECONDS)


def _leave() -> None:
    """The process ends, and a collector that is away has kept no run from being done."""
    errors.flush(FLUSH_SECONDS)
    tracing.flush()
