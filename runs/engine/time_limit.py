"""A time limit for one try of a step: a worker has bodies in processes of their own, which can be
ended; where there are none, as in tests, the body gets a thread.
"""

from __future__ import annotations

import contextvars
import ctypes
import threading
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import connection

from runs.engine.body_processes import child as body_process
from runs.engine.body_processes.child import GRACE
from runs.engine.context.claimed_run import ClaimedRun
from runs.workflows import registry, sequence
from runs.workflows.base import StepFailed
from runs.workflows.sequence import FrozenStep


def limit_of(step: FrozenStep) -> float:
    """Seconds that one try of a step may take: what its template says, else what its own limits
    need, and at least WAYSTATION_STEP_TIMEOUT.
    """
    own = step.get("timeout")
    if own is not None:
        return own
    server = registry.traits_of(step["function"]).server
    needs = server.seconds(step["config"], lambda name: getattr(settings, name))
    return float(max(settings.WAYSTATION_STEP_TIMEOUT, needs))


class StepTimeIsUp(BaseException):
    """Thrown into a step that does not end: past its `except Exception`, so that it cannot go
    on.
    """


def call(held: ClaimedRun, seconds: float | None, function: Callable[[], Any]) -> Any:
    """Call `function`, the body of the step at hand.

    In a body process it has the step's limit; elsewhere `seconds`, if any, in a thread of its own.
    Raises StepFailed(code="timeout") when the time is up.

    There a step that never returns is left behind with TimeIsUp thrown into it; whatever it still
    tries to write is refused, since the run's epoch moves on.
    """
    if (process := body_process.here) is not None:
        ends = limit_of(sequence.named(held.steps, held.progress.at))
        held.watch.begin(ends)
        try:
            return process.call(held.epoch, ends, function)
        finally:
            held.watch.end()
    if seconds is None:
        return function()
    held.watch.begin(seconds)
    box: dict[str, Any] = {}

    def work() -> None:
        held.watch.follow()
        try:
            box["value"] = function()
        # carried to the caller, which knows what each means
        except BaseException as error:  # noqa: BLE001
            box["error"] = error
        finally:
            connection.close()

    here = contextvars.copy_context()  # what log lines and spans of the step's own are about
    thread = threading.Thread(
        target=here.run, args=(work,), name=f"step {held.progress.head.next_step}", daemon=True
    )
    thread.start()
    thread.join(seconds + GRACE)
    held.watch.end()
    if thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident or 0), ctypes.py_object(StepTimeIsUp)
        )
        raise StepFailed(f"The step did not end within {seconds:g} s.", code="timeout")
    if (error := box.get("error")) is not None:
        raise error
    return box["value"]
