"""The Celery application: `celery -A project worker`, `celery -A project beat`."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from typing import Any

from billiard.process import active_children
from celery import Celery
from celery.signals import (
    beat_init,
    task_prerun,
    worker_init,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutdown,
    worker_shutting_down,
)

from checkpoints import checks
from runs import checks as runs_checks
from runs.engine.workers import shutdown

HAND_BACK_SECONDS = 4.0
"""What a database or a broker that hangs may hold a worker that ends."""
LAST_SECONDS = 2.0
"""What is left of the process then gets to end by itself."""

# each worker would make all of Django's checks, which takes half a second, and forget what they say
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")
app = Celery("waystation", amqp="hitl.host.broker:Broker")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.autodiscover_tasks(related_name="turn_tasks")


@worker_init.connect
def _look_around(**_: Any) -> None:
    checks.at_start(reach=True)
    runs_checks.at_start()
    from hitl.host.workers import bodies
    from runs.definitions import pictures, shipped
    from runs.engine.workers import clocks  # here: Django is not ready when this module is imported

    shipped.load_at_start()
    pictures.look_at_start()
    clocks.note()
    bodies.begin()


@worker_ready.connect
def _show_worker(sender: Any, **_: Any) -> None:
    """From here on: its pool is there, and it takes messages."""
    from hitl.host.workers import without_broker  # here: as above
    from runs.engine.workers import heartbeat

    heartbeat.show_worker(sender)
    without_broker.begin(list(app.amqp.queues.consume_from), shutdown.stopping)


@beat_init.connect
def _show_beat(**_: Any) -> None:
    from runs.engine.workers import heartbeat  # here: as above
    from runs.models import HeartbeatKind

    heartbeat.begin(f"beat@{socket.gethostname()}", HeartbeatKind.BEAT)


@worker_shutting_down.connect
def _let_go(how: str, **_: Any) -> None:
    """SIGTERM: runs are handed back at their next step boundary, and the worker ends when all are.

    Steps that are still at work after `worker_soft_shutdown_timeout` seconds are ended with their
    processes, and their runs handed back too.

    Celery's own soft shutdown would wait all of that time, in the signal's handler and before it
    says that it stops; so the wait is here, beside a warm shutdown.
    """
    from runs.engine.workers import heartbeat  # here: as above

    shutdown.stop()
    heartbeat.end()
    if how == "Warm":
        timer = threading.Timer(app.conf.worker_soft_shutdown_timeout, _end_now)
        timer.daemon = True
        timer.start()


@worker_shutdown.connect
@worker_process_shutdown.connect
def _let_bodies_go(**_: Any) -> None:
    """Body processes without work end by themselves, with the spans and reports that they hold."""
    from hitl.host.workers import bodies  # here: as above

    bodies.leave()


def _end_now() -> None:
    """End what is still at work: children of a prefork pool, or this process, whose threads nobody
    can end.

    Celery's cold shutdown of a thread pool would wait for its threads, and so would the
    interpreter's own end. A step that looks at `context.check` ends in the time given here, its
    subprocesses with it, since its run is another's by then.
    """
    children = [child.pid for child in active_children() if child.pid is not None]
    giving = threading.Thread(target=_hand_back, args=([os.getpid(), *children],), daemon=True)
    giving.start()
    giving.join(HAND_BACK_SECONDS)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    if children:
        app.conf.worker_soft_shutdown_timeout = 0  # it was waited
        os.kill(os.getpid(), signal.SIGQUIT)
    time.sleep(LAST_SECONDS)
    os._exit(os.EX_TEMPFAIL)


def _hand_back(pids: list[int]) -> None:
    from runs.tasks import hand_back  # here: Django is not ready when this module is imported

    hand_back(pids)


@worker_process_init.connect
def _in_a_child(**_: Any) -> None:
    # not yet: billiard still sets handlers of its own
    task_prerun.connect(_leave_stopping_to_the_parent)


def _leave_stopping_to_the_parent(**_: Any) -> None:
    """A supervisor that signals a whole process group would end a child in the middle of its step.

    A handler, not SIG_IGN: that would go on to the programs that steps start.
    """
    signal.signal(signal.SIGTERM, lambda *_: None)
