"""Waiting, in tests of asynchronous code, for what tells nobody that it happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def becomes(true: Callable[[], object], *, seconds: float = 60) -> None:
    """Look again and again until it holds; TimeoutError where it does not in time."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(0.005)
