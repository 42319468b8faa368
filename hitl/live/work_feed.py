"""An order's page while it works, brought to all who have it open: written once for all to whom it
is the same, and of it the parts that changed since each was brought the last.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from checkpoints.database.people import User

logger = logging.getLogger(__name__)

EVERY, EACH = 0.25, 0.005
"""Seconds between two pages, and how many more for each who watches."""
FORGOTTEN = 60.0
"""Seconds after which a page that nobody has been brought is written from the beginning."""
SEPARATOR = "<!--part-->"
"""Stands between the parts of a page."""
_versions = itertools.count(1)
"""Of all pages together: one that was forgotten and is written anew is newer than any that a socket
has.
"""


@dataclass(frozen=True)
class WorkKind:
    """Who is shown the same: how they stand to the order, and in which language."""

    order_id: uuid.UUID
    language: str
    observes: bool
    may_prioritise: bool
    may_suspend: bool
    may_trace: bool
    """Where the work fails, their page says where in the code, so they fetch it."""
    by: int = field(compare=False)
    """One of them."""


class WorkWriter(NamedTuple):
    """What the layer above knows of such pages. Both are called in a database thread."""

    kind_of: Callable[[User, uuid.UUID, str], WorkKind | None]
    """Person, thread and language; None where the thread has no order."""
    write: Callable[[WorkKind], tuple[int, str] | None]
    """The number of the last event that the page shows, and its HTML; None where it is not the same
    for all of that kind.
    """


class _Page:
    """What was written last, and which of its parts came with which version."""

    def __init__(self) -> None:
        self.seq = self.version = 0
        self.at = -EVERY
        self.parts: list[tuple[int, str]] = []
        self.writing: asyncio.Task[None] | None = None
        self.readers = 0

    def take(self, written: tuple[int, str] | None) -> None:
        self.at, self.version = time.monotonic(), next(_versions)
        self.seq, html = written or (self.seq, "")
        before, texts = self.parts, html.split(SEPARATOR) if written else []
        same = len(before) == len(texts)
        self.parts = [
            before[place] if same and before[place][1] == text else (self.version, text)
            for place, text in enumerate(texts)
        ]

    def since(self, version: int) -> str | None:
        """The beginning of the page, and what changed behind it."""
        if not self.parts or version == self.version:
            return "" if self.parts else None
        changed = [text for place, (at, text) in enumerate(self.parts) if at > version or not place]
        return "".join(changed)


class WorkFeed:
    """The pages of one event loop."""

    def __init__(self, in_database_thread: Callable[[Callable[..., Any]], Callable[..., Any]]):
        self._in_database_thread = in_database_thread
        self._pages: dict[WorkKind, _Page] = {}

    async def news(
        self, kind: WorkKind, writer: WorkWriter, *, seq: int, version: int, watchers: int
    ) -> tuple[int, str | None]:
        """The version that shows the event `seq`, and what changed since another one, "" where
        nothing did; None where each must fetch what is theirs. Raises what the database raises.
        """
        page = self._pages.setdefault(kind, _Page())
        page.readers += 1
        try:
            while page.seq < seq:
                if page.writing is None:
                    again = page.at + EVERY + EACH * watchers if page.parts else 0.0
                    pause = max(0.0, again - time.monotonic())
                    page.writing = asyncio.create_task(self._write(page, kind, writer, pause))
                await asyncio.shield(page.writing)
                if not page.parts:
                    break
            return page.version, page.since(version)
        finally:
            page.readers -= 1
            self._forget()

    async def _write(self, page: _Page, kind: WorkKind, writer: WorkWriter, pause: float) -> None:
        try:
            await asyncio.sleep(pause)
            page.take(await self._in_database_thread(writer.write)(kind))
        finally:
            page.writing = None

    def _forget(self) -> None:
        for kind, page in list(self._pages.items()):
            if not page.readers and page.at < time.monotonic() - FORGOTTEN:
                del self._pages[kind]
