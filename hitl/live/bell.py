"""Waiting for the next time that something happens, at little cost for who waits."""

from __future__ import annotations

import asyncio


class Bell:
    """Wakes all who wait for the next time that it rings. asyncio's Event has 760 bytes for who
    waits, whether anybody does.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def wait(self) -> None:
        mine = asyncio.get_running_loop().create_future()
        self._waiting.add(mine)
        try:
            await mine
        finally:
            self._waiting.discard(mine)

    def ring(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
