"""People who have the inbox or an order's page open, in a process of their own: `python -m
bench.clients.onlookers` with its wish as JSON on stdin; speaks JSON lines.

They do what `static/js/inbox.js` and `follow.js` do. First `{"open": n}`; then it is told what
there was to show, and says how often each was shown, and when by the last of them.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import product
from typing import Any

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from bench.clients.watchers import until

PAUSE = 0.12
"""Seconds, as follow.js has them: between an event and a fetch, where the server names no longer
time between two fetches.
"""
AT_ONCE = 20
"""Pages that are opened at a time: Daphne refuses a handshake that lasts for five seconds."""
PATIENCE = 30.0
"""Seconds after the last change, within which all should have been shown it."""
COUNTED = ("bytes", "fetches", "failed", "closed")
SEQ = re.compile(r'data-seq="(\d+)"')
EVERY = re.compile(r'data-every="(\d+)"')


class Onlooker:
    """One person with one page open. What a message tells is shown at once, or by a fetch."""

    def __init__(self, wish: dict[str, Any], session: str, http: httpx.AsyncClient) -> None:
        self.wish, self.http = wish, http
        self.cookie = {"Cookie": f"sessionid={session}"}
        self.bytes = self.fetches = self.failed = self.closed = 0
        self._shown: dict[str, list[float]] = defaultdict(list)
        self._opened = 0
        self._awaited: list[str] = []
        """What was told and the next fetch shows."""
        self._timer: asyncio.TimerHandle | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._again = False
        self.looked_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether every socket answers, and the page has nothing to do."""
        return self._opened == len(self.wish["sockets"]) and not self.is_busy

    @property
    def is_busy(self) -> bool:
        return bool(self._timer or self._fetching)

    def times(self, change: str) -> list[float]:
        """When it was shown, once for each time that it was told."""
        return self._shown.get(change, [])

    async def follow(self, path: str) -> None:
        """Without compression: Daphne grants browsers none."""
        at = f"127.0.0.1:{self.wish['port']}"
        try:
            async with connect(
                f"ws://{at}{path}",
                additional_headers={**self.cookie, "Origin": f"http://{at}"},
                compression=None,
                max_queue=None,
                max_size=None,
                open_timeout=60,
                ping_interval=None,
                proxy=None,
            ) as socket:
                await socket.send('{"type": "ping"}')
                while text := await socket.recv(decode=False):
                    self.bytes += len(text)
                    message = json.loads(text)
                    self._opened += message.get("type") == "pong"
                    self.take(message)
        except ConnectionClosed:
            pass  # the page would come back; here nobody is to be cut off
        self.closed += 1

    def take(self, message: dict[str, Any]) -> None:
        raise NotImplementedError

    def pause(self) -> float:
        """Seconds until the next fetch may begin."""
        return PAUSE

    def read(self, html: str, changes: list[str]) -> None:
        """Show what a page shows of some changes."""
        self.show(*changes)

    def show(self, *changes: str) -> None:
        for change in changes:
            self._shown[change].append(time.time())

    def fetch_soon(self, *changes: str) -> None:
        self._awaited += changes
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.pause(), self._begin)

    def _begin(self) -> None:
        self._timer = None
        if self._fetching:
            self._again = True
        else:
            self._fetching = asyncio.create_task(self._fetch())

    async def _fetch(self) -> None:
        changes, self._awaited = self._awaited, []
        self.looked_at = time.monotonic()
        try:
            response = await self.http.get(self.wish["fetches"], headers=self.cookie)
            response.raise_for_status()
            head = sum(len(name) + len(value) + 4 for name, value in response.headers.raw)
            self.bytes += head + response.num_bytes_downloaded
            self.fetches += 1
            self.read(response.text, changes)
        except httpx.HTTPError:  # the next message makes it fetch again
            self.failed += 1
            self._awaited = changes + self._awaited
        finally:
            self._fetching = None
        if self._again:
            self._again = False
            self.fetch_soon()


