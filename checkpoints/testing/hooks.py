"""What a backend's test class says of its backend, and what the contract's tests share."""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import pytest

from checkpoints import ids
from checkpoints.contract import configured
from checkpoints.contract.base import CheckpointStore, Entry, StoredCheckpoint

ACTIVE = Entry(status="active", next_step="work")
WAITS = Entry(status="pending_input", node_id="ask")


class Hooks:
    """The first three are to be written for every backend."""

    @abstractmethod
    def setting(self) -> Mapping[str, Any]:
        """The backend under test as CHECKPOINTS would have it.

        Stores made of it share what they keep, if the backend can.
        """

    @abstractmethod
    def damage(
        self, store: CheckpointStore, thread_id: uuid.UUID, checkpoint_id: uuid.UUID
    ) -> None:
        """Change the stored bytes of a checkpoint's state behind the store's back; they may stay
        valid JSON.
        """

    @abstractmethod
    def failing(self, store: CheckpointStore) -> AbstractContextManager[Any]:
        """Inside it, a write of this store gets half-way and then ends with an exception, as with a
        full disk or a lost connection.
        """

    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to reach the same data; with
        DJANGO_SETTINGS_MODULE in it, Django is set up there.
        """
        return {}

    def new_thread(self) -> uuid.UUID:
        """The id of a thread that may be written to."""
        return ids.new()

    def make(self) -> CheckpointStore:
        return configured.make(self.setting())

    @pytest.fixture
    def store(self) -> CheckpointStore:
        return self.make()

    @pytest.fixture
    def thread(self) -> uuid.UUID:
        return self.new_thread()


RUN = uuid.UUID("01900000-0000-7000-8000-000000000001")


def chain(
    store: CheckpointStore,
    thread: uuid.UUID,
    length: int,
    *,
    entry: Entry = ACTIVE,
    wide: int = 300,
) -> list[tuple[StoredCheckpoint, dict[str, Any]]]:
    """So many checkpoints on end, each with its state: a list that grows, a number that changes,
    and something that stays.
    """
    made: list[tuple[StoredCheckpoint, dict[str, Any]]] = []
    state: dict[str, Any] = {}
    head = store.latest(thread)
    parent = head.id if head else None
    for number in range(length):
        state = {
            "fixed": "x" * wide,
            "n": number,
            "messages": [*state.get("messages", []), {"id": number, "text": f"message {number}"}],
        }
        kept = store.put(thread, RUN, state, entry, parent=parent)
        parent = kept.id
        made.append((kept, state))
    return made
