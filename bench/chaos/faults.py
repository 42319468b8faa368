"""The fault maker: every few seconds, but not before the survivors have done something again, something dies or stands still."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter

from bench.chaos import orders
from tests.servers import PostgreSQL, Redis
from tests.stack import Stack

KINDS = ("kill worker", "restart redis", "kill worker", "restart postgresql", "freeze worker", "kill worker")
FROZEN = 4.0
"""Seconds that a worker stands still: past its lease of three, so that another one takes its runs before it comes back."""
PATIENCE = 60.0
"""Seconds to wait for a sign of life after a fault. On a busy machine a worker may need many to start, and would die again before."""
GRACE = 5.0
"""Seconds after a server is back in which its clients may still stumble over dead connections."""


class Faults(threading.Thread):
    def __init__(self, stack: Stack, postgresql: PostgreSQL, redis: Redis, *, workers: int, every: float, dice: random.Random) -> None:
        super().__init__(name="faults", daemon=True)
        self.stack, self.postgresql, self.redis, self.every, self.dice = stack, postgresql, redis, every, dice
        self.workers = {f"w{number}": stack.worker(f"w{number}") for number in range(workers)}
        self.beat = stack.beat()
        self.effects, self.seen = stack.folder / orders.EFFECTS, 0
        self.ended = threading.Event()
        self.made: Counter[str] = Counter()
        self.outages: list[list[float]] = []
        self.problems: list[str] = []

    def run(self) -> None:
        kinds = list(KINDS)
        while not self.ended.wait(self.every * self.dice.uniform(0.5, 1.5)):
            self.await_life()
            kind = kinds.pop(0) if kinds else self.dice.choice(KINDS)
            try:
                self.make(kind)
            except Exception as error:  # noqa: BLE001  # a thread's error would be lost; the summary names it
                self.problems.append(f"{kind}: {error!r}")
                return
            self.made[kind] += 1
            self.revive()

    def await_life(self) -> None:
        """Wait until a step has had its effect since this was last asked."""
        ends = time.monotonic() + PATIENCE
        while self.effects.stat().st_size == self.seen and time.monotonic() < ends and not self.ended.wait(0.1):
            pass
        self.seen = self.effects.stat().st_size

    def make(self, kind: str) -> None:
        name = self.dice.choice(sorted(self.workers))
        match kind:
            case "kill worker":
                self.stack.kill(self.workers[name])
                self.workers[name] = self.stack.worker(name)
            case "freeze worker":
                os.killpg(self.workers[name].pid, signal.SIGSTOP)
                self.ended.wait(FROZEN)
                os.killpg(self.workers[name].pid, signal.SIGCONT)
            case "restart redis":
                self.away(self.redis)  # with all messages in it: the product must not need one of them
            case "restart postgresql":
                self.away(self.postgresql)

    def away(self, server: PostgreSQL | Redis) -> None:
        self.outages.append([time.monotonic(), float("inf")])
        server.kill()
        self.ended.wait(self.dice.uniform(0, 1))
        server.start()
        self.outages[-1][1] = time.monotonic() + GRACE

    def revive(self) -> None:
        """What a supervisor does in production, and counts."""
        for name, process in self.workers.items():
            if process.poll() is not None:
                self.made["worker ended by itself"] += 1
                self.workers[name] = self.stack.worker(name)
        if self.beat.poll() is not None:
            self.made["beat ended by itself"] += 1
            self.beat = self.stack.beat()

    def stop(self) -> None:
        self.ended.set()
        self.join(60)
        self.revive()

    def was_away(self, began: float, ended: float) -> bool:
        """Whether a server was away at some time between the two."""
        return any(began <= until and ended >= since for since, until in self.outages)

    def since(self, moment: float) -> float:
        """Seconds since the servers were last back."""
        return moment - max((until - GRACE for _, until in self.outages if until - GRACE < moment), default=0)
