"""In a worker: ends the database session that a call of the SDK is using, in the middle of that
call.

The fault `sessions` leaves wishes: files in a folder, named after a call, a statement of it and a
moment. Each step of the chaos run looks for one that it can fulfil, and whoever does says so in
another folder, once it has happened.
"""

from __future__ import annotations

import os
import threading
import time
import typing
from collections import abc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any, cast

import psycopg
from django.db.backends.utils import CursorWrapper

from runs.workflows.base import Context, Outcome, PullRequestDraft, StepFailed

WISHES, STRUCK = "wishes", "struck"
"""Folders beside the effects."""
HEARTBEAT = "lease-heartbeat"
"""The thread whose session is not meant."""
CALLS: dict[str, Callable[[Context], object]] = {
    "log": lambda context: _after_a_pause(lambda: context.log("Struck here")),
    "check": lambda context: _anew(context.check),
    "recorded": lambda context: context.recorded(["effect"]),
    "stream": lambda context: _aloud(context.stream, context),
    "think": lambda context: _aloud(context.think, context),
    "keep": lambda context: context.keep("notes", f"of {context.key}"),
    "artifact": lambda context: context.artifact("notes.txt", context.key.encode()),
    "emit": lambda context: context.emit("log", {"message": "emitted", "level": "info"}),
    "halting": lambda context: _anew(context.halting),
    "require_approval": lambda context: _refused(
        {"approval_missing"}, lambda: context.require_approval("")
    ),
    "decided_calls": lambda context: context.decided_calls("s1"),
    "credential": lambda context: _refused(
        {"credential_missing"}, lambda: context.credential("none")
    ),
    "propose": lambda context: _refused(
        {"no_forge", "delivery_forbidden", "approval_missing", "delivery_missing"},
        lambda: context.propose(PullRequestDraft(branch="b", base="", title="t", body="")),
    ),
    "progress": lambda context: _written(lambda: context.progress(1, 2, unit="rows")),
    "content_of": lambda context: _refused(
        {"file_missing"}, lambda: context.content_of({"name": "none", "sha256": "0" * 64})
    ),
    "answered": lambda context: context.answered("s1"),
    "approved": lambda context: context.approved("s1"),
}
"""Call of the SDK → how it is made here; `once` is made by every step anyway."""
OUTCOMES = {"Go", "Ask", "Gather", "Sleep", "Done"}
"""What a step may answer, which the engine then records."""


def sdk() -> set[str]:
    """Every call of the SDK, from its class: a new one that nobody strikes is a breach."""
    hints = typing.get_type_hints(Context)
    fields = {
        name
        for name, hint in hints.items()
        if typing.get_origin(hint) is abc.Callable or "__call__" in getattr(hint, "__dict__", {})
    }
    methods = {
        name
        for name, value in vars(Context).items()
        if callable(value) and not name.startswith("_") and name not in hints
    }
    return fields | methods | {outcome.__name__ for outcome in typing.get_args(Outcome)}


HOST = "CHAOS_HOST"
"""The variable in which each host finds its name."""


def linger() -> None:
    """Stay in this step for as long as the fault `cut_off` wants, if it wants this host's next
    one: until a file is gone.
    """
    wanted, here = (
        Path(os.environ["CHAOS_LEDGERS"]) / f"{name}-{os.environ.get(HOST)}"
        for name in ("linger", "lingers")
    )
    with suppress(FileNotFoundError):
        os.rename(wanted, here)
        while here.exists():
            time.sleep(0.05)  # the step is at work


@dataclass
class Wish:
    name: str
    call: str
    statement: int
    """Which one of the call, from 1."""
    after: bool
    """Whether it is done when its session ends."""
    run: str
    fence: int
    left: int = 0


_armed: Wish | None = None
_guard = threading.Lock()


def wished(context: Context, outcome: str) -> Wish | None:
    """Take a wish that this step can fulfil."""
    global _armed
    if _armed is not None:  # of the step before: another process recorded what it answered
        _say(_armed, struck=False)
        _armed = None
    folder = Path(os.environ["CHAOS_LEDGERS"])
    if not (folder / WISHES).exists():
        return None
    for name in sorted(os.listdir(folder / WISHES)):
        call, statement, moment = name.split("-")
        if call in OUTCOMES and call != outcome:
            continue
        with suppress(FileNotFoundError):
            os.rename(folder / WISHES / name, folder / f"{WISHES}.taken" / name)
            return Wish(
                name,
                call,
                int(statement),
                moment == "after",
                context.run_id,
                context.fence,
                int(statement),
            )
    return None


@contextmanager
def during(wish: Wish | None, call: str) -> Iterator[None]:
    """Fulfil the wish inside this call, if it is for it.

    A call that has fewer statements is told apart.
    """
    global _armed
    if wish is None or wish.call != call:
        yield
        return
    _armed = wish
    try:
        yield
    finally:
        if _armed is wish and call not in OUTCOMES:
            _armed = None
            _say(wish, struck=False)


def arm(wish: Wish | None, outcome: str) -> None:
    """Fulfil the wish while the engine records what the step answers."""
    global _armed
    if wish is not None and wish.call == outcome:
        _armed = wish


def make(wish: Wish | None, context: Context) -> None:
    if wish is not None and wish.call in CALLS:
        with during(wish, wish.call):
            CALLS[wish.call](context)


def watch() -> None:
    """From now on every statement of this process is looked at."""
    wrapper: Any = CursorWrapper
    execute = wrapper._execute

    def watched(self: CursorWrapper, sql: Any, params: Any, *ignored: Any) -> Any:
        wish = _due()
        if wish is not None and not wish.after:
            _end(self, wish)
        result = execute(self, sql, params, *ignored)
        if wish is not None and wish.after:
            _end(self, wish)
        return result

    wrapper._execute = watched


def _due() -> Wish | None:
    global _armed
    with _guard:
        wish = _armed
        if wish is None or threading.current_thread().name == HEARTBEAT:
            return None
        wish.left -= 1
        if wish.left > 0:
            return None
        _armed = None
        return wish


def _end(cursor: Any, wish: Wish) -> None:
    _say(wish, struck=True)
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(%s, 5000)", [cursor.db.connection.info.backend_pid]
        )


def _say(wish: Wish, *, struck: bool) -> None:
    folder = Path(os.environ["CHAOS_LEDGERS"])
    (folder / f"{wish.name}.new").write_text(f"{wish.run} {wish.fence} {struck:d}")
    os.rename(folder / f"{wish.name}.new", folder / STRUCK / wish.name)


def _after_a_pause(call: Callable[[], object]) -> None:
    """A line is written in the thread that says it where the step was quiet before; else another
    thread writes it, in a session of its own.
    """
    time.sleep(0.2)
    call()


def _written(call: Callable[[], object]) -> None:
    """What another thread writes has its moment to be written: nothing tells when it was."""
    call()
    time.sleep(0.2)


def _aloud(say: Callable[[str], None], context: Context) -> None:
    say("some words ")
    context.log("said")


def _anew(call: Callable[[], object]) -> None:
    """What asks the database twice in a second at most is asked as if a second had passed."""
    held: Any = cast(MethodType, call).__self__
    held.checked_at = held.asked_at = 0.0
    call()


def _refused(codes: set[str], call: Callable[[], object]) -> None:
    """What the step may not have, or nobody has here, is refused with one of these codes; any other
    failure is the step's.
    """
    try:
        call()
    except StepFailed as error:
        if error.code not in codes:
            raise
