"""Checkpoints as files: a folder per thread.

For one host, or hosts that share a file system with working locks and renames.

Every file is written beside its place, flushed to the disk (fsync) and renamed into it, so a reader
sees the old one or the new one. A thread's `head` names the newest checkpoint and holds its note:
that one rename is the commit of a write. What a process that was killed before it leaves behind is
a body that nothing names.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from checkpoints.backends.documents import DocumentStore, ThreadUpdate, refuse_missing
from checkpoints.contract.base import (
    MISSHAPEN,
    CheckpointDamaged,
    HeadMoved,
    StoreUnavailable,
    unpacked,
)
from checkpoints.state import codec

NOTE, BODY = ".note", ".body"


class FileStore(DocumentStore):
    """Durable: what is written is on the disk when the call returns.

    Writers of one thread wait for each other, by a lock on its folder.
    """

    durable = True

    def __init__(self, *, folder: str | os.PathLike[str]) -> None:
        """`folder` is made at the first write, for its owner's eyes only: states hold what people
        typed.
        """
        self.folder = Path(folder)
        if not self.folder.is_absolute():
            raise ValueError(
                f"folder={str(folder)!r}: use an absolute path, since processes start in "
                "different places"
            )

    def _apply(self, thread_id: uuid.UUID, change: ThreadUpdate) -> None:
        with _refusals(), self._locked(thread_id) as place:
            head, text = _read_head(place)
            if head != change.expected:
                raise HeadMoved(head, change.expected)
            if head is not None and text is not None and not _note(place, head).exists():
                _write(_note(place, head), text)  # its writer was killed between the head and this
            refuse_missing(change, {key for key in change.needs if _note(place, key).exists()})
            for key, body in change.bodies.items():
                _write(place / f"{key.hex}{BODY}", body)
            if change.head is None:
                for key, note in change.notes.items():
                    _write(_note(place, key), note)
            self._move_head(place, change.head or head, change)
            for key in sorted(change.drop, reverse=True):  # nothing is left that builds on it
                _note(place, key).unlink(missing_ok=True)
                (place / f"{key.hex}{BODY}").unlink(missing_ok=True)

    def _move_head(self, place: Path, head: uuid.UUID | None, change: ThreadUpdate) -> None:
        """The commit: a new head, or the same one with another note."""
        if head is None or head not in change.notes:
            return
        note = change.notes[head]
        _write(place / "head", codec.encode({"id": head.hex, "note": note}))
        if change.head is not None:
            with contextlib.suppress(OSError):  # it is committed: the next writer makes up for this
                _write(_note(place, head), note)

    def _head(self, thread_id: uuid.UUID) -> uuid.UUID | None:
        with _refusals():
            return _read_head(self._place(thread_id))[0]

    def _notes(self, thread_id: uuid.UUID, keys: Sequence[uuid.UUID]) -> dict[uuid.UUID, str]:
        place = self._place(thread_id)
        with _refusals():
            texts = {key: text for key in keys if (text := _read(_note(place, key))) is not None}
            head, text = _read_head(place)
        if head in keys and head is not None and text is not None:
            texts.setdefault(head, text)
        return texts

    def _keys(self, thread_id: uuid.UUID, before: uuid.UUID | None, limit: int) -> list[uuid.UUID]:
        place = self._place(thread_id)
        with _refusals():
            head, _ = _read_head(place)
            keys = {
                uuid.UUID(name[: -len(NOTE)]) for name in _names(place) if name.endswith(NOTE)
            } | ({head} if head else set())
        return sorted((key for key in keys if before is None or key < before), reverse=True)[:limit]

    def _forget(self, thread_id: uuid.UUID) -> None:
        """The folder stays with its lock, which somebody may be waiting for.

        Newest first, and a note before its body: what a reader still finds can be loaded.
        """
        with _refusals(), self._locked(thread_id) as place:
            (place / "head").unlink(missing_ok=True)
            for name in sorted(_names(place), reverse=True):
                if name != "lock":
                    (place / name).unlink(missing_ok=True)

    def put_body(self, thread_id: uuid.UUID, checkpoint_id: uuid.UUID, text: str) -> None:
        with _refusals():
            place = self._made(thread_id)
            _write(place / f"{checkpoint_id.hex}{BODY}", text)

    def get_bodies(
        self, thread_id: uuid.UUID, checkpoint_ids: Sequence[uuid.UUID]
    ) -> dict[uuid.UUID, str]:
        place = self._place(thread_id)
        with _refusals():
            return {
                key: text
                for key in checkpoint_ids
                if (text := _read(place / f"{key.hex}{BODY}")) is not None
            }

    def drop_bodies(self, thread_id: uuid.UUID, checkpoint_ids: Sequence[uuid.UUID]) -> None:
        place = self._place(thread_id)
        with _refusals():
            for key in checkpoint_ids:
                (place / f"{key.hex}{BODY}").unlink(missing_ok=True)

    def bodies(self) -> Iterator[tuple[uuid.UUID, uuid.UUID]]:
        for shelf in _names(self.folder):
            for thread in _names(self.folder / shelf):
                for name in _names(self.folder / shelf / thread):
                    if name.endswith(BODY):
                        yield uuid.UUID(thread), uuid.UUID(name[: -len(BODY)])

    def weaknesses(self) -> dict[str, str]:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(dir=self.folder) as probe:
                fcntl.flock(probe, fcntl.LOCK_EX)
        except OSError as error:
            return {
                "checkpoints.E006": (
                    f"Checkpoints cannot be written to {self.folder}: {error.strerror}."
                )
            }
        return {}

    def _place(self, thread_id: uuid.UUID) -> Path:
        """By the end of the id, since its beginning is the time: a shelf gets its share of every
        day.
        """
        return self.folder / thread_id.hex[-2:] / thread_id.hex

    def _made(self, thread_id: uuid.UUID) -> Path:
        place = self._place(thread_id)
        if not place.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for folder in (place.parent, place):
                folder.mkdir(exist_ok=True, mode=0o700)
                _flush(folder.parent)
        return place

    @contextlib.contextmanager
    def _locked(self, thread_id: uuid.UUID) -> Iterator[Path]:
        place = self._made(thread_id)
        lock = os.open(place / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield place
        finally:
            os.close(lock)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"The file store refused: {error.strerror or error}.") from error


def _note(place: Path, key: uuid.UUID) -> Path:
    return place / f"{key.hex}{NOTE}"


def _read_head(place: Path) -> tuple[uuid.UUID | None, str | None]:
    """The head and its note."""
    text = _read(place / "head")
    if text is None:
        return None, None
    try:
        fields = unpacked(text)
        return uuid.UUID(fields["id"]), fields["note"]
    except MISSHAPEN as error:
        raise CheckpointDamaged(
            "A thread's head cannot be read; its stored bytes were changed."
        ) from error


def _names(place: Path) -> list[str]:
    try:
        return os.listdir(place)
    except FileNotFoundError:
        return []


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("ascii", "replace")
    except FileNotFoundError:
        return None


def _write(path: Path, text: str) -> None:
    """Whole or not at all, and on the disk when it returns."""
    handle, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(text.encode("ascii"))
            file.flush()
            os.fsync(file.fileno())
        os.rename(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    _flush(path.parent)


def _flush(folder: Path) -> None:
    """A rename is on the disk once its folder is."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
