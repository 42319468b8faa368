"""What steps work through inside, for the pages that draw it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import Error, connection

from checkpoints import store
from checkpoints.models import Thread
from runs.models import Run
from runs.states import LIVE, PAUSED, RETRIED
from runs.workflows import registry, sequence
from runs.workflows.base.pictures import END, START, At, InnerGraph, Stand, StepPicture
from runs.workflows.sequence import FrozenStep

logger = logging.getLogger(__name__)

PATIENCE = 20.0
"""Seconds for which a worker's start waits."""


def of_steps(steps: Sequence[FrozenStep], run: Run | None = None) -> list[tuple[str, InnerGraph]]:
    """Title and graph of each step that has one, of sub-steps too; with where the run stands.

    Sub-steps stand nowhere, since they run on threads of their own; what is drawn
    already is not drawn for them.
    """
    pictured = [
        (step, registry.traits_of(step["function"]).picture)
        for step in registry.with_sub_steps(steps)
    ]
    pictured = [(step, picture) for step, picture in pictured if type(picture) is not StepPicture]
    if not pictured:
        return []
    state = _state(run.thread) if run is not None else {}
    own = [step["name"] for step in steps]
    found: list[tuple[str, InnerGraph]] = []
    for step, picture in sorted(pictured, key=lambda pair: pair[0]["name"] not in own):
        name, stand = step["name"], None
        if run is not None and name in own:
            stand = Stand(thread=run.thread_id, step=name, at=_at(run, name), state=state)
        graph = picture.drawn(step["config"], stand)
        known = {graph.name for _, graph in found}
        if graph is not None and (name in own or graph.name not in known):
            found.append((step["title"], graph))
    return found


def stops(steps: Sequence[FrozenStep], names: Collection[str]) -> set[str]:
    """What `interrupt_before` and `interrupt_after` may name; where `names` has others, the nodes
    of graphs too: `step/node`.
    """
    known = sequence.stops(steps)
    return known if known >= {*names} else known | _nodes(steps)


def _nodes(steps: Sequence[FrozenStep]) -> set[str]:
    found = set()
    for step in steps:
        graph = of_step(step)
        nodes = {node.name for node in graph.nodes} - {START, END} if graph else set()
        inner = {*nodes, *_nodes(step.get("sub_steps", []))}
        found |= {f"{step['name']}/{name}" for name in inner}
    return found


def of_step(step: FrozenStep) -> InnerGraph | None:
    """The graph that a step works through, if any."""
    return registry.traits_of(step["function"]).picture.drawn(step["config"])


def _at(run: Run, step: str) -> At:
    head = run.thread.head
    if head is None or step != (head.next_step or head.node_id):
        return ""
    if run.status == PAUSED:
        return "waits"
    return "now" if run.status in LIVE else "failed" if run.status in RETRIED else ""


def _state(thread: Thread) -> Mapping[str, Any]:
    """The state at a thread's head; empty where it cannot be read here."""
    try:
        return store.load(thread.head) if thread.head is not None else {}
    except (store.CheckpointDamaged, store.StateLocked, store.StoreUnavailable):
        return {}


def look_at_start() -> None:
    """Have each kind of step keep what it has to draw, when a worker starts.

    What authors wrote is loaded for it, so a worker does not wait for that without end.
    """

    def work() -> None:
        try:
            for name in registry.known():
                registry.traits_of(name).picture.look()
        except Error as error:
            logger.warning("Pictures of graphs were not kept: %s", " ".join(str(error).split()))
        finally:
            connection.close()

    thread = threading.Thread(target=work, name="pictures", daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if thread.is_alive():
        logger.warning("Pictures of steps are made slowly; the worker starts meanwhile.")
