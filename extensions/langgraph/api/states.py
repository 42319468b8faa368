"""Checkpoints as states of a LangGraph thread."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from checkpoints import lineage
from checkpoints.models import Checkpoint, CheckpointStatus, Thread
from extensions.langgraph.api import interrupts, reviewing, threads
from extensions.langgraph.api.calls import Call, Given, Reply, invalid, key_of
from extensions.langgraph.api.values import values_of
from hitl.decisions import visibility
from hitl.decisions.services import NotFound
from hitl.models import Decision
from hitl.threads import messages
from runs.engine.start import EDITED_AS
from runs.models import Pause, QueuedTurn, Run

MOST = 1000


class HistoryIn(Given):
    limit: int = 10
    before: str | dict[str, Any] = ""
    metadata: dict[str, Any] = {}
    checkpoint: dict[str, Any] = {}


class CheckpointIn(Given):
    checkpoint: dict[str, Any]
    subgraphs: bool = False
    select: list[str] = []


def shown(
    thread_id: uuid.UUID, checkpoints: Sequence[Checkpoint], *, newest: uuid.UUID | None
) -> list[dict[str, Any]]:
    """The states of a page of a thread's history, newest first.

    Args:
        newest: the thread's head, whose open questions are its tasks.
    """
    if not checkpoints:
        return []
    wire = threads.wire_id(thread_id)
    number = Checkpoint.objects.filter(thread=thread_id, pk__lte=checkpoints[0].pk).count() - 2
    asked: dict[uuid.UUID, list[Pause]] = defaultdict(list)
    for pause in Pause.objects.shown().filter(checkpoint__in=[one.pk for one in checkpoints]):
        asked[pause.checkpoint_id].append(pause)
    if newest is not None:
        asked[newest] = messages.open_on(thread_id)
    answers = {
        decision.pause_id: decision
        for decision in Decision.objects.filter(
            pause__in=[pause for pauses in asked.values() for pause in pauses], undoes=None
        )
    }
    runs = _wire_runs(checkpoints)
    states = []
    for place, checkpoint in enumerate(checkpoints):
        tasks = [
            interrupts.task(pause, result=_result(answers.get(pause.pk)))
            for pause in asked[checkpoint.pk]
        ]
        states.append(
            _state(wire, checkpoint, tasks, step=number - place, run_id=runs[checkpoint.pk])
        )
    return states


def _result(decision: Decision | None) -> Any:
    return None if decision is None else {"decision": decision.action}


def _wire_runs(checkpoints: Sequence[Checkpoint]) -> dict[uuid.UUID, str]:
    """The segment in which each checkpoint lies: behind each question of its run another begins."""
    keys = {checkpoint.run_id for checkpoint in checkpoints}
    lined = dict(QueuedTurn.objects.filter(run__in=keys).values_list("run", "pk"))
    answered = list(
        Decision.objects.filter(pause__run__in=keys, undoes=None)
        .order_by("pk")
        .values_list("pause__run", "pause__checkpoint", "pk")
    )
    found = {}
    for checkpoint in checkpoints:
        key = lined.get(checkpoint.run_id, checkpoint.run_id)
        for run, asked_at, decision in answered:
            if run == checkpoint.run_id and asked_at < checkpoint.pk:
                key = decision
        found[checkpoint.pk] = str(key)
    return found


def _state(
    wire: str, checkpoint: Checkpoint, tasks: list[dict[str, Any]], *, step: int, run_id: str
) -> dict[str, Any]:
    parent = None if checkpoint.parent_id is None else _place(wire, checkpoint.parent_id)
    edited = EDITED_AS in checkpoint.metadata
    begins = not (checkpoint.node_id or edited) and checkpoint.status == CheckpointStatus.ACTIVE
    forked = (
        begins
        and Run.objects.filter(pk=checkpoint.run_id, forked_from=checkpoint.parent_id)
        .exclude(forked_from=None)
        .exists()
    )
    return {
        "values": values_of(checkpoint),
        "next": _next(checkpoint, tasks),
        "tasks": tasks,
        "interrupts": [one for task in tasks if not task["result"] for one in task["interrupts"]],
        "metadata": {
            "source": "fork" if forked else "input" if begins else "update" if edited else "loop",
            "step": step,
            "run_id": run_id,
            "parents": {},
        },
        "created_at": checkpoint.created_at.isoformat(),
        "checkpoint": _place(wire, checkpoint.pk),
        "parent_checkpoint": parent,
        "checkpoint_id": str(checkpoint.pk),
        "parent_checkpoint_id": parent and parent["checkpoint_id"],
    }


def _next(checkpoint: Checkpoint, tasks: list[dict[str, Any]]) -> list[str]:
    if checkpoint.status == CheckpointStatus.PENDING_INPUT:
        return [checkpoint.node_id] if checkpoint.node_id else [task["name"] for task in tasks]
    if checkpoint.status == CheckpointStatus.ACTIVE and checkpoint.next_step:
        return [checkpoint.next_step]
    return [task["name"] for task in tasks]


def _place(wire: str, checkpoint_id: uuid.UUID) -> dict[str, Any]:
    return {"thread_id": wire, "checkpoint_ns": "", "checkpoint_id": str(checkpoint_id)}


def empty(thread: Thread) -> dict[str, Any]:
    """The state of a thread that has not run yet."""
    return {
        "values": {},
        "next": [],
        "tasks": [],
        "interrupts": [],
        "metadata": {},
        "created_at": thread.created_at.isoformat(),
        "checkpoint": {"thread_id": threads.wire_id(thread.pk), "checkpoint_ns": ""},
        "parent_checkpoint": None,
        "checkpoint_id": None,
        "parent_checkpoint_id": None,
    }


def of(thread: Thread, checkpoint: Checkpoint | None) -> dict[str, Any]:
    """The state at one checkpoint."""
    if checkpoint is None:
        return empty(thread)
    head = thread.head_id if checkpoint.pk == thread.head_id else None
    return shown(thread.pk, [checkpoint], newest=head)[0]


def thread(call: Call) -> Reply:
    """The thread of the address, as the caller sees it."""
    found = reviewing.find(call)
    whole = found.asked is None
    return Reply(data=threads.shown([found.thread])[0] if whole else reviewing.row_of(found))


def get(call: Call) -> Reply:
    found = reviewing.find(call)
    if found.asked is not None:
        return Reply(data=reviewing.state_of(found))
    return Reply(data=of(found.thread, lineage.latest(found.thread.pk)))


def at(call: Call) -> Reply:
    return _at(call, call.names["checkpoint_id"])


def at_given(call: Call) -> Reply:
    place = call.body(CheckpointIn).checkpoint
    if "checkpoint_id" not in place:
        return get(call)
    return _at(call, place["checkpoint_id"])


def _at(call: Call, text: Any) -> Reply:
    thread = threads.find(call)
    key = key_of(text, "checkpoint_id")
    checkpoint = visibility.find_checkpoint(key, by=call.by)
    if checkpoint.thread_id != thread.pk:
        raise NotFound("There is no such checkpoint.")
    return Reply(data=of(thread, checkpoint))


def history(call: Call) -> Reply:
    thread = threads.find(call)
    if call.data is None:
        query = {"limit": call.number("limit", 10, most=MOST), "before": call.query.get("before")}
        call = Call(by=call.by, names=call.names, query={}, data=query)
    given = call.body(HistoryIn)
    if unknown := set(given.metadata) - {"source", "step", "run_id"}:
        raise invalid(f"metadata: history is not searched by {min(unknown)[:60]!r}.")
    if given.checkpoint and set(given.checkpoint) - {"checkpoint_ns", "thread_id"}:
        raise invalid("checkpoint: a history is the thread's own line here; use before.")
    before = _before(given.before)
    limit = min(max(given.limit, 1), MOST)
    rows = lineage.history(thread.pk, before=before, limit=limit)
    full = list(Checkpoint.objects.filter(pk__in=[row.pk for row in rows]).order_by("-pk"))
    states = shown(thread.pk, full, newest=thread.head_id if before is None else None)
    return Reply(
        data=[
            state
            for state in states
            if all(state["metadata"].get(key) == value for key, value in given.metadata.items())
        ]
    )


def _before(given: str | Mapping[str, Any]) -> uuid.UUID | None:
    """In the three shapes that clients send."""
    if isinstance(given, Mapping):
        given = given.get("configurable", given)
        given = given.get("checkpoint_id", "") if isinstance(given, Mapping) else ""
    return key_of(given, "before") if given else None
