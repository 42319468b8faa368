"""The sections of a thread's document that the layers above write: each layer says of its own what
is in it, how it is written and how it is checked.

The memory's own sections (`thread`, `checkpoints`, `events`, `memos`, `blobs`, `graph`) are
`thread_document`'s, which knows no other by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from checkpoints.models import Thread

Row = dict[str, Any]


class Write(Protocol):
    """Gives the rows of a thread, oldest first.

    `root` is false for the thread of a child run, which is in its parent's document.
    """

    def __call__(self, thread: Thread, *, root: bool) -> list[Row]: ...


@dataclass(frozen=True, kw_only=True)
class Section:
    """A list of rows in a thread's document."""

    name: str
    after: str
    """The section behind which the JSON Schema has it."""
    row: Mapping[str, Any]
    """The JSON Schema of a row."""
    prefix: str
    """Of the ids of its rows: each is given once in a document and its children."""
    write: Write
    description: str = ""
    run_column: str = ""
    """Which column names the run that a row belongs to; `id` where the rows are runs."""
    redacted: Sequence[str] = ()
    """Columns in which nothing may be named like a secret."""
    blobs: Callable[[Row], Iterable[str]] = lambda row: ()
    """The digests of the blobs that a row needs; "" stands for none."""
    check: Callable[[Sequence[Row]], None] = lambda rows: None
    """Raises ImportRefused where the rows of a document do not go together."""


_SECTIONS: dict[str, Section] = {}


def register(*sections: Section) -> None:
    """Make sections known; once more the same is allowed.

    Raises ValueError: another section has that name.
    """
    for section in sections:
        if _SECTIONS.setdefault(section.name, section) is not section:
            raise ValueError(f"two sections of a document are called {section.name!r}")


def registered() -> list[Section]:
    """All sections of the layers above, those of the lowest layer first."""
    return list(_SECTIONS.values())


def in_order(own: Sequence[str]) -> list[str]:
    """The names of the memory's `own` sections and of all others, each behind the one that it comes
    after.
    """
    order = list(own)
    for section in registered():
        order.insert(order.index(section.after) + 1, section.name)
    return order
