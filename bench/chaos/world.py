"""The world that is broken: the servers, the product's processes as hosts with ways of their own to
them, and what is seen of it.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Literal, TypeVar
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connection

from bench.chaos import EFFECTS
from bench.chaos.disk import Disk
from bench.chaos.namespaces import Namespace
from bench.chaos.wire import Link, Wire
from checkpoints import ids
from runs.models import Run
from runs.states import PENDING, RUNNING
from tests.servers.private import PostgreSQL, Redis, Server, free_port
from tests.servers.stack import Stack, until

GRACE = 5.0
"""Seconds after a fault in which clients may still stumble over dead connections."""
PROMISED = 60.0
"""P3: seconds within which everything goes on after a crash."""
PATIENCE = 30.0
"""Seconds that more is waited for what is late, to say how late."""
LOOK = 0.05
"""Seconds between two looks at the effects."""
ASK = 0.2
"""Seconds between two questions to the database, which has much else to answer."""
KINDS = ("lost", "doubled", "stuck", "early", "late", "wrong")
"""What a breach is one of: something acknowledged is missing; something is there twice; it never
ended; a deadline fired before its
time; it went on, but later than promised; anything else."""
Kind = Literal["lost", "doubled", "stuck", "early", "late", "wrong"]

T = TypeVar("T")


@dataclass
class Host:
    """One process group of the product, which reaches the servers over links of its own."""

    name: str
    process: Server
    database: Link
    broker: Link
    network: Namespace | None = None
    """Its own, where that is possible here."""

    @property
    def owners(self) -> list[str]:
        """As leases name its processes."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if os.getpgid(int(folder.name)) == self.process.pid:
                    found.append(f"{socket.gethostname()}:{folder.name}")
            except ProcessLookupError:
                pass
        return found

    def silence(self) -> None:
        self.database.silence()
        self.broker.silence()
        if self.network is not None:
            self.network.pull()

    def silence_here(self) -> None:
        """The same in the wire's thread, at once."""
        self.database.silence_here()
        self.broker.silence_here()
        if self.network is not None:
            self.network.pull()

    def heal(self) -> None:
        if self.network is not None:
            self.network.plug()
        self.database.heal()
        self.broker.heal()


@dataclass(frozen=True)
class Touched:
    """A run that a fault met, as it stood right after it."""

    run: UUID
    epoch: int
    status: str


@dataclass(frozen=True)
class HeldRows:
    """What a host that fell silent had: nobody else gets it meanwhile."""

    began: float
    until: float
    """Both in seconds of the monotonic clock."""
    runs: Collection[UUID]
    heard: bytes
    """What it said in the transaction that it left open."""


@dataclass
class Slowest:
    """Seconds; see `World.await_recovery`."""

    others: float = 0.0
    affected: float = 0.0