class Inbox(Onlooker):
    """A message brings what changed; one that cannot makes the page fetch."""

    def __init__(self, wish: dict[str, Any], session: str, http: httpx.AsyncClient) -> None:
        super().__init__(wish, session, http)
        self._begun = False

    @property
    def is_open(self) -> bool:
        return self._begun and super().is_open

    def take(self, message: dict[str, Any]) -> None:
        if message.get("type") != "inbox":
            return
        first, self._begun = not self._begun, True
        if "first" in message and not first:  # more than it can name
            self.fetch_soon()
        elif not first:
            self.show(*(f"gone {pause}" for pause in message["gone"]))
            self.show(*(f"new {pause}" for pause in message["new"]))


class Order(Onlooker):
    """Behind events the page is brought, or else fetched; the badge above it has a socket too."""

    every = PAUSE
    brought = False

    def take(self, message: dict[str, Any]) -> None:
        if "seq" in message:
            self._awaited.append(str(message["seq"]))
        elif message.get("type") == "work":
            self.brought = message["html"] is not None
            if self.brought:
                self._awaited = self._take(message["html"], self._awaited)
                return
        if not self.brought and self._awaited:
            self.fetch_soon()

    def pause(self) -> float:
        return max(PAUSE, self.looked_at + self.every - time.monotonic())

    def read(self, html: str, changes: list[str]) -> None:
        if found := EVERY.search(html):
            self.every = int(found[1]) / 1000
        left = self._take(html, changes)
        if left:  # others were shown it a moment before
            self.fetch_soon(*left)

    def _take(self, html: str, changes: list[str]) -> list[str]:
        """Show those of some changes that a page shows; gives the others."""
        seq = SEQ.search(html)
        shown = [one for one in changes if seq is None or int(one) <= int(seq[1])]
        self.show(*shown)
        return [one for one in changes if one not in shown]


PAGES: dict[str, type[Onlooker]] = {"inbox": Inbox, "order": Order}


def all_shown(people: list[Onlooker], changes: list[str]) -> Callable[[], bool]:
    """Whether everybody was shown everything: asked often, it looks at each but once."""
    left = list(product(people, changes))

    def look() -> bool:
        while left and left[-1][0].times(left[-1][1]):
            left.pop()
        return not left

    return look


def summary(people: list[Onlooker], changes: list[str]) -> dict[str, Any]:
    """What they saw of it; `last` is when the last of those who saw a change was shown it."""
    seen = {change: [person.times(change) for person in people] for change in changes}
    return {
        "last": {
            change: max(times[0] for times in each if times)
            for change, each in seen.items()
            if any(each)
        },
        "missed": sum(not times for each in seen.values() for times in each),
        "doubled": sum(len(times) > 1 for each in seen.values() for times in each),
        **{name: sum(getattr(person, name) for person in people) for name in COUNTED},
    }


async def main() -> None:
    wish = json.loads(sys.stdin.readline())
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{wish['port']}", limits=limits, timeout=60, trust_env=False
    ) as http:
        people: list[Onlooker] = []
        tasks: list[asyncio.Task[None]] = []

        def opening() -> int:
            return sum(not person.is_open for person in people)

        for session in wish["sessions"]:
            people.append(PAGES[wish["page"]](wish, session, http))
            tasks += [asyncio.create_task(people[-1].follow(path)) for path in wish["sockets"]]
            await until(lambda: opening() < AT_ONCE, tasks)
        await until(lambda: not opening(), tasks)
        for person in people:
            person.bytes = person.fetches = person.failed = 0  # what opening takes is not counted
        print(json.dumps({"open": len(people)}), flush=True)
        changes = json.loads(await asyncio.to_thread(sys.stdin.readline))
        await until(all_shown(people, changes), tasks, PATIENCE)
        await asyncio.sleep(0.5)  # what is told twice would be now
        print(json.dumps(summary(people, changes)), flush=True)
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
