"""Body processes as this project has them: what they are forked with, and what of theirs only their
worker's process can send.
"""

from __future__ import annotations

from functools import partial

from django.conf import settings

from checkpoints.events import live
from project import broker
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
    server = fork_server.start(tasks.take_up, enter=_enter, leave=_leave)
    pool.use(server, {**tasks.RELAYS, "hint": live.give, "put": broker.MemoryChannel.take})


def leave() -> None:
    """Let the body processes of this process end that have no work, where they may have something
    to send: else they end with their worker.
    """
    if tracing.is_on() or errors.is_on():
        pool.leave()


def _enter(process: BodyProcess) -> None:
    """In a body process: hints go through its worker, and so does what an author's code sends over
    the embedded default's queues, which are there.
    """
    live.relay = partial(process.say, "hint")
    if not settings.REDIS_URL:
        broker.relay = partial(process.say, "put")


def _leave() -> None:
    """The process ends, and a collector that is away has kept no run from being done."""
    errors.flush(FLUSH_SECONDS)
    tracing.flush()
