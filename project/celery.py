"""The Celery application: `celery -A project worker`, `celery -A project beat`."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from billiard.process import active_children
from celery import Celery
from celery.signals import task_prerun, worker_init, worker_process_init, worker_shutting_down

from checkpoints import checks
from runs.engine import stopping

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

app = Celery("waystation")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@worker_init.connect
def _look_at_the_store(**_: Any) -> None:
    checks.at_start(reach=True)


@worker_shutting_down.connect
def _let_go(how: str, **_: Any) -> None:
    """SIGTERM: runs are handed back at their next step boundary, and the worker ends when all are. Steps that are still at work after
    `worker_soft_shutdown_timeout` seconds are ended with their processes; the sweep takes their runs back.

    Celery's own soft shutdown would wait all of that time, in the signal's handler and before it says that it stops; so the wait is
    here, beside a warm shutdown, and what follows it is Celery's cold one.
    """
    stopping.stop()
    if how == "Warm":
        timer = threading.Timer(app.conf.worker_soft_shutdown_timeout, _end_now)
        timer.daemon = True
        timer.start()


def _end_now() -> None:
    for child in active_children():
        if child.pid is not None:
            os.kill(child.pid, signal.SIGKILL)
    app.conf.worker_soft_shutdown_timeout = 0  # it was waited
    os.kill(os.getpid(), signal.SIGQUIT)


@worker_process_init.connect
def _in_a_child(**_: Any) -> None:
    task_prerun.connect(_leave_stopping_to_the_parent)  # not yet: billiard still sets handlers of its own


def _leave_stopping_to_the_parent(**_: Any) -> None:
    """A supervisor that signals a whole process group would end a child in the middle of its step.

    A handler, not SIG_IGN: that would go on to the programs that steps start.
    """
    signal.signal(signal.SIGTERM, lambda *_: None)
