"""What a step does beyond its state while its run is held: effects that are recorded once, log
lines, artifacts, approvals and credentials.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from django.db import connection, transaction

from checkpoints import store
from checkpoints.database import outages
from checkpoints.events import log
from checkpoints.models import EventKind, Memo
from checkpoints.models.fields import Locked
from checkpoints.state import codec, redaction
from checkpoints.store.prepared_queries import Prepared
from runs.engine import approvals
from runs.engine.body_processes import endable
from runs.engine.context import artifacts
from runs.engine.context.claimed_run import ClaimedRun
from runs.security import credentials
from runs.workflows.base import Step, Told

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two tries to record an effect that has happened."""
OUTAGE = 600.0
"""Seconds for which that is tried.

A run whose database is away is taken over by nobody, however long ago its lease has run out.
"""


_memo = Prepared(lambda scope, key: Memo.objects.filter(scope=scope, key=key), str, str)


def once(
    held: ClaimedRun,
    key: str,
    function: Callable[[], Any],
    *,
    tell: Callable[[Any], Told] | None = None,
    optional: bool = False,
    flush: Callable[[], None] = lambda: None,
) -> Any:
    """See `runs.workflows.base.Once`.

    `flush` writes what the step has said so far, before something is told.
    """
    progress = held.progress
    unapproved = not (optional or progress.relied or progress.unasked)
    unapproved = unapproved and approvals.is_behind_review(held.steps, progress.at)
    with held.watch.own_connection():
        return _do_once(held, str(held.scrub(key)), function, tell, flush, unapproved=unapproved)


def recorded(held: ClaimedRun, keys: Collection[str]) -> dict[str, Any]:
    """Those of these keys that `once` has recorded for this execution, each with its result."""
    with held.watch.own_connection():
        return {
            memo.key: _result(memo) for memo in Memo.objects.filter(scope=held.key, key__in=keys)
        }


def _do_once(
    held: ClaimedRun,
    key: str,
    function: Callable[[], Any],
    tell: Callable[[Any], Told] | None,
    flush: Callable[[], None],
    *,
    unapproved: bool,
) -> Any:
    if memos := _memo.get(held.key, key):
        return _result(memos[0])
    # a run that was cancelled or taken over has no more effects; what is under way then cannot
    # be stopped
    held.watch.require()
    with endable.exposed():
        value = function()
    value = held.scrub(value)
    codec.check(value, f"once[{key}]")
    value = redaction.redact(value)
    unsaid: Exception | None = None
    if tell is not None:
        try:
            flush()
        except outages.ERRORS as error:
            # words are lost, which is told below; the effect has happened, so it is recorded
            # first
            unsaid = error
    _insist_on(lambda: _record_once(held, key, value, tell, unapproved=unapproved))
    if unsaid is not None:
        raise unsaid
    # of two threads the first to record wins
    [memo] = _memo.get(held.key, key)
    return _result(memo)


def _record_once(
    held: ClaimedRun, key: str, value: Any, tell: Callable[[Any], Told] | None, *, unapproved: bool
) -> None:
    """Record what `once` computed, unless that is recorded: a commit whose answer was lost may
    have done it.
    """
    if _memo.get(held.key, key):
        return
    with transaction.atomic(durable=True):
        if tell is not None:
            kind, data = tell(value)
            _append(held, [(EventKind(kind), data)])
        if unapproved:
            _append(held, [(EventKind.LOG, approvals.unapproved_effect(key))])
        held.watch.require()
        memo = Memo(
            thread_id=held.run.thread_id,
            scope=held.key,
            key=key,
            value=[value],
            unapproved=unapproved,
        )
        Memo.objects.bulk_create([memo], ignore_conflicts=True)


def write_lines(held: ClaimedRun, lines: Sequence[Mapping[str, Any]]) -> None:
    """Log lines in one small commit, so that they are seen while the step still works.

    Raises Stopped where the run is not ours.
    """
    # whoever writes closes its connection, or keeps it
    _commit_events(held, [(EventKind.LOG, line) for line in lines])


def write_chunk(held: ClaimedRun, text: str, *, step: str, loop: int) -> None:
    """A piece of what a step says, in its own small commit.

    Raises Stopped where the run is not ours.
    """
    # its writer keeps its connection
    _commit_events(
        held, [(EventKind.STREAMING_CHUNK, {"content": text, "step": step, "loop_num": loop})]
    )


