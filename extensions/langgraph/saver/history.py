"""What a delta channel is rebuilt from: the writes of a checkpoint's ancestors, back to the nearest
one that holds a value.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkpoints.models.graphs import GraphCheckpoint
from checkpoints.store import CheckpointDamaged, graph_state
from extensions.langgraph.saver.rows import CheckpointAddress, GraphRows, readable

PAGE = 200
Loads = Callable[[tuple[str, bytes]], Any]


@dataclass(slots=True)
class History:
    """Of one channel; payloads are not decoded yet."""

    writes: list[tuple[str, str, bytes]] = field(default_factory=list)
    """Task, kind, bytes: oldest first."""
    seed: tuple[str, bytes] | None = None
    inline: list[Any] = field(default_factory=list)
    """The seed where it lies in the checkpoint itself: a list of the one value, which may be
    None.
    """


def histories(
    rows: GraphRows,
    at: CheckpointAddress,
    key: uuid.UUID | None,
    channels: Sequence[str],
    loads: Loads,
) -> dict[str, History]:
    """By channel. The writes at the target itself are the next step's, and left out."""
    by_channel = {channel: History() for channel in channels}
    where = rows.where(at)
    if where is None:
        return by_channel
    chains: dict[str, list[uuid.UUID]] = {channel: [] for channel in channels}
    seeds: dict[str, tuple[uuid.UUID, str]] = {}
    remaining = set(channels)
    for row, skeleton in ancestors(rows, where.namespace, key, loads):
        for channel in remaining:
            chains[channel].append(row.key)
        for channel in sorted(remaining):
            if channel in skeleton["values"]:
                by_channel[channel].inline.append(skeleton["values"][channel])
                remaining.discard(channel)
            elif channel in skeleton["stored"]:
                seeds[channel] = (row.key, str(skeleton["channel_versions"][channel]))
                remaining.discard(channel)
        if not remaining:
            break
    _seed(rows, where.namespace, seeds, by_channel)
    _collect(rows, where.namespace, chains, by_channel)
    return by_channel


def ancestors(
    rows: GraphRows, namespace: int, key: uuid.UUID | None, loads: Loads
) -> Iterator[tuple[GraphCheckpoint, dict[str, Any]]]:
    """A checkpoint's ancestors with their skeletons, from its parent on.

    A page is read by time, and what is no ancestor passed over.
    """
    all_of = rows._whole().filter(namespace=namespace).order_by("-key")
    target = all_of.filter(key=key).first() if key else all_of.first()
    wanted = target.parent if target is not None else None
    size = 8  # most are seeded soon
    while wanted is not None:
        page = list(all_of.filter(key__lte=wanted)[:size])
        before = wanted
        for row in page:
            if row.key == wanted:
                with readable(row.checkpoint.shown_id):
                    skeleton = rows.skeleton(row, loads)
                yield row, skeleton
                wanted = row.parent
        if wanted == before:  # it was never written, or is gone
            return
        size = PAGE


def _seed(
    rows: GraphRows,
    namespace: int,
    seeds: dict[str, tuple[uuid.UUID, str]],
    found: dict[str, History],
) -> None:
    wanted = {channel: version for channel, (_, version) in seeds.items()}
    with readable("a delta channel"):
        values = graph_state.values(namespace, wanted, using=rows.using)
    for channel in wanted:
        if channel not in values:
            raise CheckpointDamaged(
                f"the value of {channel} is not there. Nothing was resumed from it."
            )
        rows.blobs.remember((namespace, channel), values[channel])
        found[channel].seed = values[channel].payload()


def _collect(
    rows: GraphRows, namespace: int, chains: dict[str, list[uuid.UUID]], found: dict[str, History]
) -> None:
    keys = max(chains.values(), key=len, default=[])
    by_place: dict[tuple[uuid.UUID, str], list[tuple[str, str, bytes]]] = {}
    for start in range(0, len(keys), PAGE):
        for write in rows.writes(namespace, keys[start : start + PAGE], list(chains)):
            with readable(f"what {write.task_id} wrote"):
                payload = graph_state.unpack(write.kind, write.content)
            by_place.setdefault((write.checkpoint_key, write.channel), []).append(
                (write.task_id, *payload)
            )
    for channel, chain in chains.items():
        for key in reversed(chain):
            found[channel].writes += by_place.get((key, channel), [])
