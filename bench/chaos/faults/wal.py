"""A disk of the database's write-ahead log without room: PostgreSQL itself ends."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from bench.chaos.disk import Disk
from bench.chaos.faults import Fault
from bench.chaos.hosts.servers import say
from tests.servers.private import PostgreSQL, find

if TYPE_CHECKING:
    from bench.chaos.world import World

FULL = (2.0, 12.0)
"""Seconds that it stays full once somebody was refused."""
NEEDED = 30.0
"""Seconds in which orders need more than there is, at the most."""


class Wal(Fault):
    """The disk of PostgreSQL's write-ahead log is full for some seconds: the server ends in the
    middle of a commit, and does not come up before there is room. Who asks is told 503 or 507 in
    words; with room again a supervisor starts it, all that was acknowledged is
    there, and everything goes on.
    """

    def __init__(self) -> None:
        self._server: PostgreSQL | None = None
        self._disk: Disk | None = None

    def possible(self) -> str | None:
        return Disk.possible() or (
            None if find("pg_resetwal") else "PostgreSQL's pg_resetwal is not installed"
        )

    def prepare(self, world: World) -> None:
        """The log moves to a disk of its own, in segments so small that a few orders need another
        one.
        """
        from django.db import connection

        connection.close()
        say(
            world.postgresql,
            "ALTER SYSTEM SET min_wal_size = '2MB'",
            "ALTER SYSTEM SET wal_recycle = off",
        )
        self._move(world, segments="1")

    def _move(self, world: World, *, segments: str = "") -> None:
        """The server stops, and comes up with its log on a new disk; in segments of so many MB from
        now on.
        """
        server, disk = world.postgresql, world.small_disk(f"wal of {world.postgresql.folder.name}")
        log = server.folder / "db" / "pg_wal"
        server.stop()
        if segments:
            command = [
                *server.as_user,
                str(find("pg_resetwal")),
                f"--wal-segsize={segments}",
                "-D",
                str(log.parent),
            ]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cp", "-a", f"{log}/.", disk.folder], check=True)
        shutil.rmtree(log)
        log.symlink_to(disk.folder)
        server.start()
        self._server, self._disk = server, disk

    def make(self, world: World) -> str:
        if world.postgresql is not self._server:  # a standby took its place
            with world.outage():
                self._move(world)
        assert self._disk is not None
        before, began = self._refused(world), time.monotonic()
        touched = world.running()
        with world.outage():
            self._disk.fill()
            self._begin_a_segment(world)
            world.hurry = True
            try:
                needed = time.monotonic() + NEEDED
                while (
                    self._refused(world) == before
                    and time.monotonic() < needed
                    and not world.ended.wait(0.1)
                ):
                    pass
                world.ended.wait(world.dice.uniform(*FULL))
            finally:
                world.hurry = False
                self._disk.make_room()
                ended = (
                    world.postgresql.process is None or world.postgresql.process.poll() is not None
                )
                if ended:
                    world.postgresql.start()
        world.note_silence(touched, since=began)
        world.await_recovery("wal", touched, since=time.monotonic())
        if self._refused(world) == before:
            return "no order needed room"
        return "PostgreSQL ended" if ended else "PostgreSQL came up by itself"

    def _begin_a_segment(self, world: World) -> None:
        """Who says something next needs room for it: orders are not asked for by the dozen only to
        fill the segment before.
        """
        import psycopg

        with suppress(psycopg.Error):  # it may be this session at which the server ends
            say(world.postgresql, "SELECT pg_switch_wal()")

    def _refused(self, world: World) -> int:
        return world.answers[503] + world.answers[507]


FAULT = Wal()
