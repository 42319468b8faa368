"""A time limit for one try of a step: a worker has bodies in processes of their own, which can be
ended; where there are none, as in tests, the body gets a thread.
"""

from __future__ import annotations

import contextvars
import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import connection

from runs.engine.body_processes import child as body_process
from runs.engine.context.claimed_run import ClaimedRun
from runs.workflows.base import StepFailed

GRACE = 2.0
"""Seconds that a step which looks at `Context.check` gets to end by itself, its subprocesses with
it.
"""


class StepTimeIsUp(BaseException):
    """Thrown into a step that does not end: past its `except Exception`, so that it cannot go
    on.
    """


def call(held: ClaimedRun, seconds: float | None, function: Callable[[], Any]) -> Any:
    """Call `function`, in a thread of its own where it has a time limit.

    Raises StepFailed(code="timeout") when the time is up.

    A step that never returns is left behind with TimeIsUp thrown into it; whatever it still tries
    to write is refused, since the run's epoch moves on.
    """
    if (process := body_process.here) is not None:
        ends = seconds or settings.WAYSTATION_STEP_TIMEOUT
        held.deadline = time.monotonic() + ends
        try:
            return process.call(held.epoch, ends, function)
        finally:
            held.deadline = float("inf")
    if seconds is None:
        return function()
    held.deadline = time.monotonic() + seconds
    box: dict[str, Any] = {}

    def work() -> None:
        held.thread_ident = threading.get_ident()  # it closes its connection itself, at its end
        try:
            box["value"] = function()
        # carried to the caller, which knows what each means
        except BaseException as error:  # noqa: BLE001
            box["error"] = error
        finally:
            connection.close()

    here = contextvars.copy_context()  # what log lines and spans of the step's own are about
    thread = threading.Thread(
        target=here.run, args=(work,), name=f"step {held.head.next_step}", daemon=True
    )
    thread.start()
    thread.join(seconds + GRACE)
    held.deadline, held.thread_ident = float("inf"), threading.get_ident()
    if thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident or 0), ctypes.py_object(StepTimeIsUp)
        )
        raise StepFailed(f"The step did not end within {seconds:g} s.", code="timeout")
    if (error := box.get("error")) is not None:
        raise error
    return box["value"]
