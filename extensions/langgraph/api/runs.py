"""Wire runs as clients list, read, cancel and hide them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from checkpoints.database import clock
from checkpoints.models import Thread
from extensions.langgraph.api import assistants, keys, segments, starting, threads
from extensions.langgraph.api.calls import Call, Given, Reply, invalid, key_of
from extensions.langgraph.api.resuming import replies
from extensions.langgraph.api.segments import Segment
from extensions.langgraph.api.values import taken
from hitl.decisions.services import AlreadyAnswered, NotFound
from hitl.live.pump import StreamRefused
from hitl.models import LangGraphRun
from hitl.threads import messages
from runs.models import QueuedTurn, Run, Schedule
from runs.states import PAUSED, RunEnded
from runs.threads import edits
from runs.threads.message_queue import NotWaiting

START = (edits.START, "__input__")
"""Words of LangGraph for what stands before the first node."""


class StateIn(Given):
    values: Any = None
    as_node: str = ""
    checkpoint: dict[str, Any] = {}
    checkpoint_id: str = ""


def update_state(call: Call) -> Reply:
    """Edit the state of a thread on which nothing runs; as `__end__`, without values, end what
    does.
    """
    given = call.body(StateIn)
    updates = given.values if isinstance(given.values, list) else [given.values or {}]
    if not all(isinstance(one, dict) for one in updates):
        raise invalid("values is an object, or a list of some.")
    is_end = given.as_node == starting.END
    if any(updates) if is_end else given.values is None and not given.as_node:
        raise invalid("Send values, as_node, or both; as_node __end__ takes no values.")
    if given.checkpoint.get("checkpoint_ns"):
        raise invalid("checkpoint.checkpoint_ns: the state is the thread's own here.")
    place = given.checkpoint_id or given.checkpoint.get("checkpoint_id") or ""

    def act() -> keys.Begun:
        thread = threads.find(call)
        if is_end:
            starting.end(call, thread)
            return thread.pk, thread.head_id or thread.pk
        written = messages.edit_state(
            thread.pk,
            [taken(one) for one in updates],
            by=call.by,
            step=edits.START if given.as_node in START else given.as_node,
            checkpoint_id=key_of(place, "checkpoint_id") if place else None,
            template=str(threads.metadata_of(thread).get("graph_id") or ""),
        )
        return thread.pk, written.pk

    thread_id, written = keys.once(call, act)
    thread = threads.by_key(call, thread_id)
    key = thread.head_id if is_end else written
    at = {"thread_id": threads.wire_id(thread_id), "checkpoint_ns": "", "checkpoint_id": str(key)}
    return Reply(data={"checkpoint": at, "configurable": at, "checkpoint_id": str(key)})


def shown(thread: Thread, found: list[Segment]) -> list[dict[str, Any]]:
    """Wire runs, but those that were hidden."""
    notes = {
        note.wire_id: note
        for note in LangGraphRun.objects.filter(wire_id__in=[one.wire_id for one in found])
    }
    wire = threads.wire_id(thread.pk)
    runs = {one.run.pk: one.run for one in found if one.run}
    begun_with = {key: assistants.id_of_run(run) for key, run in runs.items()}
    rows = []
    for segment in found:
        note = notes.get(segment.wire_id)
        if note is not None and note.hidden_at is not None:
            continue
        kept = str(note.assistant) if note is not None and note.assistant else None
        rows.append(
            {
                "run_id": str(segment.wire_id),
                "thread_id": wire,
                "assistant_id": begun_with[segment.run.pk] if segment.run else kept,
                "created_at": segment.began_at.isoformat(),
                "updated_at": segment.changed_at.isoformat(),
                "status": segment.status,
                "metadata": {
                    **(by_clock(segment.run) if segment.run else {}),
                    **(note.metadata if note else {}),
                },
                "kwargs": {},
                "multitask_strategy": "enqueue",
            }
        )
    return rows


def by_clock(run: Run) -> dict[str, Any]:
    """What a schedule that began a run has as its metadata."""
    if run.work_order_id is None:
        return {}
    rows = Schedule.objects.filter(occurrences__order=run.work_order_id)
    return dict(rows.values_list("metadata", flat=True).first() or {})


def find(call: Call) -> tuple[Thread, Segment]:
    thread = threads.find(call)
    segment = segments.find(thread.pk, call.key("run_id"))
    if LangGraphRun.objects.filter(wire_id=segment.wire_id, hidden_at__isnull=False).exists():
        raise NotFound("There is no such run of this thread.")
    return thread, segment


def create(call: Call) -> Reply:
    thread, segment, _ = starting.begin(call)
    return Reply(data=shown(thread, [segment])[0], headers=places(thread, segment))


def places(thread: Thread, segment: Segment, *, tail: str = "") -> dict[str, str]:
    """Where clients find a run again: relative to the API's base, without this door's prefix."""
    place = f"/threads/{threads.wire_id(thread.pk)}/runs/{segment.wire_id}"
    return {"Content-Location": place, **({"Location": place + tail} if tail else {})}


def get(call: Call) -> Reply:
    thread, segment = find(call)
    return Reply(data=shown(thread, [segment])[0])


def listed(call: Call) -> Reply:
    thread = threads.find(call)
    limit, offset = call.number("limit", 10, most=1000), call.number("offset", 0, most=10**6)
    status = call.query.get("status", "")
    found = segments.of_thread(thread.pk, enough=10**6 if status else offset + limit)
    rows = [row for row in shown(thread, found) if status in {"", row["status"]}]
    return Reply(data=rows[offset : offset + limit])


class CancelIn(Given):
    thread_id: str = ""
    run_ids: list[str] = Field(default=[], max_length=100)
    status: Literal["", "pending", "running", "all"] = ""


AT_ONCE = 200
"""Runs that one request by status ends."""


def cancel(call: Call) -> Reply:
    """End the run that is at work; a message in the line leaves it."""
    _check_action(call)
    thread, segment = find(call)
    if segment.is_over:
        raise StreamRefused(404, "nothing_to_cancel", "This run has ended: nothing to cancel.")
    _cancel(call, thread, segment)
    return Reply(status=204)


def cancel_many(call: Call) -> Reply:
    """The same of a thread's runs by their ids, or of one's own threads by status; those that have
    ended stay as they are.
    """
    _check_action(call)
    given = call.body(CancelIn)
    if given.status:
        if given.run_ids:
            raise invalid("Send run_ids or a status, not both.")
        return _cancel_by_status(call, given)
    if not given.run_ids or not given.thread_id:
        raise invalid("Send thread_id and run_ids, or a status.")
    names = [{"thread_id": given.thread_id, "run_id": key} for key in given.run_ids]
    for thread, segment in [find(replace(call, names=each)) for each in names]:
        if not segments.find(thread.pk, segment.wire_id).is_over:  # one may end another
            _cancel(call, thread, segment)
    return Reply(status=204)


def _cancel_by_status(call: Call, given: CancelIn) -> Reply:
    """Of the caller's own threads: a colleague's work is ended one by one. What asks has ended on
    the wire, and goes on waiting.
    """
    rows = threads.visible(call).filter(owner=call.by)
    if given.thread_id:
        rows = rows.filter(pk=threads.find_by(call, key_of(given.thread_id, "thread_id")).pk)
    ended = 0
    for thread, segment in _at_work(rows, given.status):
        if ended == AT_ONCE:
            raise StreamRefused(409, "more_left", f"{AT_ONCE} were cancelled, and more are left.")
        with suppress(RunEnded, AlreadyAnswered, NotWaiting):  # by itself meanwhile
            _cancel(call, thread, segment)
            ended += 1
    return Reply(status=204)


def _at_work(rows: Any, status: str) -> Iterator[tuple[Thread, Segment]]:
    """Messages in the line first, or the end of a run would begin them."""
    wanted = segments.AT_WORK if status == "all" else {status}
    waiting = QueuedTurn.objects.waiting().filter(thread__in=rows).order_by("pk")
    live = Run.objects.live().filter(thread__in=rows).exclude(status=PAUSED).order_by("pk")
    for turn in waiting.select_related("thread")[: AT_ONCE + 1]:
        if segments.PENDING in wanted:
            yield turn.thread, segments.waiting(turn)
    for run in live.select_related("thread")[: AT_ONCE + 1]:
        segment = segments.of_run(run)[-1]
        if segment.status in wanted:
            yield run.thread, segment


def _check_action(call: Call) -> None:
    if call.query.get("action", "interrupt") != "interrupt":
        raise invalid("action: a record is never rolled back; send interrupt.")


def _cancel(call: Call, thread: Thread, segment: Segment) -> None:
    if segment.run is None:
        messages.withdraw(thread.pk, segment.wire_id, by=call.by)
    else:
        messages.cancel(segment.run.pk, by=call.by, via=replies.VIA)


def delete(call: Call) -> Reply:
    """Hide a run at this door; its record stays."""
    thread, segment = find(call)
    if not segment.is_over:
        raise StreamRefused(409, "run_live", "This run is alive. Cancel it first.")
    LangGraphRun.objects.update_or_create(
        wire_id=segment.wire_id, defaults={"thread": thread, "hidden_at": clock.now()}
    )
    return Reply(status=204)
