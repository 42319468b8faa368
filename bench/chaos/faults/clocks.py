"""Clocks of hosts that are wrong, and go wrong in other ways while they work."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.chaos.faults import Fault
from tests.servers.private import faketime, wrong_clock

if TYPE_CHECKING:
    from bench.chaos.world import World

OFFSETS = ("+25s", "-25s", "+1h", "-1h", "+0s")
HELD = 6.0
"""Seconds until they change again, at least: a deadline of the chaos orders comes and goes in
it.
"""


class Clocks(Fault):
    """Every host's wall clock is moved by 25 s or an hour, forward or back, each by its own, again
    and again while it works: no deadline
    is early, and no healthy run is taken from its worker.
    """

    def possible(self) -> str | None:
        return None if faketime() else "libfaketime is not installed"

    def prepare(self, world: World) -> None:
        for name in (*world.names, "web", "beat"):
            self._file(world, name).write_text(OFFSETS[-1])
            clock = wrong_clock(OFFSETS[-1])
            del clock["FAKETIME"]
            more = {
                "FAKETIME_TIMESTAMP_FILE": str(self._file(world, name)),
                "FAKETIME_CACHE_DURATION": "1",
            }
            world.stack.own.setdefault(name, {}).update({**clock, **more})

    def make(self, world: World) -> str:
        # each another one: some of them are an hour apart at any time
        offsets = itertools.cycle(world.dice.sample(OFFSETS, len(OFFSETS)))
        for name in (*world.names, "web", "beat"):
            new = self._file(world, name).with_suffix(".new")
            new.write_text(next(offsets))
            os.replace(new, self._file(world, name))
        since = time.monotonic()
        world.await_recovery("clocks", since=since, watch=HELD)
        return "moved"

    def check(self, world: World) -> None:
        """Where nothing else was done, nobody lost a worker."""
        from checkpoints.models import Event, EventKind

        if {fault for fault, _ in world.made} != {"clocks"}:
            return
        lines = Event.objects.filter(kind=EventKind.LOG).iterator(chunk_size=500)
        lost = sum(
            "was lost; another one takes over" in str(event.data.get("message", ""))
            for event in lines
        )
        if lost:
            world.breach("wrong", f"clocks: {lost} times a healthy run was taken from its worker")

    def _file(self, world: World, name: str) -> Path:
        path: Path = world.folder / f"clock-{name}"
        return path


FAULT = Clocks()
