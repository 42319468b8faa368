"""Programs that order work and answer questions over REST while a drill changes what serves them,
and one that follows streams; each notes what it was told, for an oracle outside the product.

A key that got no clear answer is sent again, at the next door.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from tests.databases.copies import TOKENS
from tests.servers.stack import Stack

TOKEN = TOKENS["ana"]
UNCLEAR = {0, 409, 425, 503, 507}
"""No answer, one with the same key still at work, and those that say "send it again"."""
WAY = {"approve": "completed", "cancel": "cancelled"}
"""Answer → how its run ends."""
REST = 0.15
"""Seconds between two looks of a caller: two processors serve all of it."""
READS = 2.0
"""Seconds for which a stream is read before the reader comes back for the rest."""


@dataclass
class Asked:
    """An order as its caller knows it."""

    key: str
    order: str = ""
    pause: str = ""
    action: str = ""
    """What the caller answers; acknowledged where `decision` is set."""
    decision: str = ""
    replayed: str = ""
    """What the same key named when it was sent again."""


@dataclass
class Told:
    """Answers of all callers."""

    statuses: Counter[int] = field(default_factory=Counter)
    """0 is a connection that was refused or cut."""
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, status: int, words: str) -> None:
        with self.lock:
            self.statuses[status] += 1
            if status >= 500:
                self.wrong.append(words)

    @property
    def failed(self) -> int:
        return sum(count for status, count in self.statuses.items() if status >= 500)


@dataclass
class Doors:
    """The web servers that callers may be sent to, in turn, as by a balancer."""

    stacks: list[Stack]
    told: Told = field(default_factory=Told)
    _turns: itertools.count[int] = field(default_factory=itertools.count)

    def next(self) -> Stack:
        stacks = list(self.stacks)
        return stacks[next(self._turns) % len(stacks)]

    def call(self, method: str, path: str, body: Any = None, *, key: str = "") -> tuple[int, Any]:
        headers = {"Idempotency-Key": key} if key else {}
        try:
            status, answer = self.next().call(method, path, body, token=TOKEN, headers=headers)
        except (OSError, http.client.HTTPException):
            status, answer = 0, ""
        self.told.note(status, f"{method} {path}: {status} {str(answer)[:300]}")
        return status, answer

    def surely(self, path: str, body: Any, *, key: str, seconds: float = 60) -> tuple[int, Any]:
        """POST under a key, again until there is a clear answer."""
        end = time.monotonic() + seconds
        while True:
            status, answer = self.call("POST", path, body, key=key)
            clear = status not in UNCLEAR or (
                status == 409 and "idempotency" not in str(answer.get("code", ""))
            )
            if clear or time.monotonic() > end:
                return status, answer
            time.sleep(REST)  # nothing tells when a server is back

    def order(self, template: str, asked: Asked) -> None:
        body = {"template": template, "title": asked.key}
        status, answer = self.surely("/api/v1/work-orders", body, key=asked.key)
        if status not in {200, 201}:
            raise AssertionError(f"{asked.key}: {status} {answer}")
        asked.order = answer["id"]

    def question(self, asked: Asked, *, seconds: float = 60) -> dict[str, Any]:
        """Wait until the order asks."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            status, state = self.call("GET", f"/api/v1/work-orders/{asked.order}/pause-state")
            if status == 200 and state:
                asked.pause = state["id"]
                return dict(state)
            time.sleep(REST)  # looks again: workers are other processes
        raise AssertionError(f"{asked.key} ({asked.order}) asks nothing")

    def answer(self, asked: Asked, action: str) -> None:
        state = self.question(asked)
        asked.action = action
        body = {"decision": action, "feedback": "", "revision": state["revision"]}
        path = f"/api/v1/pauses/{asked.pause}/decisions"
        status, answer = self.surely(path, body, key=f"{asked.key}/answer")
        if status not in {200, 201}:
            raise AssertionError(f"{asked.key}: {status} {answer}")
        asked.decision = str(answer["id"])


class Caller(threading.Thread):
    """Orders work and answers it, again and again; every fourth key is sent twice."""

    def __init__(self, doors: Doors, number: int) -> None:
        super().__init__(daemon=True, name=f"caller {number}")
        self.doors, self.number = doors, number
        self.dice = random.Random(number)
        self.asked: list[Asked] = []
        self.over = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.over.is_set():
                self._once()
        except BaseException as error:  # noqa: BLE001  # told by the drill, in its own thread
            self.failure = error

    def _once(self) -> None:
        asked = Asked(f"c{self.number}-{len(self.asked)}-{uuid.uuid4().hex[:8]}")
        self.asked.append(asked)
        self.doors.order("slow-asking", asked)
        if len(self.asked) % 4 == 0:
            again = Asked(asked.key)
            self.doors.order("slow-asking", again)
            asked.replayed = again.order
        self.doors.answer(asked, self.dice.choice(("approve", "approve", "approve", "cancel")))


def over(threads: Sequence[Caller | Follower]) -> list[str]:
    """Let them end; what went wrong with them."""
    for thread in threads:
        thread.over.set()
    for thread in threads:
        thread.join(120)
    return [
        f"{thread.name}: {thread.failure or 'does not end'}"
        for thread in threads
        if thread.failure or thread.is_alive()
    ]


class Follower(threading.Thread):
    """Follows one order of many steps after another, each over many short connections."""

    def __init__(self, doors: Doors) -> None:
        super().__init__(daemon=True, name="follower")
        self.doors = doors
        self.streams: dict[str, list[int]] = {}
        """Key of an order → the numbers of its events, as they came."""
        self.connections = 0
        self.cut = 0
        """Connections that the server ended, or did not take."""
        self.over = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.over.is_set():
                asked = Asked(f"stream-{len(self.streams)}-{uuid.uuid4().hex[:8]}")
                self.doors.order("slow-ticks", asked)
                seen = self.streams.setdefault(asked.key, [])
                while not self._read(asked, seen):
                    pass
        except BaseException as error:  # noqa: BLE001  # told by the drill, in its own thread
            self.failure = error

    def _read(self, asked: Asked, seen: list[int]) -> bool:
        """Read for a while from the last number seen on; says whether the stream is at its end."""
        stack, self.connections = self.doors.next(), self.connections + 1
        headers = {"Authorization": f"Bearer {TOKEN}"}
        if seen:
            headers["Last-Event-ID"] = str(seen[-1])
        end = time.monotonic() + READS
        connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=30)
        with closing(connection):
            try:
                path = f"/api/v1/work-orders/{asked.order}/logs/stream"
                connection.request("GET", path, headers=headers)
                response = connection.getresponse()
                self.doors.told.note(response.status, f"GET {path}: {response.status}")
                if response.status == 204:
                    return True
                for line in response:
                    if line.startswith(b"data: "):
                        data = json.loads(line[6:])
                        if "seq" in data:
                            seen.append(int(data["seq"]))
                    elif not line.strip() and time.monotonic() > end:
                        return False  # between two frames: what was begun has been read
            except (OSError, http.client.HTTPException):
                self.doors.told.note(0, "")
            self.cut += 1
        time.sleep(REST)  # nothing tells when a server is back
        return False
