"""A standby that takes the primary's place."""

from __future__ import annotations

import itertools
import shutil
import time
from typing import TYPE_CHECKING

from bench.chaos.faults import Fault
from bench.chaos.hosts.servers import WAIT, say
from tests.servers.private import PostgreSQL, find
from tests.servers.stack import until

if TYPE_CHECKING:
    from bench.chaos.world import World


class Standby(Fault):
    """The primary is killed and its hot standby promoted (pg_basebackup, streaming, synchronous
    commits); everybody is sent to that one.
    Nothing that was acknowledged is lost. The next one is copied from it.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def possible(self) -> str | None:
        return None if find("pg_basebackup") else "PostgreSQL's pg_basebackup is not installed"

    def make(self, world: World) -> str:
        primary, standby = world.postgresql, PostgreSQL(world.folder / f"pg{next(self._numbers)}")
        disk = (
            world.small_disk(f"disk of {standby.folder.name}") if world.disk is not None else None
        )
        standby.copy(
            primary, *(["-T", f"{world.disk.folder}={disk.folder}"] if disk and world.disk else [])
        )
        world.servers.append(standby)
        standby.start()
        say(primary, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        until(
            lambda: say(primary, "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"),
            seconds=WAIT,
            what="a standby that follows",
        )
        world.ended.wait(world.dice.uniform(1, 3))  # work goes on, and every commit waits for both
        touched, began = world.running(), time.monotonic()
        with world.outage():
            primary.kill()
            say(standby, f"SELECT pg_promote(true, {WAIT:g})")
            say(standby, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
            before, world.disk = world.disk, disk
            world.point(standby)
        if before is not None:
            before.remove()
        shutil.rmtree(primary.folder, ignore_errors=True)
        world.note_silence(touched, since=began)
        world.await_recovery("standby", touched, since=time.monotonic())
        return "promoted"


FAULT = Standby()
