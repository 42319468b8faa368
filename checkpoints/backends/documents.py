"""The contract for stores of documents: a note and a body per checkpoint, and one atomic change of
a thread. See `memory`, `file`, `redis`.

The note says what is known of a checkpoint; the body is its state, or the change against its
parent's (`{"on": parent, "delta": …}`). A body names the parent that it builds on, so one write
makes it a snapshot, and readers are right before and after that write.

A load reads one snapshot and at most SNAPSHOT_EVERY deltas. A long list is written out in every
snapshot: unlike the database's, these stores share no stretches of lists between snapshots.
"""

from __future__ import annotations

import datetime as dt
import uuid
from abc import abstractmethod
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from checkpoints.contract.base import (
    MISSHAPEN,
    PAGE,
    BodyStore,
    CheckpointDamaged,
    CheckpointStore,
    CheckpointUnknown,
    Entry,
    HeadMoved,
    Pruned,
    StoredCheckpoint,
    entry_of_fork,
    key_after,
    nearest_kept,
    shown,
    to_drop,
    unpacked,
)
from checkpoints.database import clock
from checkpoints.state import codec

SNAPSHOT_EVERY = 20
ALL = 10**9
TRIES = 50
"""How often a change begins anew because somebody else changed the thread meanwhile."""


@dataclass(frozen=True, kw_only=True)
class ThreadUpdate:
    """A change of a thread, made as a whole if the head is still `expected`."""

    expected: uuid.UUID | None
    needs: Sequence[uuid.UUID] = ()
    """Checkpoints that must still be there: a prune does not move the head, so the head does not
    show that one happened.
    """
    head: uuid.UUID | None = None
    """The new head, which is one of `notes`; None leaves the head where it is."""
    notes: Mapping[uuid.UUID, str] = field(default_factory=dict)
    bodies: Mapping[uuid.UUID, str] = field(default_factory=dict)
    drop: Sequence[uuid.UUID] = ()


@dataclass(frozen=True, kw_only=True)
class Note:
    """What is stored of a checkpoint beside its body."""

    kept: StoredCheckpoint
    depth: int
    """The number of deltas to the nearest snapshot, at most."""

    def text(self) -> str:
        kept = self.kept
        return codec.encode(
            {
                "run": kept.run_id.hex,
                "parent": kept.parent_id.hex if kept.parent_id else None,
                "entry": {
                    **asdict(replace(kept.entry, metadata={})),
                    "metadata": dict(kept.entry.metadata),
                },
                "digest": kept.digest,
                "size": kept.size,
                "depth": self.depth,
                "at": kept.created_at.isoformat(),
            }
        )

    @classmethod
    def read(cls, thread_id: uuid.UUID, key: uuid.UUID, text: str) -> Note:
        try:
            fields = unpacked(text)
            kept = StoredCheckpoint(
                id=key,
                thread_id=thread_id,
                run_id=uuid.UUID(fields["run"]),
                parent_id=uuid.UUID(fields["parent"]) if fields["parent"] else None,
                entry=Entry(**fields["entry"]),
                digest=fields["digest"],
                size=fields["size"],
                created_at=dt.datetime.fromisoformat(fields["at"]),
            )
            return cls(kept=kept, depth=fields["depth"])
        except MISSHAPEN as error:
            raise CheckpointDamaged(
                f"The note of {shown(key)} cannot be read; its stored bytes were changed."
            ) from error


