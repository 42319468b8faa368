"""A disk of the database without room."""

from __future__ import annotations

import http.client
import time
from typing import TYPE_CHECKING, Any

from bench.chaos.disk import Disk as Small
from bench.chaos.faults import Fault

if TYPE_CHECKING:
    from bench.chaos.world import World

FULL = (6.0, 12.0)
"""Seconds that it is full."""


class Disk(Fault):
    """The disk of the database's tables is full for some seconds: a tmpfs under its tablespace
    shrinks to what is in use (the write-ahead log is elsewhere, since PostgreSQL itself ends where
    that is full). Who asks for an order is told 507 or 503 in words, orders can be
    read, and everything goes on when there is room again.
    """

    def possible(self) -> str | None:
        return Small.possible()

    def prepare(self, world: World) -> None:
        """The tables move to a disk of their own, before anybody works with them."""
        import psycopg
        from django.db import connection

        world.disk = world.small_disk("disk")
        connection.close()
        url = world.postgresql.url.replace("/postgres?", "/template1?")
        with psycopg.connect(url, autocommit=True) as database:
            database.execute(f"CREATE TABLESPACE small LOCATION '{world.disk.folder}'")
            database.execute("ALTER DATABASE postgres SET TABLESPACE small")

    def make(self, world: World) -> str:
        assert world.disk is not None
        refused, touched = world.answers[507], world.running()
        with world.outage():
            world.disk.fill()
            world.hurry = True
            try:
                ends = time.monotonic() + world.dice.uniform(*FULL)
                while time.monotonic() < ends and not world.ended.wait(0.5):
                    self._read(world)
            finally:
                world.hurry = False
                world.disk.make_room()
        world.await_recovery("disk", touched, since=time.monotonic())
        return "orders refused with 507" if world.answers[507] > refused else "no order needed room"

    def _read(self, world: World) -> None:
        answer: Any
        try:
            status, answer = world.stack.call(
                "GET", "/api/v1/work-orders?limit=5", token=world.token
            )
        except (OSError, http.client.HTTPException) as error:
            status, answer = 0, error
        if status != 200:
            world.breach(
                "wrong",
                (
                    f"disk: work orders could not be read while it was full: {status} "
                    f"{str(answer)[:200]}"
                ),
            )


FAULT = Disk()
