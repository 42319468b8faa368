"""Set up body processes for this project: with what they are forked, and which of their messages
only their worker's process can send.
"""

from __future__ import annotations

from functools import partial

from django.conf import settings

from checkpoints.events import live
from hitl.host import broker
from hitl.host.telemetry import errors, tracing
from runs import tasks
from runs.engine.body_processes import fork_server
from runs.engine.body_processes.child import BodyProcess
from runs.engine.dispatch import pool

FLUSH_SECONDS = 1.0
"""How long the end of a body process waits until its last messages are sent."""


def begin() -> None:
    """Have bodies run in processes of their own from now on. Call before this process has
    threads.
    """
    if settings.WAYSTATION_BODIES == "threads":
        return
    server = fork_server.start(tasks.take_up, enter=_enter, leave=_leave)
    pool.use(server, {**tasks.RELAYS, "hint": live.give, "put": broker.MemoryChannel.take})


def leave() -> None:
    """Let those body processes of this process end that have no work, if they may have something
    left to send. If not, they end with their worker.
    """
    if tracing.is_on() or errors.is_on():
        pool.leave()


def _enter(process: BodyProcess) -> None:
    """In a body process, send hints through its worker; and also the messages of an author's code
    over the embedded default's queues, which are in the worker's memory.
    """
    live.relay = partial(process.say, "hint")
    if not settings.REDIS_URL:
        broker.relay = partial(process.say, "put")


def _leave() -> None:
    """Send the last messages before the process ends. By now its run is done, so a collector that
    is away delays no run.
    """
    errors.flush(FLUSH_SECONDS)
    tracing.flush()
