"""The servers as hosts: two databases, of which one is the primary, and Redis."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.chaos import tables
from bench.chaos.hosts.network import Cabled
from bench.chaos.wire import Link, Wire
from tests.servers.private import PostgreSQL, Redis
from tests.servers.stack import until

WAIT = 30.0
"""Seconds for a standby to catch up, and to be promoted."""
OPTIONS = "sslmode=disable&gssencmode=disable"


class Servers:
    """Two places for a database, of which one is the primary, and Redis."""

    def __init__(self, folder: Path, *, namespaces: bool) -> None:
        self.folder, self.namespaces = folder, namespaces
        self.networks = [Cabled(number) for number in (997, 998, 999)] if namespaces else []
        for network in self.networks:
            network.make()
        self.places = [self._database(0), self._database(1)]
        self.primary = 0
        self.redis = Redis(folder)
        if namespaces:
            self.redis = Redis(
                folder, address=self.networks[2].there, under=self.networks[2].prefix
            )

    def _database(self, place: int) -> PostgreSQL:
        folder = self.folder / f"pg{place}"
        if not self.namespaces:
            return PostgreSQL(folder)
        network = self.networks[place]
        return PostgreSQL(folder, address=network.there, under=network.prefix)

    @property
    def postgresql(self) -> PostgreSQL:
        return self.places[self.primary]

    @property
    def url(self) -> str:
        """Both places; the product finds the primary."""
        places = ",".join(f"{server.address}:5432" for server in self.places)
        return f"postgresql://waystation@{places}/postgres?{OPTIONS}"

    def start(self) -> None:
        tables.create(self.postgresql, self.folder)
        self.redis.start()

    def add_standby(self) -> None:
        """A hot standby in the other place, without which no commit is acknowledged."""
        place = 1 - self.primary
        standby = self._database(place)
        shutil.rmtree(standby.folder, ignore_errors=True)
        self.places[place] = standby
        standby.copy(self.postgresql)
        standby.start()
        say(
            self.postgresql,
            "ALTER SYSTEM SET synchronous_standby_names = '*'",
            "SELECT pg_reload_conf()",
        )
        until(
            lambda: say(
                self.postgresql, "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
            ),
            seconds=WAIT,
            what="a standby that follows",
        )

    def lose_primary(self) -> None:
        """Its host is gone: nobody's kernel hears of it any more."""
        if self.namespaces:
            self.networks[self.primary].pull()
        self.postgresql.kill()

    def promote(self) -> None:
        self.primary = 1 - self.primary
        say(
            self.postgresql,
            f"SELECT pg_promote(true, {WAIT:g})",
            "ALTER SYSTEM RESET synchronous_standby_names",
            "SELECT pg_reload_conf()",
        )

    def bring_back(self) -> None:
        """The host of the one before is there again, with nothing on it."""
        if self.namespaces:
            self.networks[1 - self.primary].plug()

    def stop(self) -> None:
        servers: list[PostgreSQL | Redis] = [*self.places, self.redis]
        for server in servers:
            server.kill()
        for network in self.networks:
            network.remove()


def say(server: PostgreSQL, *statements: str) -> list[tuple[object, ...]]:
    """What the last of them gives."""
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as session:
        for statement in statements:
            result = session.execute(statement)
        return result.fetchall() if result.description else []


def outside(wire: Wire, servers: Servers) -> str:
    """The address of the database for whoever is no host: the clients and the books."""
    if servers.namespaces:
        return servers.url
    return both(wire, "outside", servers, "127.0.0.1").url


def both(wire: Wire, name: str, servers: Servers, address: str) -> Link:
    """A way to both databases."""
    links = [
        wire.link(f"{name} database {place}", server.socket, postgresql=True, address=address)
        for place, server in enumerate(servers.places)
    ]
    links[0].beside = links[1]
    return links[0]
