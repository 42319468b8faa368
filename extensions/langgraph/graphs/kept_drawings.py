"""What LangGraph graphs look like, for processes that draw them and never load them.

A process that runs a graph keeps its drawing; pages read it. Needs no LangGraph.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from checkpoints.database import clock
from checkpoints.models.graphs import GraphCheckpoint, GraphDrawing, GraphNamespace, GraphWrite
from checkpoints.state.encryption import KeyMissing
from checkpoints.store import graph_state

NAME = 200
"""Characters of a graph's name that count."""
KEPT = 20
"""Drawings of one graph: of its newest shapes."""
FRESH = dt.timedelta(minutes=5)
"""A drawing that was looked at since is not written again."""
CALLS = 50
"""Calls of a graph's sub-graphs that are looked at; the newest of them."""
ERROR = "__error__"


def keep(name: str, shape: str, content: Mapping[str, Any], *, problem: str = "") -> None:
    """Keep what a graph looks like, or why it could not be loaded; the latest of a shape counts."""
    now, name = clock.now(), name[:NAME]
    mine = GraphDrawing.objects.filter(name=name)
    same = mine.filter(shape=shape, problem=problem, loaded_at__gt=now - FRESH).first()
    if same is not None and same.content == content:
        return
    row = GraphDrawing(name=name, shape=shape, content=content, problem=problem, loaded_at=now)
    GraphDrawing.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["name", "shape"],
        update_fields=["content", "problem", "loaded_at"],
    )
    if old := list(mine.order_by("-loaded_at").values_list("pk", flat=True)[KEPT:]):
        mine.filter(pk__in=old).delete()


def drawing_of(name: str, shape: str = "") -> tuple[Mapping[str, Any], str]:
    """Content of a graph's drawing, of that shape where there is one, else of the newest; and why
    the graph could not be loaded since.

    The content is empty where no process has loaded the graph yet.
    """
    mine = list(GraphDrawing.objects.filter(name=name[:NAME]).order_by("-loaded_at")[: KEPT + 1])
    drawn = [row for row in mine if row.shape]
    fitting = next((row for row in drawn if row.shape == shape), next(iter(drawn), None))
    problem = mine[0].problem if mine else ""
    return (fitting.content if fitting else {}), problem


@dataclass(frozen=True, kw_only=True)
class GraphStand:
    """Where a graph stands by one of its checkpoints."""

    done: Collection[str]
    """Nodes that ran before."""
    upcoming: Collection[str]
    """Nodes whose turn it is."""
    written: Collection[str]
    """Of these, those whose result is there already."""
    asking: Collection[str]
    failed: Collection[str]
    calls: Mapping[str, GraphStand] = field(default_factory=dict)
    """Node → where the graph in it stands, by its latest call."""


def stand(
    thread: uuid.UUID, step: str, *, space: str = "", checkpoint: str = ""
) -> GraphStand | None:
    """Where the graph of a step stands on a thread: by its newest checkpoint, or by the one named.

    Args:
        space: of the graph's checkpoints on the thread; "" for the newest that the step began.
        checkpoint: LangGraph's id.
    Returns:
        None where there is no such checkpoint, or it cannot be read here.
    """
    roots = GraphCheckpoint.objects.filter(namespace__thread=thread).select_related(
        "namespace", "checkpoint"
    )
    if space:
        roots = roots.filter(namespace__name=space)
    else:
        roots = roots.filter(namespace__name__startswith=f"{step}@").exclude(
            namespace__name__contains="|"
        )
    if checkpoint:
        try:
            roots = roots.filter(key=uuid.UUID(checkpoint))
        except ValueError:
            return None
    row = roots.order_by("-key").first()
    return _stand(row, calls=_calls(thread, row.namespace.name)) if row else None


def _calls(thread: uuid.UUID, space: str) -> dict[str, GraphStand]:
    names = GraphNamespace.objects.filter(thread=thread, name__startswith=f"{space}|")
    calls: dict[str, GraphStand] = {}
    for namespace in names.order_by("-pk")[:CALLS]:
        node, _, deeper = namespace.name.removeprefix(f"{space}|").partition(":")
        if node in calls or "|" in deeper:
            continue
        rows = GraphCheckpoint.objects.filter(namespace=namespace)
        row = rows.select_related("namespace", "checkpoint").order_by("-key").first()
        if row is not None and (inner := _stand(row, calls={})) is not None:
            calls[node] = inner
    return calls


def _stand(row: GraphCheckpoint, *, calls: Mapping[str, GraphStand]) -> GraphStand | None:
    try:
        content = graph_state.unpack(row.kind, row.content)
    except (graph_state.Damaged, KeyMissing):
        return None
    seen = graph_state.skeleton(*content).get("versions_seen")
    if not isinstance(seen, Mapping):
        return None
    upcoming = set(filter(None, row.checkpoint.next_step.split(", ")))
    writes = GraphWrite.objects.filter(namespace=row.namespace_id, checkpoint_key=row.key)
    by_channel: dict[str, set[str]] = {graph_state.INTERRUPT: set(), ERROR: set(), "": set()}
    for path, channel in writes.values_list("task_path", "channel"):
        node = path.rpartition(", ")[2]
        # a task that was sent has a number instead of its node's name
        nodes = {node} if node in upcoming else upcoming
        by_channel[channel if channel in by_channel else ""] |= nodes
    asking, failed = by_channel[graph_state.INTERRUPT], by_channel[ERROR]
    return GraphStand(
        done={node for node, versions in seen.items() if versions},
        upcoming=upcoming,
        written=by_channel[""] - asking - failed,
        asking=asking,
        failed=failed,
        calls=calls,
    )