class DocumentStore(CheckpointStore, BodyStore):
    """The whole contract on seven operations of a backend.

    Each raises StoreUnavailable where the backend cannot be reached.
    """

    @abstractmethod
    def _apply(self, thread_id: uuid.UUID, change: ThreadUpdate) -> None:
        """Carry out a change: all of it or nothing, and durably.

        Raises HeadMoved where the head is not as expected, CheckpointUnknown
        where a checkpoint that it needs has gone.
        """

    @abstractmethod
    def _head(self, thread_id: uuid.UUID) -> uuid.UUID | None: ...

    @abstractmethod
    def _notes(self, thread_id: uuid.UUID, keys: Sequence[uuid.UUID]) -> dict[uuid.UUID, str]:
        """Read the notes of these checkpoints, as far as they exist."""

    @abstractmethod
    def _keys(self, thread_id: uuid.UUID, before: uuid.UUID | None, limit: int) -> list[uuid.UUID]:
        """List the keys of the thread's checkpoints, newest first."""

    @abstractmethod
    def _forget(self, thread_id: uuid.UUID) -> None:
        """Drop the thread, head first."""

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
        above = None if parent is None else self._note(thread_id, parent)
        head = self._head(thread_id)
        if head != parent:
            raise HeadMoved(head, parent)
        if above is not None and before is None and above.depth < SNAPSHOT_EVERY:
            before = self.load(thread_id, above.kept.id)
        return self._write(thread_id, run_id, state, entry, above=above, before=before, head=head)

    def _write(
        self,
        thread_id: uuid.UUID,
        run_id: uuid.UUID,
        state: Mapping[str, Any],
        entry: Entry,
        *,
        above: Note | None,
        before: Mapping[str, Any] | None,
        head: uuid.UUID | None,
    ) -> StoredCheckpoint:
        was = None if before is None else codec.state(before)
        now = codec.state(state, was)
        codec.check(entry.metadata, "metadata")
        parent = None if above is None else above.kept.id
        depth, body = _body(now, was, above)
        kept = StoredCheckpoint(
            id=key_after(parent, head),
            thread_id=thread_id,
            run_id=run_id,
            parent_id=parent,
            entry=entry,
            digest=codec.state_digest(now),
            size=len(body),
            created_at=dt.datetime.now(dt.UTC) + clock.offset(),
        )
        notes = {kept.id: Note(kept=kept, depth=depth).text()}
        needs = () if parent is None else (parent,)
        self._apply(
            thread_id,
            ThreadUpdate(
                expected=head, needs=needs, head=kept.id, notes=notes, bodies={kept.id: body}
            ),
        )
        return kept

    def get(self, thread_id: uuid.UUID, checkpoint_id: uuid.UUID) -> StoredCheckpoint:
        return self._note(thread_id, checkpoint_id).kept

    def _note(self, thread_id: uuid.UUID, key: uuid.UUID) -> Note:
        notes = self._notes(thread_id, [key])
        if key not in notes:
            raise CheckpointUnknown(f"There is no {shown(key)} in this thread.")
        return Note.read(thread_id, key, notes[key])

    def load(self, thread_id: uuid.UUID, checkpoint_id: uuid.UUID) -> dict[str, Any]:
        kept = self.get(thread_id, checkpoint_id)
        try:
            state = self._state(thread_id, checkpoint_id)
            intact = codec.state_digest(state) == kept.digest
        except MISSHAPEN:
            intact = False
        if not intact:
            # raises CheckpointUnknown where it was pruned meanwhile: then it is not damaged
            self.get(thread_id, checkpoint_id)
            raise CheckpointDamaged(
                f"{shown(checkpoint_id)} does not match its digest. Nothing was resumed from it."
            )
        return state

    def _state(self, thread_id: uuid.UUID, key: uuid.UUID) -> codec.State:
        """Put a state together from a snapshot and its deltas. Raises one of MISSHAPEN."""
        for _ in range(TRIES):
            deltas: list[Any] = []
            at, named_by = key, None
            while len(deltas) <= SNAPSHOT_EVERY:
                text = self._body_of(thread_id, at)
                if text is None:
                    break
                body = unpacked(text)
                if body["on"] is None:
                    return _folded(body["state"], deltas)
                deltas.append(body["delta"])
                named_by, at = (at, text), uuid.UUID(body["on"])
            # a prune first makes the delta a snapshot and then drops the body that the delta named:
            # where the delta is as it was, nothing was pruned, so a body is lost
            if named_by is None or self._body_of(thread_id, named_by[0]) == named_by[1]:
                break
        raise KeyError(key)

    def _body_of(self, thread_id: uuid.UUID, key: uuid.UUID) -> str | None:
        return self.get_bodies(thread_id, [key]).get(key)

    def latest(self, thread_id: uuid.UUID) -> StoredCheckpoint | None:
        for _ in range(TRIES):
            head = self._head(thread_id)
            if head is None:
                return None
            try:
                return self.get(thread_id, head)
            except CheckpointUnknown:  # dropped with its thread, just now
                continue
        raise CheckpointDamaged(f"The thread's head is {shown(head)}, of which there is no note.")

    def history(
        self, thread_id: uuid.UUID, *, before: uuid.UUID | None = None, limit: int = PAGE
    ) -> list[StoredCheckpoint]:
        return [note.kept for note in self._history(thread_id, before=before, limit=limit)]

    def _history(
        self, thread_id: uuid.UUID, *, before: uuid.UUID | None = None, limit: int = ALL
    ) -> list[Note]:
        keys = self._keys(thread_id, before, limit)
        notes = self._notes(thread_id, keys)
        return [Note.read(thread_id, key, notes[key]) for key in keys if key in notes]

    def children(self, thread_id: uuid.UUID, checkpoint_id: uuid.UUID) -> list[StoredCheckpoint]:
        self.get(thread_id, checkpoint_id)
        newer = [kept for kept in self.history(thread_id, limit=ALL) if kept.id > checkpoint_id]
        return [kept for kept in reversed(newer) if kept.parent_id == checkpoint_id]

    def fork(
        self,
        thread_id: uuid.UUID,
        checkpoint_id: uuid.UUID,
        *,
        run_id: uuid.UUID,
        reason: str,
        state: Mapping[str, Any] | None = None,
    ) -> StoredCheckpoint:
        for last in range(TRIES, -1, -1):
            source = self._note(thread_id, checkpoint_id)
            entry = entry_of_fork(source.kept, reason)
            before = self.load(thread_id, checkpoint_id)
            after = before if state is None else state
            try:
                return self._write(
                    thread_id,
                    run_id,
                    after,
                    entry,
                    above=source,
                    before=before,
                    head=self._head(thread_id),
                )
            except HeadMoved:  # a fork goes beside whatever the head is
                if not last:
                    raise
        raise AssertionError("unreachable: the last try raises")

    def prune(self, thread_id: uuid.UUID, *, keep: int, dry_run: bool = False) -> Pruned:
        for last in range(TRIES, -1, -1):
            head = self._head(thread_id)
            notes = self._history(thread_id)
            dropped = to_drop([note.kept for note in notes], head, keep)
            pruned = Pruned(
                ids=tuple(sorted(dropped)),
                size=sum(note.kept.size for note in notes if note.kept.id in dropped),
            )
            if dry_run or not dropped:
                return pruned
            try:
                self._apply(thread_id, self._rebased(thread_id, notes, dropped, head))
                return pruned
            # somebody wrote or pruned meanwhile: look again at what may go
            except (HeadMoved, CheckpointUnknown):
                if not last:
                    raise
        raise AssertionError("unreachable: the last try raises")

    def _rebased(
        self,
        thread_id: uuid.UUID,
        notes: Sequence[Note],
        dropped: set[uuid.UUID],
        head: uuid.UUID | None,
    ) -> ThreadUpdate:
        """Make the change that drops checkpoints; each kept one that builds on a dropped one
        becomes a snapshot in the same change.
        """
        parents = {note.kept.id: note.kept.parent_id for note in notes}
        rewritten: dict[uuid.UUID, str] = {}
        bodies: dict[uuid.UUID, str] = {}
        needs: set[uuid.UUID] = set()
        for note in notes:
            kept = note.kept
            if kept.id in dropped or kept.parent_id not in dropped:
                continue
            body = _snapshot(codec.state(self.load(thread_id, kept.id)))
            bodies[kept.id] = body
            parent = nearest_kept(kept.parent_id, parents, dropped)
            assert parent is not None  # a root is never dropped
            rewritten[kept.id] = Note(
                kept=replace(kept, parent_id=parent, size=len(body)), depth=0
            ).text()
            needs |= {kept.id, parent}
        return ThreadUpdate(
            expected=head, needs=sorted(needs), notes=rewritten, bodies=bodies, drop=sorted(dropped)
        )

    def delete_thread(self, thread_id: uuid.UUID) -> int:
        number = len(self._keys(thread_id, None, ALL))
        self._forget(thread_id)
        return number


def _body(now: codec.State, was: codec.State | None, above: Note | None) -> tuple[int, str]:
    """Give the depth and the text to store: a delta if that is smaller and no snapshot is due."""
    whole = _snapshot(now) if above is None or was is None or above.depth >= SNAPSHOT_EVERY else ""
    if whole or above is None or was is None:
        return 0, whole
    delta = codec.encode({"on": above.kept.id.hex, "delta": codec.difference(was, now)})
    if len(delta) < codec.weight(now):
        return above.depth + 1, delta
    return 0, _snapshot(now)


def _snapshot(state: codec.State) -> str:
    return codec.encode({"on": None, "state": state})


def _folded(state: Any, deltas: Sequence[Any]) -> codec.State:
    whole = codec.state(state)
    for delta in reversed(deltas):
        whole = codec.apply(whole, delta)
    return whole


def refuse_missing(change: ThreadUpdate, there: Container[uuid.UUID]) -> None:
    """Raise CheckpointUnknown where something that a change needs is not there."""
    for key in change.needs:
        if key not in there:
            raise CheckpointUnknown(f"{shown(key)} was dropped meanwhile; nothing was written.")
