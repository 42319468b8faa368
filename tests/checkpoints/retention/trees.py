"""Trees of checkpoints that retention thins out, and what they hold."""

from __future__ import annotations

import uuid
from typing import Any
from unittest.mock import patch

from checkpoints import store
from checkpoints.models import (
    Checkpoint,
    CheckpointStatus,
    Chunk,
    Thread,
)
from checkpoints.state import codec, reducers
from checkpoints.store import Entry
from checkpoints.store import rows as written
from tests.checkpoints.store.damaged_rows import make_thread


class Tree:
    """A thread with all states that were ever saved in it, kept beside the store as a plain
    fold.
    """

    def __init__(self):
        self.thread, self.run = make_thread(), uuid.uuid4()
        self.states: dict[uuid.UUID, dict[str, Any]] = {}
        self.digests: dict[uuid.UUID, str] = {}
        self.save({}, None)

    @property
    def head(self):
        head = Thread.objects.get(pk=self.thread.pk).head
        assert head is not None
        return head

    def save(
        self, update, parent, *, status=CheckpointStatus.ACTIVE, snapshot=False, metadata=None
    ):
        before = store.load(parent) if parent else {}
        state = reducers.apply(before, update, {})
        entry = Entry(status=status, metadata=metadata or {})
        with patch.object(written, "SNAPSHOT_EVERY", 0 if snapshot else 20):
            made = store.save(
                self.thread.pk,
                self.run,
                state,
                entry,
                parent=parent,
                before=before if parent else None,
            )
        self.states[made.pk], self.digests[made.pk] = (
            {**(self.states[parent.pk] if parent else {}), **update},
            made.digest,
        )
        return made

    def step(self, update, **more):
        return self.save(update, self.head, **more)

    def kept(self):
        return list(Checkpoint.objects.filter(thread=self.thread).order_by("pk"))

    def check(self):
        """Whatever stayed loads as it did, under the same digest, and leads back to the first."""
        kept = self.kept()
        for checkpoint in kept:
            assert checkpoint.size == len(codec.encode(checkpoint.body))
            assert codec.encode(store.load(checkpoint)) == codec.encode(self.states[checkpoint.pk])
            assert checkpoint.digest == self.digests[checkpoint.pk]
            at, steps = checkpoint, 0
            while at.parent_id:
                steps += 1
                at = Checkpoint.objects.get(pk=at.parent_id)
            assert at.pk == min(self.states), "a chain that does not end in the first checkpoint"
        return kept


def counted(number):
    tree = Tree()
    tree.step({"fixed": "x" * 300})
    for n in range(number):
        tree.step({"n": n})
    return tree


def messages(tree, rounds):
    """A list that grows past several chunks, snapshot by snapshot."""
    said: list[Any] = []
    for n in range(rounds):
        said = [*said, *({"n": n, "text": f"{n} {i} " * 40} for i in range(50))]
        tree.step({"said": said}, snapshot=True)
    assert Chunk.objects.filter(previous__isnull=False).count() == rounds - 1