def write_thought(held: ClaimedRun, text: str, *, step: str, loop: int) -> None:
    """The same of what it thinks aloud: without content, so that who knows of no thoughts takes
    them for no words.
    """
    data = {"content": "", "thinking": text, "step": step, "loop_num": loop}
    _commit_events(held, [(EventKind.STREAMING_CHUNK, data)])


def write_event(held: ClaimedRun, kind: EventKind, data: Mapping[str, Any]) -> None:
    """An event in its own small commit. Raises Stopped where the run is not ours."""
    with held.watch.own_connection():
        _commit_events(held, [(kind, data)])


def _commit_events(held: ClaimedRun, facts: Sequence[tuple[EventKind, Mapping[str, Any]]]) -> None:
    with endable.shielded(), transaction.atomic(durable=True):
        _append(held, facts)
        held.watch.require()  # after the append, which waits for whoever is ending the run just now


def _append(held: ClaimedRun, facts: Sequence[tuple[EventKind, Mapping[str, Any]]]) -> None:
    log.append(
        held.run.thread_id, held.run.pk, [(kind, _sayable(held, data)) for kind, data in facts]
    )


def _sayable(held: ClaimedRun, data: Mapping[str, Any]) -> Mapping[str, Any]:
    readable = {
        key: codec.readable(value) if isinstance(value, str) else value
        for key, value in data.items()
    }
    sayable: Mapping[str, Any] = held.scrub({"step": held.progress.at, **readable})
    return sayable


def keep(held: ClaimedRun, name: str, text: str, *, step: str, loop: int) -> None:
    """See `Context.keep`. Raises Stopped where the run is not ours, and StepFailed where its
    artifacts are too large.
    """
    keep_long(held, name, text, 0, step=step, loop=loop)


def keep_long(held: ClaimedRun, name: str, text: str, whole: int, *, step: str, loop: int) -> None:
    """The same of a text of which `whole` bytes there were, and the middle is left out
    already.
    """
    name, text = held.scrub((name, text))
    artifacts.keep(held.run, name, text, whole, step=step, loop=loop, require=held.watch.require)


def artifact(
    held: ClaimedRun, name: str, content: bytes, *, step: str, loop: int
) -> dict[str, Any]:
    """See `Context.artifact`. Raises as `keep`."""
    with suppress(UnicodeDecodeError):  # else it is no text
        content = held.scrub(content.decode()).encode()
    with held.watch.own_connection():
        return artifacts.keep_file(
            held.run, held.scrub(name), content, step=step, loop=loop, require=held.watch.require
        )


def require_approval(
    held: ClaimedRun, of: str | Step, material: Any = None, *, optional: bool = False
) -> None:
    """See `runs.workflows.base.RequireApproval`."""
    with held.watch.own_connection():
        approvals.require(held, of, material, at=held.progress.at, optional=optional)


def credential(held: ClaimedRun, name: str, *, to: str = "") -> str:
    """See `runs.workflows.base.GiveCredential`."""
    with held.watch.own_connection():
        secret = credentials.resolve(name, team_id=held.run.thread.team_id, to=to)
    held.scrub.learn(secret)
    return secret


def _insist_on(work: Callable[[], None]) -> None:
    """Do what records an effect that has happened.

    While there is trouble with the database it is tried again, for OUTAGE: an effect
    that is not recorded happens again.
    """
    ends, pause = time.monotonic() + OUTAGE, FIRST_PAUSE
    while True:
        try:
            return work()
        except outages.ERRORS as error:
            if not outages.is_trouble(error) or time.monotonic() + pause > ends:
                raise
            logger.warning("could not record an effect that has happened, trying again: %s", error)
            connection.close()
        time.sleep(pause)  # the database may be back by then
        pause = min(pause * 2, LONGEST_PAUSE)


def _result(memo: Memo) -> Any:
    """What was recorded; raises CheckpointDamaged where it cannot be read, so that it is not done
    again.
    """
    if isinstance(memo.value, Locked):
        raise store.unreadable(f"what {memo.scope} recorded as {memo.key}", memo.value.error)
    if not isinstance(memo.value, list) or len(memo.value) != 1:
        raise store.CheckpointDamaged(
            f"what {memo.scope} recorded as {memo.key} cannot be read; its stored text was changed"
        )
    return memo.value[0]
