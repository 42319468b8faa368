"""Keep checkpoints in this process's memory: for tests, and to try something out.

They are lost with the process, and no other process sees them.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from checkpoints.backends.documents import DocumentStore, ThreadUpdate, refuse_missing
from checkpoints.contract.base import HeadMoved


@dataclass
class _Thread:
    head: uuid.UUID | None = None
    notes: dict[uuid.UUID, str] = field(default_factory=dict)
    bodies: dict[uuid.UUID, str] = field(default_factory=dict)


class MemoryStore(DocumentStore):
    """Keeps texts in a dict, so that a test's states go through JSON as in every other store."""

    durable = False

    def __init__(self) -> None:
        self._threads: dict[uuid.UUID, _Thread] = {}
        self._lock = threading.Lock()

    def _thread(self, thread_id: uuid.UUID) -> _Thread:
        return self._threads.get(thread_id) or _Thread()

    def _apply(self, thread_id: uuid.UUID, change: ThreadUpdate) -> None:
        with self._lock:
            thread = self._threads.setdefault(thread_id, _Thread())
            if thread.head != change.expected:
                raise HeadMoved(thread.head, change.expected)
            refuse_missing(change, thread.notes)
            thread.bodies.update(change.bodies)
            thread.notes.update(change.notes)
            thread.head = change.head or thread.head
            for key in change.drop:
                thread.notes.pop(key, None)
                thread.bodies.pop(key, None)

    def _head(self, thread_id: uuid.UUID) -> uuid.UUID | None:
        with self._lock:
            return self._thread(thread_id).head

    def _notes(self, thread_id: uuid.UUID, keys: Sequence[uuid.UUID]) -> dict[uuid.UUID, str]:
        with self._lock:
            notes = self._thread(thread_id).notes
            return {key: notes[key] for key in keys if key in notes}

    def _keys(self, thread_id: uuid.UUID, before: uuid.UUID | None, limit: int) -> list[uuid.UUID]:
        with self._lock:
            keys = sorted(
                (key for key in self._thread(thread_id).notes if before is None or key < before),
                reverse=True,
            )
        return keys[:limit]

    def _forget(self, thread_id: uuid.UUID) -> None:
        with self._lock:
            self._threads.pop(thread_id, None)

    def put_body(self, thread_id: uuid.UUID, checkpoint_id: uuid.UUID, text: str) -> None:
        with self._lock:
            self._threads.setdefault(thread_id, _Thread()).bodies[checkpoint_id] = text

    def get_bodies(
        self, thread_id: uuid.UUID, checkpoint_ids: Sequence[uuid.UUID]
    ) -> dict[uuid.UUID, str]:
        with self._lock:
            bodies = self._thread(thread_id).bodies
            return {key: bodies[key] for key in checkpoint_ids if key in bodies}

    def drop_bodies(self, thread_id: uuid.UUID, checkpoint_ids: Sequence[uuid.UUID]) -> None:
        with self._lock:
            for key in checkpoint_ids:
                self._thread(thread_id).bodies.pop(key, None)

    def bodies(self) -> Iterator[tuple[uuid.UUID, uuid.UUID]]:
        with self._lock:
            keys_of_bodies = [
                (thread_id, key)
                for thread_id, thread in self._threads.items()
                for key in thread.bodies
            ]
        return iter(keys_of_bodies)
