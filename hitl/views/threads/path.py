"""The path of a thread through its workflow, as its history page draws it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from checkpoints import ids
from checkpoints.models import Checkpoint, CheckpointStatus, Thread
from hitl.rendering.diagrams import graph, path, workflow
from hitl.rendering.diagrams.path import StepPath, Trace
from hitl.views.family import STOPPED
from runs.definitions import pictures
from runs.models import Run
from runs.states import COMPLETED, PAUSED

TRACED = 1000
"""Checkpoints that are looked at; the newest of them."""
LINKED = 8
"""Checkpoints of a step that are linked, on the line and beside it; the newest of them."""


def of_thread(thread: Thread) -> dict[str, Any]:
    """Context of `hitl/orders/_path.html`: of the workflow of the thread's latest run; empty where
    it has none, or keeps no checkpoints.
    """
    run = Run.objects.filter(thread=thread).order_by("-pk").first()
    head = thread.head
    if run is None or head is None:
        return {}
    rows = (
        Checkpoint.objects.filter(thread=thread, graph=None)  # those of graphs within a step
        .order_by("-pk")
        .values_list("pk", "parent_id", "node_id", "loop_num", "status")[: TRACED + 1]
    )
    traces = [
        Trace(pk, parent, node, loop, status == CheckpointStatus.PENDING_INPUT)
        for pk, parent, node, loop, status in rows[:TRACED]
    ][::-1]
    steps = run.frozen.steps
    there = path.path_of(
        steps,
        traces,
        head.pk,
        at=(head.next_step or head.node_id) if run.status != COMPLETED else "",
        waiting=run.status == PAUSED,
        stopped=STOPPED.get(run.status, ""),
    )
    return {
        "picture": workflow.draw(steps, there.standing),
        "graphs": graph.draw_all(pictures.of_steps(steps, run)),
        "path": [_row(step) for step in there.steps],
        "path_cut": len(rows) > TRACED,
    }


def _row(step: StepPath) -> dict[str, Any]:
    return {
        "title": step.title,
        "places": [_linked(step.line), _linked(step.aside)],
    }


def _linked(keys: Sequence[uuid.UUID]) -> dict[str, Any]:
    """The newest of them by their shown ids, and how many are left out."""
    newest = [(key, ids.show(Checkpoint.PREFIX, key)) for key in keys[-LINKED:]]
    return {"newest": newest, "more": max(0, len(keys) - LINKED)}
