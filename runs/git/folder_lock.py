"""One worker at a time in a folder, and an end to what a killed one left running there."""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from runs.processes import process

HEIR_SECONDS = 4.0
"""What a group that is taken over gets to end by itself."""


class FolderBusy(Exception):
    """Another worker held the lock for all of the time given."""


class FolderLock:
    """A lock file that the system frees when this process ends, however it ends."""

    def __init__(self, path: Path, group_note: Path) -> None:
        self._path, self._group_note = path, group_note
        self._release: Callable[[], object] | None = None

    def take(self, *, seconds: float, check: Callable[[], None]) -> bool:
        """Wait for the lock; False when it was held already.

        Raises FolderBusy, or what `check` raises.
        """
        if self._release:
            return False
        self._path.parent.mkdir(parents=True, exist_ok=True)
        until = time.monotonic() + seconds
        # who held it has dropped the file meanwhile: that lock is nobody's any more
        while not self._take(until, check):
            self.free()
        self._end_noted_group()
        return True

    def _take(self, until: float, check: Callable[[], None]) -> bool:
        lock = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        self._release = weakref.finalize(self, os.close, lock)
        try:
            _wait(lock, until, check)
        except BaseException:
            self.free()
            raise
        return _is_at(lock, self._path)

    def drop(self) -> None:
        """Delete the lock's file and free it, for a folder that is gone. Hold the lock."""
        assert self._release
        self._path.unlink(missing_ok=True)
        self.free()

    def free(self) -> None:
        if self._release:
            self._release()
            self._release = None

    def note_group(self, group: int) -> None:
        """Remember a process group, so that who takes the lock after our death can end it."""
        self._group_note.write_text(f"{group} {_started_at(group)}")

    def _end_noted_group(self) -> None:
        with suppress(OSError, ValueError):
            group, started_at = self._group_note.read_text().split()
            if _started_at(int(group)) == started_at:
                process.end_gently(int(group), HEIR_SECONDS)


def _wait(lock: int, deadline: float, check: Callable[[], None]) -> None:
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            check()
        if time.monotonic() > deadline:
            raise FolderBusy
        time.sleep(process.POLL_SECONDS)  # nothing tells when a file's lock is free


def _is_at(lock: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), os.stat(path))
    except FileNotFoundError:
        return False


def _started_at(pid: int) -> str:
    """When the process began, to tell it from a later one with the same number; "" when it is gone
    (or there is no /proc).
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
