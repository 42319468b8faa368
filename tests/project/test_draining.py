"""Requests at work while a server stops."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from hitl.host.draining import Drain


class Answering:
    """An application that answers when it is let."""

    def __init__(self) -> None:
        self.may, self.began, self.answered = asyncio.Event(), asyncio.Event(), False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.began.set()
        await self.may.wait()
        self.answered = True


async def _begun(drain: Drain) -> tuple[Answering, asyncio.Future[Any]]:
    view = Answering()
    request = asyncio.ensure_future(drain.around(view)({}, None, None))
    await view.began.wait()
    return view, request


@pytest.mark.parametrize("is_let", [True, False])
def test_a_request_is_answered_though_the_server_cancels_it_and_the_wait_has_an_end(is_let):
    async def story() -> bool:
        drain = Drain()
        view, request = await _begun(drain)
        ending = asyncio.ensure_future(drain.ends(seconds=60 if is_let else 0.01))
        await asyncio.sleep(0)  # it has begun to stop
        request.cancel()
        with suppress(asyncio.CancelledError):
            await request
        if is_let:
            view.may.set()
        await ending
        return view.answered

    assert asyncio.run(story()) is is_let


def test_a_request_whose_client_has_left_is_cancelled_as_ever():
    async def story() -> bool:
        drain = Drain()
        view, request = await _begun(drain)
        request.cancel()
        with suppress(asyncio.CancelledError):
            await request
        view.may.set()
        await drain.ends(seconds=1)
        return view.answered

    assert asyncio.run(story()) is False


def test_a_request_that_came_with_the_stop_itself_is_answered():
    """The server cancels it before its first step: now and then one of those who came while an
    author's file was loaded was cut off without a word.
    """

    async def story() -> bool:
        drain, view = Drain(), Answering()
        view.may.set()
        request = asyncio.ensure_future(drain.around(view)({}, None, None))
        ending = asyncio.ensure_future(drain.ends(seconds=60))
        request.cancel()
        await ending
        return view.answered

    assert asyncio.run(story())


def test_a_server_that_had_no_time_for_seconds_hears_what_it_has_taken(monkeypatch):
    """On a busy machine a visitor was cut off: the patience was over before the loop had read."""

    async def story() -> bool:
        view = Answering()
        view.may.set()
        drain = Drain(lambda: not view.began.is_set())
        loop, looks = asyncio.get_running_loop(), list[float]()
        clock = loop.time
        monkeypatch.setattr(loop, "time", lambda: clock() + 3 * len(looks))

        async def starved(seconds: float) -> None:
            looks.append(seconds)
            if len(looks) == 2:  # the loop comes to it at last
                coming.append(asyncio.ensure_future(drain.around(view)({}, None, None)))
            await asyncio.tasks.sleep(0)

        coming = list[asyncio.Future[Any]]()
        monkeypatch.setattr("hitl.host.draining.asyncio.sleep", starved)
        await drain.ends(seconds=60)
        return view.answered

    assert asyncio.run(story())
