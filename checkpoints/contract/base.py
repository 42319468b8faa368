"""What a checkpoint store promises, whatever it stands on: the contract that
`checkpoints.testing.CheckpointContract` proves.

One contract. The product keeps its checkpoints as rows (`database`); another backend keeps the
bodies of their states (`BodyStore`, `checkpoints.store.bodies`), and serves programs of their own
that need no rows. No ORM here, so that a small program can use the memory, file or Redis store
without the product's tables.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from checkpoints import ids
from checkpoints.state import codec

PAGE = 50
PENDING = "pending_input"
"""The status of a checkpoint that waits for somebody; never pruned."""
MISSHAPEN = (
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    ValueError,
    RecursionError,
    codec.NotJson,
)
"""What reading a stored body of another shape than we write raises."""


class CheckpointDamaged(Exception):
    """A checkpoint's content does not match its digest: nothing is resumed from it."""

    code = "checkpoint_damaged"


class CheckpointUnknown(Exception):
    """The thread has no such checkpoint, or the store no such thread."""

    code = "checkpoint_unknown"


class HeadMoved(Exception):
    """Somebody else wrote the thread's next checkpoint first; nothing was written.

    `head` is the thread's present head, None for none.
    """

    code = "head_moved"

    def __init__(self, head: uuid.UUID | None, expected: uuid.UUID | None) -> None:
        super().__init__(
            f"The thread's head is {shown(head)}, not {shown(expected)}: somebody wrote "
            "first, and nothing was written here."
        )
        self.head = head


class StoreUnavailable(Exception):
    """The store cannot be reached or refuses to write.

    What was written before is as it was; the call may be made again.
    """

    code = "store_unavailable"


