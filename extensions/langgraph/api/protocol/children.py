"""Namespaces in the protocol. A child run has one of its own, and is told as the log of the run
above tells of it: begun, asking, answered, ended; what it says at work is on its own thread. A
graph within the graph of a step has that which LangGraph gave it, with each node that is done.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from checkpoints import lineage
from checkpoints.events.log import Envelope
from checkpoints.models import Checkpoint, CheckpointStatus
from extensions.langgraph.api.protocol import tree
from extensions.langgraph.api.protocol.shown import MOST, Told, Wants, shown_key
from extensions.langgraph.api.values import values_of
from runs.engine.children import plans
from runs.models import Run

AFTER_VALUES = 5
"""The place of the first child that begins, behind what a checkpoint is told with."""


def begun(checkpoint: Checkpoint) -> Iterator[Told]:
    """The children that a step begins; of very many the first."""
    if checkpoint.status != CheckpointStatus.ACTIVE or checkpoint.next_step:
        return  # a later one, which keeps what was gathered
    metadata = checkpoint.metadata if isinstance(checkpoint.metadata, Mapping) else {}
    if not (kept := metadata.get("gather")):
        return
    for place, (name, key) in enumerate(plans.begun(kept, MOST - AFTER_VALUES), AFTER_VALUES):
        yield _lifecycle(place, [tree.namespace_part(name, key)], "started")


def nodes(event: Envelope) -> Iterator[Told]:
    """A node of a graph within a graph, where a line of the log says that it is done."""
    data = event["data"]
    namespace = data.get("namespace")
    if "node" not in data or not isinstance(namespace, list) or not namespace:
        return
    name = str(data["node"]).rpartition("/")[2]
    key = uuid.uuid5(uuid.NAMESPACE_OID, f"{event['thread_id']} {event['seq']}")
    task: dict[str, Any] = {"id": str(key), "name": name, "interrupts": []}
    yield Told(3, "tasks", "tasks", {**task, "triggers": [], "input": None}, namespace)
    if isinstance(data.get("update"), Mapping):  # else it was too long to be kept
        values = dict(data["update"])
        yield Told(4, "updates", "updates", {"node": name, "values": values}, namespace)
    yield Told(5, "tasks", "tasks", {**task, "error": None, "result": {}}, namespace)


class _Note(NamedTuple):
    run: Run
    namespace: list[str]
    data: Mapping[str, Any]


def noted(event: Envelope, wants: Wants) -> Iterator[Told]:
    """What a line of the log says of a child run, where it does."""
    data = event["data"]
    if "child_run_id" not in data:
        return
    run = Run.objects.filter(pk=shown_key(Run.PREFIX, data["child_run_id"])).first()
    above = shown_key(Run.PREFIX, event["run_id"])
    if run is None or (namespace := _namespace(run, above)) is None:
        return
    note = _Note(run, namespace, data)
    if len(namespace) > 1:  # it began on another thread
        yield _lifecycle(0, namespace, "started")
    if "pause_id" in data:
        yield _lifecycle(1, namespace, "interrupted")
    elif "decision_id" in data:
        yield _lifecycle(1, namespace, "running")
    else:
        yield from _ended(note, wants)


def _namespace(run: Run | None, above: Any) -> list[str] | None:
    """From the run of the thread down; None where it is not below that."""
    path: list[str] = []
    while run is not None and run.pk != above:
        path.insert(0, tree.namespace_part(run.child_name, run.pk))
        run = run.parent
    return path if run is not None else None


def _ended(note: _Note, wants: Wants) -> Iterator[Told]:
    """Its values, its end, and the task that it was to the run above."""
    run, namespace, data = note
    error = None if data.get("level") == "info" else str(data.get("message", ""))
    if error is None and wants("values", namespace):
        values = values_of(lineage.latest(run.thread_id))
        yield Told(3, "values", "values", values, namespace)
    if error is None:
        yield _lifecycle(4, namespace, "completed")
    else:
        yield _lifecycle(4, namespace, "failed", error=error)
    task: dict[str, Any] = {
        "id": run.pk.hex,
        "name": run.child_name,
        "interrupts": [],
        "error": error,
    }
    yield Told(5, "tasks", "tasks", {**task, "result": {}}, namespace[:-1])


def _lifecycle(place: int, namespace: list[str], status: str, **more: Any) -> Told:
    name = namespace[-1].partition(":")[0]
    data = {"event": status, "graph_name": name, **more}
    return Told(place, "lifecycle", "lifecycle", data, namespace)
