"""Tell a worker at no cost what its body process does: in a few bytes of memory that both share."""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from dataclasses import dataclass

_LAYOUT = struct.Struct("=QQd")
"""The number of the body, the epoch of the run's claim, and the body's deadline."""
SIZE = mmap.PAGESIZE


@dataclass(frozen=True)
class Seen:
    """What the worker reads. `number` is odd while a body is at work, and new for each body;
    `epoch` is that of the claim; `deadline` is on the monotonic clock, which all processes of a
    machine share.
    """

    number: int
    epoch: int
    deadline: float

    @property
    def is_at_work(self) -> bool:
        return self.number % 2 == 1


class Slot:
    """The shared memory: the body process makes it, and its worker maps the same file."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, SIZE)
        self._number = 0

    @classmethod
    def make(cls) -> Slot:
        with tempfile.TemporaryFile() as file:
            file.truncate(SIZE)
            return cls(os.dup(file.fileno()))

    def close_descriptor(self) -> None:
        """Close the file; its memory stays mapped."""
        os.close(self.descriptor)

    def enter(self, epoch: int, deadline: float) -> None:
        self._number += 1
        _LAYOUT.pack_into(self._memory, 0, self._number, epoch, deadline)

    def leave(self) -> None:
        self._number += 1
        _LAYOUT.pack_into(self._memory, 0, self._number, 0, float("inf"))

    def look(self) -> Seen:
        return Seen(*_LAYOUT.unpack_from(self._memory, 0))

    def close(self) -> None:
        self._memory.close()