class World:
    def __init__(
        self,
        stack: Stack,
        postgresql: PostgreSQL,
        redis: Redis,
        wire: Wire,
        *,
        workers: int,
        lease: float,
        dice: random.Random,
    ) -> None:
        self.stack, self.postgresql, self.redis, self.lease, self.dice = (
            stack,
            postgresql,
            redis,
            lease,
            dice,
        )
        self.folder = stack.folder
        self.wire = wire
        self.disk: Disk | None = None
        """Where PostgreSQL keeps its tables, if that is a disk that may become full."""
        self.disks: list[Disk] = []
        self.namespaces = False
        """Whether hosts have networks of their own."""
        self.networks: list[Namespace] = []
        self.servers = [postgresql]
        """All of PostgreSQL's that there were."""
        self.token = ""
        """Of somebody who may read what was asked for."""
        self.hurry = False
        """Orders are wanted, however many are under way."""
        self.eager = False
        """The next order is wanted as soon as there may be one more under way."""
        self.answers = Counter[int]()
        """To those who asked for orders, by status."""
        self.names = [f"w{number}" for number in range(workers)]
        self.hosts: dict[str, Host] = {}
        self.front = self.wire.link("front", free_port())
        stack.port = self.front.port
        self.ended = threading.Event()
        """No more faults are wanted."""
        self.made: Counter[tuple[str, str]] = Counter()
        """How often each fault was made, by its name and kind."""
        self.slowest: defaultdict[str, Slowest] = defaultdict(Slowest)
        """By fault."""
        self.breaches: list[tuple[Kind, str]] = []
        self.died_at: set[str] = set()
        """Runs that a host had, or may have had, when it died or fell silent: there alone an effect
        under `once` may happen again.
        """
        self.effects = Effects(stack.folder / EFFECTS)
        self._outages: list[list[float]] = []
        self._held_rows: list[HeldRows] = []

    def breach(self, kind: Kind, words: str) -> None:
        self.breaches.append((kind, words))

    def begin(self) -> None:
        """Start all hosts."""
        self.start("web")
        for name in [*self.names, "beat"]:
            self.start(name)
        self.effects.start()

    def start(self, name: str) -> Host:
        """Start a host, or start it again.

        Its links are the ones it had, unless they fell silent: then it is another machine.
        """
        if name == "web":
            return self.switch(*self.spare_web())
        host = self.hosts.get(name)
        if host is None or host.database.silent or host.broker.silent:
            network = self._network()
            links = self._links(name, network)
        else:
            links, network = (host.database, host.broker), host.network
        self.stack.own.setdefault(name, {}).update(self.reach(*links))
        self.stack.under[name] = network.prefix if network else []
        self.hosts[name] = Host(
            name, self.stack.beat() if name == "beat" else self.stack.worker(name), *links, network
        )
        return self.hosts[name]

    def _network(self) -> Namespace | None:
        if not self.namespaces:
            return None
        network = Namespace(len(self.networks))
        self.networks.append(network)
        network.make()
        return network

    def spare_web(self) -> tuple[Host, tuple[str, int]]:
        """A web host that is ready, and its place; nobody is sent to it yet."""
        network = self._network()
        links, place = (
            self._links("web", network),
            (network.there if network else "127.0.0.1", free_port()),
        )
        self.stack.own.setdefault("web", {}).update({**self.reach(*links), "DATABASE_POOL": "8"})
        self.stack.under["web"] = network.prefix if network else []
        bound = ["-b", place[0], "-p", str(place[1])]
        process = self.stack.start("web", "-m", "daphne", *bound, "project.asgi:application")
        until(lambda: _answers(*place), what=f"the web server; {self.stack.log_tail()}")
        return Host("web", process, *links, network), place

    def switch(self, host: Host, place: tuple[str, int]) -> Host:
        """Send everybody to this web host, as a balancer does that found the other one gone."""
        self.front.repoint(place)
        self.hosts["web"] = host
        return host

    def _links(self, name: str, network: Namespace | None = None) -> tuple[Link, Link]:
        address = network.here if network else "127.0.0.1"
        database = self.wire.link(
            f"{name} database", self.postgresql.socket, postgresql=True, address=address
        )
        return database, self.wire.link(f"{name} broker", self.redis.port, address=address)

    def reach(self, database: Link, broker: Link) -> dict[str, str]:
        """What a process is told, to come over these links."""
        return {
            "DATABASE_URL": database.url,
            "REDIS_URL": f"redis://{broker.address}:{broker.port}/0",
        }

    def worker(self) -> Host:
        """One of the workers, as the dice fall."""
        return self.hosts[self.dice.choice(self.names)]

    def kill(self, host: Host) -> None:
        self.stack.kill(host.process)

    def revive(self) -> None:
        """What a supervisor does in production, and counts."""
        for name, host in list(self.hosts.items()):
            if host.process.poll() is not None:
                self.breach("wrong", f"{name} ended by itself; see its log (--keep)")
                self.start(name)

    def small_disk(self, name: str) -> Disk:
        """A disk for PostgreSQL's tables, there until the end of all."""
        disk = Disk(self.folder / name)
        disk.make()
        self.disks.append(disk)
        return disk

    def point(self, server: PostgreSQL) -> None:
        """This is the database now: all links lead there."""
        self.postgresql = server
        for link in self.wire.links:
            if link.postgresql and not link.silent:
                link.repoint(server.socket)

    def stop(self) -> None:
        self.ended.set()
        self.effects.ended.set()
        self.stack.stop()
        self.wire.stop()
        for server in self.servers:
            server.kill()
        for disk in self.disks:
            disk.remove()
        for network in self.networks:
            network.remove()

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Meanwhile, and for GRACE after it, clients may hear that somebody does not answer."""
        self._outages.append([time.monotonic(), float("inf")])
        try:
            yield
        finally:
            self._outages[-1][1] = time.monotonic() + GRACE

    def was_away(self, began: float, ended: float) -> bool:
        """Whether something was away at some time between the two."""
        return any(began <= until and ended >= since for since, until in self._outages)

    def note_held(self, touched: Collection[Touched], heard: bytes) -> None:
        """For two leases from now, clients may hear that what this host had is held: the runs that
        it touched, and the rows of which it spoke in its open transaction.
        """
        began = time.monotonic()
        runs = {claim.run for claim in touched}
        self._held_rows.append(HeldRows(began, began + 2 * self.lease, runs, heard))

    def was_held(self, pause: UUID, run: UUID, began: float, ended: float) -> bool:
        """Whether a silent host had this question between the two."""
        return any(
            began <= rows.until
            and ended >= rows.began
            and (run in rows.runs or _names(rows.heard, pause))
            for rows in self._held_rows
        )

    def since(self, moment: float) -> float:
        """Seconds since all were last back."""
        return moment - max(
            (until - GRACE for _, until in self._outages if until - GRACE < moment), default=0
        )

    def held_by(self, owners: Collection[str], heard: bytes = b"") -> list[Touched]:
        """The runs that these processes of a host (see `Host.owners`) had when it died, and those
        that it just spoke of.
        """
        moving = Run.objects.filter(status__in=[PENDING, RUNNING]).values_list(
            "pk", "thread", "epoch", "status", "lease_owner"
        )
        found = []
        for run, thread, epoch, status, owner in patiently(lambda: list(moving)):
            named = _names(heard, run) or _names(heard, thread)
            if named or (status == RUNNING and owner in owners):
                found.append(Touched(run, epoch, status))
        self.died_at |= {ids.show("run", touched.run) for touched in found}
        return found

    def running(self) -> list[Touched]:
        """All runs that some worker has at this moment: what a fault of a server meets."""
        runs = Run.objects.filter(status=RUNNING).values_list("pk", "epoch", "status")
        return [Touched(*row) for row in patiently(lambda: list(runs))]

    def note_silence(self, touched: Collection[Touched], *, since: float) -> None:
        """The database was away: where that took as long as leases do, whoever is first takes what
        is claimed, and it need not be at work any more when this looks.
        """
        if time.monotonic() - since > self.lease / 2:
            claimed = Run.objects.filter(status__in=[PENDING, RUNNING], epoch__gt=0)
            keys = patiently(lambda: list(claimed.values_list("pk", flat=True)))
            self.died_at |= {
                ids.show("run", key) for key in [*keys, *(claim.run for claim in touched)]
            }

    def await_recovery(
        self,
        name: str,
        touched: Collection[Touched] = (),
        *,
        since: float,
        others: float = PROMISED,
        affected: float = PROMISED,
        watch: float = 0,
    ) -> None:
        """Wait until everything goes on, and note how long that took from `since`, the end of the
        fault (of silence: its beginning).

        Two numbers, in seconds. *Others*: the longest time in which no run had an effect that the
        fault did not meet. *Affected*: until each run that it met was taken up again by a worker,
        stands at a question, or has ended. More than these limits is a breach. `watch` is how long
        the others are watched at least.
        """
        mine, left = {ids.show("run", claim.run) for claim in touched}, list(touched)
        while left and not self.ended.is_set() and time.monotonic() < since + affected + PATIENCE:
            left = self._not_taken_up(left)
            time.sleep(ASK)  # looks again: the hosts are other processes
        slow = time.monotonic() - since if touched else 0.0
        while (
            self.effects.first(since, without=mine) is None
            and not self.ended.is_set()
            and time.monotonic() < since + others + PATIENCE
        ):
            time.sleep(LOOK)  # looks again: the hosts are other processes
        self.ended.wait(max(0.0, since + watch - time.monotonic()))
        if self.ended.is_set():
            return
        gap = self.effects.longest_gap(since, time.monotonic(), without=mine)
        seen = self.slowest[name]
        seen.others, seen.affected = max(seen.others, gap), max(seen.affected, slow)
        if gap > others:
            self.breach(
                "late",
                f"{name}: no other run had an effect for {gap:.1f} s; {others:g} s were promised",
            )
        if slow > affected:
            self.breach(
                "late",
                f"{name}: {sorted(mine)} went on after {slow:.1f} s; {affected:g} s were promised",
            )

    def let_go_on(self, touched: Collection[Touched]) -> None:
        """Wait until these runs have a step behind them: one whose process ends twice in a row is
        put aside, as it should be.
        """
        keys = [claim.run for claim in touched]
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends and not self.ended.wait(ASK):
            if not patiently(lambda: Run.objects.filter(pk__in=keys, deaths__gt=0).exists()):
                return

    def _not_taken_up(self, touched: Collection[Touched]) -> list[Touched]:
        rows = patiently(
            lambda: list(
                Run.objects.filter(pk__in=[claim.run for claim in touched]).values_list(
                    "pk", "epoch", "status"
                )
            )
        )
        now = {key: (epoch, status) for key, epoch, status in rows}
        return [
            claim
            for claim in touched
            if now[claim.run][0] == claim.epoch and now[claim.run][1] in {PENDING, RUNNING}
        ]


@dataclass
class Effects(threading.Thread):
    """Watches what the world outside sees of steps: who had an effect, and when."""

    path: Path
    seen: list[tuple[float, str]] = field(default_factory=list)
    """Moments, each with the key of the step's execution."""
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__(name="effects", daemon=True)

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        with self.path.open() as lines:
            while not self.ended.wait(LOOK):
                now = time.monotonic()
                self.seen += [(now, line.strip()) for line in lines]

    def longest_gap(self, since: float, till: float, *, without: Collection[str] = ()) -> float:
        """The longest time between the two in which no run but these had an effect."""
        moments = [
            at
            for at, key in list(self.seen)
            if since <= at <= till and key.split("/")[0] not in without
        ]
        return max(
            after - before
            for before, after in zip([since, *moments], [*moments, till], strict=True)
        )

    def first(self, since: float, *, without: Collection[str] = ()) -> float | None:
        """Seconds until a run other than these had an effect; None where none had."""
        return next(
            (
                at - since
                for at, key in list(self.seen)
                if at >= since and key.split("/")[0] not in without
            ),
            None,
        )


def _names(heard: bytes, key: UUID) -> bool:
    """Whether the key is in what was heard of a session, in any of its forms."""
    return any(form in heard for form in (key.bytes, str(key).encode(), key.hex.encode()))


def patiently(look: Callable[[], T]) -> T:
    """Ask the database until it is there."""
    while True:
        try:
            return look()
        except (DatabaseError, InterfaceError):
            connection.close()
            time.sleep(0.1)  # looks again: the hosts are other processes


def _answers(address: str, port: int) -> bool:
    asked = HTTPConnection(address, port, timeout=10)
    try:
        asked.request("GET", "/login", headers={"Host": "127.0.0.1"})  # as all clients call it
        return asked.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        asked.close()
