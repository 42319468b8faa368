"""The processes of production, those who use them, and what these were told while there was
trouble.
"""

from __future__ import annotations

import argparse
import datetime as dt
import http.client
import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from django.db.models import Max

from bench.chaos.asking import TEAM, UNCLEAR, Asked, Asker
from bench.chaos.clients import Answer, Client
from bench.chaos.faults import Fault
from bench.chaos.race import Race
from bench.chaos.wire import Wire
from bench.chaos.world import World, patiently
from checkpoints.database import clock
from runs.models import Run
from runs.models.pauses import PauseQuerySet
from tests.servers.private import PostgreSQL, Redis, Server, free_port
from tests.servers.stack import Stack

CLIENTS, PACE = 2, 1.0
"""So many clients order, each once in so many seconds; as many people answer."""
PARTS = ("web", "worker", "control", "beat")
APART = 100_001
"""From there on each tenth number is of an order that a drill makes beside its clients: none that
these ask for again.
"""
LIMIT = 900.0
"""Seconds after which a drill that has not ended is a breach."""


class Product(World):
    """The world of `bench.chaos`, but its processes reach the servers without proxies."""

    def __init__(self, stack: Stack, postgresql: PostgreSQL, redis: Redis, *, lease: float) -> None:
        super().__init__(
            stack, postgresql, redis, Wire(), workers=0, lease=lease, dice=random.Random(7)
        )
        stack.port = free_port()
        self.processes: dict[str, Server] = {}
        self.asked: list[Asked] = []
        self.apart: set[str] = set()
        """Titles of orders whose questions nobody answers."""
        self.told: list[tuple[float, str, int]] = []
        """Moments, what was asked for, and the status; 0 is no answer."""
        self.lasted = (0.0, 0.0)
        """From when to when the trouble was there, in seconds of the monotonic clock."""
        self.over_at: dt.datetime | None = None
        """Its end by the database's clock."""
        self.facts: dict[str, Any] = {}
        """What else a drill has counted."""

    def begin(self) -> None:
        for name in PARTS:
            self.up(name)
        self.effects.start()

    def up(self, name: str) -> None:
        """Start a process, as `manage.py start` would."""
        match name:
            case "web":
                process = self.stack.web()
            case "beat":
                process = self.stack.beat()
            case "control":
                process = self.stack.worker(
                    name, queues="control,outbound", pool="threads", concurrency=4
                )
            case _:
                process = self.stack.worker(
                    name, queues="steps,agents", pool="threads", concurrency=8
                )
        self.processes[name] = process

    def down(self, name: str) -> None:
        self.stack.kill(self.processes.pop(name))

    def revive(self) -> None:
        """Nothing has a supervisor here: everything has to go on by itself."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                self.breach("wrong", f"{name} ended by itself; DRILL_LOGS=folder keeps its log")

    @contextmanager
    def trouble(self, name: str) -> Iterator[None]:
        """What is told within is counted, and the seconds from its end until all goes on."""
        touched, began = self.running(), time.monotonic()
        with self.outage():
            yield
            self.lasted, self.over_at = (began, time.monotonic()), patiently(clock.now)
        self.await_recovery(name, touched, since=self.lasted[1])

    def order(self, template: str, **more: Any) -> str:
        """Order one of that template, which people leave alone; gives its title."""
        asked = Asked(APART + 10 * len(self.asked))
        body = {"template": template, "title": asked.title, "team": TEAM, "input": {"crew": 2}}
        status, answer = self.stack.call(
            "POST",
            "/api/v1/work-orders",
            {**body, **more},
            token=self.token,
            headers={"Idempotency-Key": asked.key},
        )
        asked.answers.append(status)
        assert status == 201, answer
        asked.order = answer["id"]
        self.asked.append(asked)
        self.apart.add(asked.title)
        return asked.title

    def endure(self, seconds: float) -> None:
        """Let the trouble last, and look once in a second whether the orders can be read."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and not self.ended.wait(1):
            try:
                status, answer = self.stack.call(
                    "GET", "/api/v1/work-orders?limit=5", token=self.token
                )
            except (OSError, http.client.HTTPException) as error:
                status, answer = 0, error
            self.told.append((time.monotonic(), "reads", status))
            if status != 200:
                self.breach("wrong", f"orders could not be read: {status} {str(answer)[:200]}")


class Steady(Asker):
    """Clients that order at a steady pace, whatever is under way."""

    def __init__(self, world: Product) -> None:
        super().__init__(world, runs=0, minutes=0, times=1, live=0, pace=PACE)
        self.product = world
        self.asked = world.asked

    def run(self) -> None:
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(self._order_from, range(CLIENTS)))

    def _order_from(self, first: int) -> None:
        for number in itertools.count(first, CLIENTS):
            if self.world.ended.wait(PACE):
                return
            self.order(Asked(number))

    def order(self, asked: Asked) -> None:
        """Until there is a clear answer."""
        self.asked.append(asked)
        while not asked.order and self._ask(asked) in UNCLEAR:
            time.sleep(0.2)  # looks again: the hosts are other processes

    def _ask(self, asked: Asked) -> int:
        status = super()._ask(asked)
        self.product.told.append((time.monotonic(), "orders", status))
        return status


class Drive(Race):
    """One drill, from the first order to the books."""

    def __init__(self, world: Product, name: str, drill: Fault) -> None:
        options = argparse.Namespace(
            **{
                "pauses": 1,
                "seed": 7,
                "clients": CLIENTS,
                "racers": CLIENTS,
                "every": 8.0,
                "times": 1,
                "minutes": 0,
            },
            timeout=LIMIT,
            lease=world.lease,
        )
        super().__init__(world, options, {name: drill})
        self.product, self.name = world, name
        self.heard: list[Answer] = []

    def asker(self) -> Asker:
        return Steady(self.product)

    def client(self, number: int, tokens: dict[str, str], heard: list[Answer]) -> Client:
        self.heard = heard
        return super().client(number, tokens, heard)

    def opened(self) -> PauseQuerySet:
        return super().opened().exclude(run__work_order__title__in=self.product.apart)

    def summary(self) -> dict[str, Any]:
        world = self.product
        began, ended = world.lasted
        told: dict[str, Counter[str]] = {what: Counter() for what in ("orders", "reads", "answers")}
        for at, what, status in world.told:
            if began <= at <= ended:
                told[what][str(status)] += 1
        for answer in self.heard:
            if began <= answer.ended <= ended:
                told["answers"][answer.verdict] += 1
        counts = super().summary()
        waited = Run.objects.filter(created_at__lte=world.over_at).exclude(
            work_order__title__in=world.apart
        )
        last = waited.aggregate(last=Max("ended_at"))["last"]
        first, slowest = world.effects.first(ended), world.slowest[self.name]
        return {
            **{name: value for name, value in counts.items() if name not in {"faults", "minutes"}},
            "lasted": round(ended - began, 1),
            "told_meanwhile": told,
            "effects_meanwhile": sum(began <= at <= ended for at, _ in list(world.effects.seen)),
            "first_effect_after": None if first is None else round(first, 1),
            "affected_after": round(slowest.affected, 1),
            "orders_that_waited": waited.filter(ended_at__gt=world.over_at).count(),
            "they_ended_after": round((last - world.over_at).total_seconds(), 1),
            **world.facts,
        }
