"""Orders are asked for, and every question is handed to all clients, until no order is left to end."""

from __future__ import annotations

import argparse
import datetime as dt
import http.client
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from django.contrib.auth.models import Group, User
from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

from bench.chaos import orders
from bench.chaos.books import Books
from bench.chaos.clients import DOORS, PASSWORD, Answer, Client, Question
from bench.chaos.faults import Faults
from hitl.models import ApiToken
from runs.models import Pause, Run
from tests.servers import PostgreSQL, Redis
from tests.stack import Stack

TEAM = "chaos"
USERS = ("ana", "ben", "cleo", "dan")
REDISPATCH = 5.0
"""Seconds after which a question that is still open is handed to the clients again: their answers met a server that was away."""

EARLY = 1.5
"""Seconds before its deadline that a question is handed out, at most."""

T = TypeVar("T")


class Race:
    def __init__(self, stack: Stack, options: argparse.Namespace) -> None:
        self.stack, self.options = stack, options
        self.dice = random.Random(options.seed)
        self.books = Books(stack, runs=options.runs, pauses=options.pauses)

    def run(self, postgresql: PostgreSQL, redis: Redis) -> dict[str, Any]:
        began, options = time.monotonic(), self.options
        tokens = self.settle()
        self.stack.web()
        dice = random.Random(self.dice.random())
        faults = Faults(self.stack, postgresql, redis, workers=options.workers, every=options.every, dice=dice)
        heard: list[Answer] = []
        clients = [self.client(number, tokens, heard) for number in range(options.clients)]
        faults.start()
        asked_again = self.submit(tokens[USERS[0]])
        self.race(clients, deadline=began + options.timeout)
        faults.stop()
        for client in clients:
            client.inbox.put(None)
        for client in clients:
            client.join(60)
            client.close()
        self.books.breaches += faults.problems
        counts = self.books.check(heard, faults)
        return {
            "ok": not self.books.breaches,
            "seconds": round(time.monotonic() - began),
            **{name: getattr(options, name) for name in ("runs", "pauses", "seed", "clients")},
            "submitted_again": asked_again,
            "faults": dict(faults.made),
            **counts,
            "breaches": self.books.breaches[:20],
        }

    def settle(self) -> dict[str, str]:
        """Tables, people, the template; gives the people's tokens."""
        self.stack.manage("migrate", "-v0")
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
        client = DOORS[number % len(DOORS)](self.stack, user, tokens[user], random.Random(self.dice.random()), heard)
        client.open()
        client.start()
        return client

    def submit(self, token: str) -> int:
        """Ask for all orders. One that got no answer is asked for again, so there may be some more than wanted; all are watched."""
        again = 0
        sizes = list(orders.CREWS)
        for number in range(self.options.runs):
            input = {"crew": sizes[number % len(sizes)]}
            timed = number % orders.TIMED_EVERY == orders.TIMED_EVERY - 1
            body = {"template": orders.TIMED if timed else orders.TEMPLATE, "title": f"order {number}", "team": TEAM, "input": input}
            while True:
                try:
                    status, answer = self.stack.call("POST", "/api/v1/work-orders", body, token=token)
                except (OSError, http.client.HTTPException):
                    status, answer = 0, ""
                if status == 201:
                    break
                if status not in {0, 500, 503}:
                    self.books.breaches.append(f"submit: {status} {str(answer)[:200]}")
                again += 1
                time.sleep(0.2)
        return again

    def open_questions(self) -> list[Pause]:
        """Those that are about to expire, as late as the clients and the sweep can meet; then the oldest of those that never do."""
        opened = Pause.objects.open().select_related("run__work_order").order_by("id")
        late = timezone.now() + dt.timedelta(seconds=self.dice.uniform(0, EARLY))
        return [*opened.filter(deadline_at__lte=late), *opened.filter(deadline_at__isnull=True)[:200]]

    def race(self, clients: list[Client], *, deadline: float) -> None:
        handed: dict[str, float] = {}
        while time.monotonic() < deadline:
            busy = sum(client.inbox.qsize() for client in clients)
            if busy < 10 * len(clients):
                found = patiently(self.open_questions)
                now = time.monotonic()
                for pause in [pause for pause in found if handed.get(pause.shown_id, 0) < now - REDISPATCH][:10]:
                    handed[pause.shown_id] = now
                    assert pause.run.work_order is not None
                    question = Question(pause.shown_id, pause.run.work_order.shown_id, pause.revision)
                    for client in clients:
                        client.inbox.put(question)
                if not found and not patiently(lambda: Run.objects.live().exists()):
                    return
            time.sleep(0.05)
        left = patiently(lambda: Counter(Run.objects.live().values_list("status", flat=True)))
        self.books.breaches.append(f"not at an end after {self.options.timeout:g} s: {dict(left)}")


def patiently(look: Callable[[], T]) -> T:
    """Ask the database until it is there."""
    while True:
        try:
            return look()
        except (DatabaseError, InterfaceError):
            connection.close()
            time.sleep(0.1)
