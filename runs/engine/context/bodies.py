"""A step's body is its author's code: what it leaves behind must not reach the worker's other
runs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.db import DatabaseError, InterfaceError, connections

from runs.engine.body_processes.endable import BodyEnds
from runs.engine.workers.shutdown import ProcessEnds, stopping
from runs.workflows.base import StepFailed


class _LeftOpen(Exception):
    """Rolls a transaction back that nobody ended."""


def call(function: Callable[[], Any]) -> Any:
    """Call a step's body, in the thread that runs it.

    Raises what the body raises, and StepFailed:
        `transaction_left_open`: whatever was written on this connection afterwards, of this run and
            of others, would not have been committed.
        `step_left`: it raised what is no Exception, as `sys.exit()` does. That would end the worker
            under its other runs.
    """
    before = {known.alias: len(known.atomic_blocks) for known in _open()}
    try:
        value = function()
    except Exception:
        _end(before)
        raise
    except (KeyboardInterrupt, ProcessEnds, BodyEnds):
        raise
    except BaseException as error:
        if stopping() or _by_signal(error):
            raise
        _end(before)
        raise StepFailed(_words(error), code="step_left") from error
    if _end(before):
        raise StepFailed(
            "The step left a database transaction open, so it was rolled back, and nothing of "
            "this step was recorded. Write `with transaction.atomic():` around what belongs "
            "together, and leave the connection as it was.",
            code="transaction_left_open",
        )
    return value


def _open() -> list[Any]:
    return list(connections.all(initialized_only=True))


def _end(before: dict[str, int]) -> bool:
    """Roll back what was begun since; whether there was anything."""
    left = False
    for connection in _open():
        blocks = connection.atomic_blocks
        try:
            while len(blocks) > before.get(connection.alias, 0):
                left = True
                blocks[-1].__exit__(_LeftOpen, _LeftOpen(), None)
            if (
                connection.connection is not None
                and not blocks
                and connection.settings_dict["AUTOCOMMIT"]
                and not connection.get_autocommit()
            ):
                left = True
                connection.rollback()
                connection.set_autocommit(True)
        except (DatabaseError, InterfaceError):
            left = True
            with suppress(DatabaseError, InterfaceError):
                connection.close()
    return left


def _by_signal(error: BaseException) -> bool:
    """Whether a worker's child process leaves because of a signal: its code is below 0."""
    return isinstance(error, SystemExit) and isinstance(error.code, int) and error.code < 0


def _words(error: BaseException) -> str:
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  # an author's __str__ may raise anything
        text = type(error).__name__
    return (
        f"The step ended with {text}, which is for ending a program. Its worker went on, and "
        "nothing of this step was recorded. A step ends by what it returns, or by an Exception."
    )
