"""Orders are asked for, and every question is handed to all clients, until no order is left to
end.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import threading
import time
from collections import Counter
from typing import Any

from django.contrib.auth.models import Group, User
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from bench.chaos import orders
from bench.chaos.asking import TEAM, Asker
from bench.chaos.books import Books
from bench.chaos.clients import DOORS, PASSWORD, Answer, Client, Question
from bench.chaos.faults import Fault
from bench.chaos.maker import Maker, known
from bench.chaos.world import ASK, KINDS, World, patiently
from checkpoints import ids
from hitl.models import ApiToken
from runs.models import Pause, Run, WorkOrder
from runs.models.pauses import PauseQuerySet
from runs.states import PauseStatus

DRAIN = 300.0
"""Seconds after the last fault within which all runs end."""
USERS = ("ana", "ben", "cleo", "dan")
REDISPATCH = 5.0
"""Seconds after which a question that is still open is handed to the clients again: their answers
met a server that was away.
"""

EARLY = 1.5
"""Seconds before its deadline that a question is handed out, at most."""


class Race:
    def __init__(
        self, world: World, options: argparse.Namespace, faults: dict[str, Fault] | None = None
    ) -> None:
        self.world, self.stack, self.options = world, world.stack, options
        self.faults = faults or {name: known()[name] for name in options.faults}
        self.turns = list(faults or options.faults)
        self.dice = random.Random(options.seed)
        self.books = Books(world, pauses=options.pauses)

    def run(self) -> dict[str, Any]:
        began, options, world = time.monotonic(), self.options, self.world
        tokens = self.settle()
        world.token = tokens[USERS[0]]
        for fault in self.faults.values():
            fault.prepare(world)
        world.begin()
        faults = Maker(world, self.faults, self.turns, every=options.every, times=options.times)
        heard: list[Answer] = []
        clients = [self.client(number, tokens, heard) for number in range(options.clients)]
        asker = self.asker()
        watch = Watch(world)
        for thread in (watch, faults, asker):
            thread.start()
        self.race(clients, asker, faults, deadline=began + options.timeout)
        faults.stop()
        for client in clients:
            client.inbox.put(None)
        for client in clients:
            client.join(60)
            client.close()
        asker.ask_again()
        watch.stop()
        for fault in self.faults.values():
            fault.check(world)
        counts = self.books.check(asker.asked, heard)
        return {**self.summary(), "seconds": round(time.monotonic() - began), **counts}

    def asker(self) -> Asker:
        options = self.options
        return Asker(
            self.world,
            runs=options.runs,
            minutes=options.minutes,
            times=options.times,
            live=options.live,
            pace=options.pace,
        )

    def summary(self) -> dict[str, Any]:
        """What of the books counts most: first in the line."""
        world, options = self.world, self.options
        kinds = Counter[str](kind for kind, _ in world.breaches)
        return {
            "ok": not world.breaches,
            **{kind: kinds[kind] for kind in KINDS},
            "breaches": [f"{kind}: {words}" for kind, words in world.breaches[:20]],
            "faults": {name: self.made(name) for name in self.faults},
            **{
                name: getattr(options, name)
                for name in ("minutes", "pauses", "seed", "clients", "lease")
            },
        }

    def made(self, name: str) -> dict[str, Any]:
        kinds = {kind: times for (fault, kind), times in self.world.made.items() if fault == name}
        slowest = self.world.slowest[name]
        return {
            "times": sum(kinds.values()),
            "slowest_others": round(slowest.others, 1),
            "slowest_affected": round(slowest.affected, 1),
            "kinds": kinds,
        }

    def settle(self) -> dict[str, str]:
        """People, the templates; gives the people's tokens."""
        orders.load(self.options.pauses)
        team = Group.objects.create(name=TEAM)
        tokens = {}
        for name in USERS:
            user = User.objects.create_user(name, password=PASSWORD)
            user.groups.add(team)
            tokens[name] = ApiToken.make(user, name=TEAM)[1]
        return tokens

    def client(self, number: int, tokens: dict[str, str], heard: list[Answer]) -> Client:
        user = USERS[number % len(USERS)]
        client = DOORS[number % len(DOORS)](
            self.stack, user, tokens[user], random.Random(self.dice.random()), heard
        )
        client.open()
        client.start()
        return client

    def opened(self) -> PauseQuerySet:
        """What is asked of the clients."""
        return Pause.objects.open()

    def open_questions(self) -> list[Question]:
        """Those that are about to expire, as late as the clients and the sweep can meet; then the
        oldest of those that never do.
        """
        late = timezone.now() + dt.timedelta(seconds=self.dice.uniform(0, EARLY))
        found = (
            self.opened()
            .filter(Q(deadline_at=None) | Q(deadline_at__lte=late))
            .order_by(F("deadline_at").asc(nulls_last=True), "id")
            .values_list("pk", "run__work_order", "revision")[:200]
        )
        return [
            Question(ids.show(Pause.PREFIX, pause), ids.show(WorkOrder.PREFIX, order), revision)
            for pause, order, revision in found
        ]

    def race(self, clients: list[Client], asker: Asker, faults: Maker, *, deadline: float) -> None:
        handed: dict[str, float] = {}
        drains = False
        while time.monotonic() < deadline:
            over = asker.ends is not None and (
                not asker.is_alive() or time.monotonic() >= asker.ends
            )
            if over and not self.world.ended.is_set():
                self.world.ended.set()  # what is left comes to its end in peace
            if self.world.ended.is_set() and not drains:
                drains, deadline = True, max(deadline, time.monotonic() + DRAIN)
            busy = sum(client.inbox.qsize() for client in clients)
            if busy < 10 * len(clients):
                questions = patiently(self.open_questions)
                now = time.monotonic()
                new = [
                    question
                    for question in questions
                    if handed.get(question.pause, 0) < now - REDISPATCH
                ]
                for question in new[:10]:
                    handed[question.pause] = now
                    for client in self.dice.sample(clients, self.options.racers):
                        client.inbox.put(question)
                if (
                    not questions
                    and not asker.is_alive()
                    and not patiently(lambda: Run.objects.live().exists())
                ):
                    return
            time.sleep(ASK)  # nothing tells when there is one
        left = patiently(lambda: Counter(Run.objects.live().values_list("status", flat=True)))
        self.world.breach("stuck", f"not at an end in time: {dict(left)}")


class Watch(threading.Thread):
    """Looks whether a deadline fires before its time, by the database's clock."""

    def __init__(self, world: World) -> None:
        super().__init__(name="deadlines", daemon=True)
        self.world, self.ended = world, threading.Event()
        self.early: set[str] = set()

    def run(self) -> None:
        while not self.ended.wait(0.2):
            for pause in patiently(
                lambda: list(
                    Pause.objects.filter(status=PauseStatus.EXPIRED, deadline_at__gt=Now())
                )
            ):
                if pause.shown_id not in self.early:
                    self.early.add(pause.shown_id)
                    self.world.breach(
                        "early", f"{pause.shown_id} expired before {pause.deadline_at}"
                    )

    def stop(self) -> None:
        self.ended.set()
        self.join(30)
