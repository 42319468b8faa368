"""Whether what is stored is what was written: digests computed again, page by page, in memory that
does not grow with the database.
"""

from __future__ import annotations

import uuid
import zlib
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from checkpoints import store
from checkpoints.models import Blob, Checkpoint, Chunk, Thread
from checkpoints.models.fields import demand
from checkpoints.state import codec, encryption

PAGE = 100
STATES = 4
"""States of one thread in hand: a checkpoint's parent is mostly among the last few."""


@dataclass(frozen=True)
class Damage:
    kind: str
    """checkpoint, blob or chunk."""
    id: str
    words: str


@dataclass
class CheckpointCheck:
    """One look at everything, or at one thread and what it refers to."""

    thread_id: uuid.UUID | None = None
    looked_at: Counter[str] = field(default_factory=Counter)

    def damaged(self) -> Iterator[Damage]:
        """Whatever is not as it was written, one after the other."""
        if self.thread_id is not None:
            yield from self._thread(self.thread_id, blobs=True)
            return
        for (key,) in _pages(Thread.objects.values_list("pk"), lambda row: row[0]):
            yield from self._thread(key)
        for chunk in _pages(Chunk.objects.all(), lambda row: row.pk):
            yield from self._chunk(chunk)
        for (key,) in _pages(Blob.objects.values_list("pk"), lambda row: row[0]):
            yield from self._blob(key)

    def _thread(self, thread_id: uuid.UUID, *, blobs: bool = False) -> Iterator[Damage]:
        states: OrderedDict[Any, codec.State] = OrderedDict()
        seen: set[str] = set()
        for checkpoint in _pages(Checkpoint.objects.filter(thread=thread_id), lambda row: row.pk):
            self.looked_at["checkpoints"] += 1
            try:
                before = states.get(checkpoint.parent_id)
                states[checkpoint.pk] = codec.state(store.load(checkpoint, before=before))
                if len(states) > STATES:
                    states.popitem(last=False)
                named = store.blobs_of(checkpoint)
            except store.CheckpointDamaged as error:
                yield Damage("checkpoint", checkpoint.shown_id, str(error))
                continue
            except (AttributeError, TypeError):
                yield Damage(
                    "checkpoint",
                    checkpoint.shown_id,
                    f"{checkpoint.shown_id} has metadata that cannot be read.",
                )
                continue
            yield from self._named(checkpoint, named)
            new = named - seen if blobs else set()
            seen = named  # each checkpoint names again what the one before it did
            for key in sorted(new):
                yield from self._blob(key)

    def _named(self, checkpoint: Checkpoint, named: Iterable[str]) -> Iterator[Damage]:
        wanted = set(named)
        if not wanted:
            return
        for key in sorted(
            wanted - set(Blob.objects.filter(pk__in=wanted).values_list("pk", flat=True))
        ):
            yield Damage(
                "checkpoint",
                checkpoint.shown_id,
                f"{checkpoint.shown_id} refers to the blob {key[:12]}, which is not there.",
            )

    def _blob(self, key: str) -> Iterator[Damage]:
        self.looked_at["blobs"] += 1
        try:
            store.get_blob(key)
        except store.CheckpointDamaged as error:
            yield Damage("blob", key, str(error))
        except Blob.DoesNotExist:
            return  # said of the checkpoint; or collected since

    def _chunk(self, chunk: Chunk) -> Iterator[Damage]:
        self.looked_at["chunks"] += 1
        try:
            text = zlib.decompress(demand(chunk.content)).decode()
            intact = codec.digest(f"{chunk.previous_id or ''}:{text}") == chunk.digest
        except encryption.KeyMissing as error:
            yield Damage("chunk", chunk.digest, f"the chunk {chunk.digest[:12]}: {error}")
            return
        except (zlib.error, ValueError, encryption.SealBroken):
            intact = False
        if not intact:
            yield Damage(
                "chunk",
                chunk.digest,
                f"the chunk {chunk.digest[:12]} does not match its digest; its stored bytes "
                "were changed",
            )


def _pages(rows: Any, key: Any) -> Iterator[Any]:
    """Rows in the order of their keys, a page at a time."""
    after = None
    while True:
        page = list((rows if after is None else rows.filter(pk__gt=after)).order_by("pk")[:PAGE])
        yield from page
        if len(page) < PAGE:
            return
        after = key(page[-1])
