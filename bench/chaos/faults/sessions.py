"""Database sessions that are ended inside the calls that steps make."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from bench.chaos.faults import Fault

if TYPE_CHECKING:
    from bench.chaos.world import Touched, World

PATIENCE = 30.0
"""Seconds that steps get to come by and fulfil the wishes."""
MISSES = 4
"""After so many a call has no more statements."""
MOST = 12
"""Statements of one call."""


class Sessions(Fault):
    """The server ends a worker's database session (pg_terminate_backend) before and after every
    statement of every call of the SDK, and of the recording of what a step answers. No step fails
    of it, and no effect under `once` happens twice.
    """

    def __init__(self) -> None:
        self._turn: list[tuple[int, str]] = []
        self._short = Counter[str]()
        """How often calls were found to have no such statement; one that begins again has fewer
        than at first.
        """

    def prepare(self, world: World) -> None:
        from bench.chaos import sabotage

        for name in (sabotage.WISHES, f"{sabotage.WISHES}.taken", sabotage.STRUCK):
            (world.folder / name).mkdir()
        struck = {"once", *sabotage.CALLS, *sabotage.OUTCOMES}
        if forgotten := sabotage.sdk() - struck:
            world.breach(
                "wrong", f"calls of the SDK inside which no session is ended: {sorted(forgotten)}"
            )

    def make(self, world: World) -> str:
        from bench.chaos import sabotage

        if not self._turn:
            self._turn = [
                (number, moment) for number in range(1, MOST + 1) for moment in ("before", "after")
            ]
            self._short.clear()
        number, moment = self._turn.pop(0)
        calls = [
            name
            for name in sorted({"once", *sabotage.CALLS, *sabotage.OUTCOMES})
            if self._short[name] < MISSES
        ]
        if not calls:
            self._turn.clear()
            return ""
        wishes = [f"{call}-{number}-{moment}" for call in calls]
        # a statement of a web host may meet rows that a session holds a moment longer
        with world.outage():
            for name in wishes:
                (world.folder / sabotage.WISHES / name).touch()
            world.eager = True  # each step fulfils one
            touched = self._struck(world, wishes, world.folder / sabotage.STRUCK)
            world.eager = False
            for name in wishes:
                (world.folder / sabotage.WISHES / name).unlink(missing_ok=True)
        world.await_recovery("sessions", touched, since=time.monotonic())
        return ""

    def _struck(self, world: World, wishes: list[str], folder: Path) -> list[Touched]:
        """What became of the wishes, as far as steps came by."""
        from bench.chaos.world import Touched
        from checkpoints import ids
        from runs.states import RUNNING

        left, touched, ends = set(wishes), [], time.monotonic() + PATIENCE
        while left and time.monotonic() < ends and not world.ended.wait(0.1):
            for name in [name for name in left if (folder / name).exists()]:
                left.discard(name)
                run, fence, struck = (folder / name).read_text().split()
                (folder / name).unlink()
                call = name.split("-")[0]
                if struck == "1":
                    world.made["sessions", call] += 1
                    touched.append(Touched(ids.parse("run", run), int(fence), RUNNING))
                else:
                    self._short[call] += 1
        return touched


FAULT = Sessions()