class StillNeeded(Exception):
    """Other rows stand on these checkpoints: they are not dropped behind their back."""

    code = "checkpoint_still_needed"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a checkpoint records beside the state."""

    status: str
    """A `CheckpointStatus`: active, pending_input, completed, failed or cancelled."""
    node_id: str = ""
    next_step: str = ""
    loop_num: int = 1
    completed_nodes: int = 0
    total_nodes: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StoredCheckpoint:
    """A stored checkpoint without its state."""

    id: uuid.UUID
    thread_id: uuid.UUID
    run_id: uuid.UUID
    parent_id: uuid.UUID | None
    entry: Entry
    digest: str
    """Of the whole state, as `codec.state_digest` has it."""
    size: int
    """Bytes of what was stored of the state."""
    created_at: dt.datetime


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """What `prune` dropped, or would."""

    ids: tuple[uuid.UUID, ...]
    size: int
    """Bytes of their bodies."""


def shown(key: uuid.UUID | None) -> str:
    return "none" if key is None else ids.show("ckpt", key)


def key_after(*others: uuid.UUID | None) -> uuid.UUID:
    """A fresh key that sorts behind these, whatever the clocks of the hosts that made them said."""
    fresh, last = ids.new(), max((key.int for key in others if key is not None), default=0)
    return fresh if fresh.int > last else uuid.UUID(int=last + 1)


class CheckpointStore(ABC):
    """Threads of checkpoints. Safe for threads; a durable store is safe for processes too.

    **Ordering.** Ids are time-ordered: a checkpoint's id sorts behind its parent's and behind that
    of the head it replaced, also where two hosts' clocks differ. So a thread's newest id is its
    head.

    **Atomicity.** A call that writes does all of it or nothing, whenever it is interrupted: by an
    error, by kill -9 (where `durable`), or by the store being lost on the way. The former head
    stays readable. A call that ends with `StoreUnavailable` may have been carried out (its answer
    got lost); it is safe to look at `latest` and go on from there.

    **Concurrency.** Of two writers that go on from the same head exactly one succeeds, the other
    gets `HeadMoved`. Who wants a second line from a checkpoint says so, by `fork`.
    """

    durable: ClassVar[bool]
    """Whether what is kept survives the process that wrote it, and other processes see it."""
    transactional: ClassVar[bool] = False
    """Whether a write belongs to the caller's database transaction: it commits and rolls back with
    the rows around it.
    """

    @abstractmethod
    def put(
        self,
        thread_id: uuid.UUID,
        run_id: uuid.UUID,
        state: Mapping[str, Any],
        entry: Entry,
        *,
        parent: uuid.UUID | None,
        before: Mapping[str, Any] | None = None,
    ) -> StoredCheckpoint:
        """Write the checkpoint that follows `parent`, and make it the thread's head.

        Args:
            state: whole, any JSON object; what is stored is the change against the parent where
                that is smaller.
            parent: the head it goes on from; None for a thread's first.
            before: the parent's state where the caller has it in hand, as `load` gave it; saves
                reading it.
        Raises:
            codec.NotJson: the state would not come back from JSON as it is; names the key.
            CheckpointUnknown: there is no such parent.
            HeadMoved: `parent` is not the head any more.
        """

    @abstractmethod
    def get(self, thread_id: uuid.UUID, checkpoint_id: uuid.UUID) -> StoredCheckpoint:
        """A checkpoint without its state. Raises CheckpointUnknown."""

    @abstractmethod
    def load(self, thread_id: uuid.UUID, checkpoint_id: uuid.UUID) -> dict[str, Any]:
        """The whole state at a checkpoint, read-only (a `codec.State`).

        Raises CheckpointUnknown, or CheckpointDamaged where what is stored does not match the
        digest.
        """

    def latest(self, thread_id: uuid.UUID) -> StoredCheckpoint | None:
        """The thread's head, in time that does not grow with the thread; None for a thread without
        checkpoints.

        A store without a look-up of its own takes the newest entry of its history, which the order
        of ids makes the head.
        """
        return next(iter(self.history(thread_id, limit=1)), None)

    @abstractmethod
    def history(
        self, thread_id: uuid.UUID, *, before: uuid.UUID | None = None, limit: int = PAGE
    ) -> list[StoredCheckpoint]:
        """Up to `limit` checkpoints of all branches, newest first; the next page begins `before`
        the last one of this.
        """

    @abstractmethod
    def children(self, thread_id: uuid.UUID, checkpoint_id: uuid.UUID) -> list[StoredCheckpoint]:
        """The checkpoints that follow one directly, oldest first: more than one where the thread
        branches. Raises CheckpointUnknown.
        """

    @abstractmethod
    def fork(
        self,
        thread_id: uuid.UUID,
        checkpoint_id: uuid.UUID,
        *,
        run_id: uuid.UUID,
        reason: str,
        state: Mapping[str, Any] | None = None,
    ) -> StoredCheckpoint:
        """Make a new branch behind any checkpoint, and make it the head; what came after that
        checkpoint before stays as it is.

        Args:
            state: the edited state; None for the same.
            reason: kept in the metadata under `reason`, beside `forked_from`.
        Raises:
            ValueError: no reason.
            CheckpointUnknown, CheckpointDamaged, codec.NotJson: as above.
        """

    @abstractmethod
    def prune(self, thread_id: uuid.UUID, *, keep: int, dry_run: bool = False) -> Pruned:
        """Drop old checkpoints; the newest `keep` stay, and always the head, the root, what waits
        for somebody and what a kept one needs.

        A kept checkpoint loads as before. The parent of one whose parent went is its nearest
        ancestor that stayed.
        """

    @abstractmethod
    def delete_thread(self, thread_id: uuid.UUID) -> int:
        """Drop a thread's checkpoints, and give their number.

        Raises StillNeeded where others' rows stand on them.
        """

    def diff(self, thread_id: uuid.UUID, one: uuid.UUID, other: uuid.UUID) -> dict[str, Any]:
        """What turns one checkpoint's state into the other's: a delta as in `codec`.

        Raises as `load`.
        """
        return codec.difference(self.load(thread_id, one), self.load(thread_id, other))

    def weaknesses(self) -> dict[str, str]:
        """What the server or folder behind it does not promise as it is set up: id of a system
        check → words. May use the network.
        """
        return {}


class BodyStore(ABC):
    """The bodies of checkpoints whose rows are in the database: the engine's part of a backend.

    See `checkpoints.store.bodies`.
    """

    @abstractmethod
    def put_body(self, thread_id: uuid.UUID, checkpoint_id: uuid.UUID, text: str) -> None:
        """Keep a body; it is readable by every process when this returns.

        Raises StoreUnavailable.
        """

    @abstractmethod
    def get_bodies(
        self, thread_id: uuid.UUID, checkpoint_ids: Sequence[uuid.UUID]
    ) -> dict[uuid.UUID, str]:
        """The bodies that there are, in one trip. Raises StoreUnavailable."""

    @abstractmethod
    def drop_bodies(self, thread_id: uuid.UUID, checkpoint_ids: Sequence[uuid.UUID]) -> None:
        """Forget bodies; those that are not there are no error."""

    @abstractmethod
    def bodies(self) -> Iterator[tuple[uuid.UUID, uuid.UUID]]:
        """Thread and checkpoint of every body, in no order.

        What is written meanwhile may be missing.
        """


def entry_of_fork(source: StoredCheckpoint, reason: str) -> Entry:
    """What a fork records: it goes on with the step that followed its source, or that made it wait.

    Raises ValueError without a reason.
    """
    if not reason.strip():
        raise ValueError("Say why: a fork needs a reason.")
    entry = source.entry
    metadata = {**entry.metadata, "forked_from": shown(source.id), "reason": reason.strip()}
    return replace(
        entry, status="active", next_step=entry.next_step or entry.node_id, metadata=metadata
    )


def to_drop(
    history: Sequence[StoredCheckpoint], head: uuid.UUID | None, keep: int
) -> set[uuid.UUID]:
    """What `prune` may drop of a whole history, newest first, as far as it is known without reading
    states.
    """
    if keep < 0:
        raise ValueError("keep: use a number from 0")
    old = history[keep:]
    return {
        kept.id
        for kept in old
        if kept.id != head and kept.parent_id is not None and kept.entry.status != PENDING
    }


def nearest_kept(
    key: uuid.UUID | None, parents: Mapping[uuid.UUID, uuid.UUID | None], dropped: set[uuid.UUID]
) -> uuid.UUID | None:
    """The first of a checkpoint and its ancestors that stays."""
    while key is not None and key in dropped:
        key = parents[key]
    return key


def unpacked(text: str) -> Any:
    """A stored document. Raises one of MISSHAPEN where it is none."""
    return json.loads(text)
