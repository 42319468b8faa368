"""Steps that do what steps should not."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.chaos.faults import Fault

if TYPE_CHECKING:
    from bench.chaos.world import World

PATIENCE = 30.0
"""Seconds in which a step comes by."""
GONE = 15.0
"""Seconds in which a process is gone that may not be used any more."""


class Misdeeds(Fault):
    """A step ends its process, crashes or overflows it, clears environment and path, floods its
    output, leaves a child or a thread behind, or uses up all files. Its run and all others go on.
    """

    def __init__(self) -> None:
        self._turn: itertools.cycle[str] | None = None

    def possible(self) -> str | None:
        return None if Path("/proc/self/task").exists() else "there is no /proc to look into"

    def prepare(self, world: World) -> None:
        from bench.chaos import misdeeds

        for name in (misdeeds.WISHED, misdeeds.DONE):
            (world.folder / name).mkdir()
        self._turn = itertools.cycle(misdeeds.DEEDS)

    def make(self, world: World) -> str:
        from bench.chaos import misdeeds
        from bench.chaos.world import Touched
        from checkpoints import ids
        from runs.states import RUNNING

        assert self._turn is not None
        name = next(self._turn)
        wish, done = (world.folder / place / name for place in (misdeeds.WISHED, misdeeds.DONE))
        wish.touch()
        ends = time.monotonic() + PATIENCE
        while not done.exists() and time.monotonic() < ends and not world.ended.wait(0.05):
            pass  # steps come by in other processes
        wish.unlink(missing_ok=True)
        if not done.exists():
            return ""
        run, fence, pid = done.read_text().split()
        done.unlink()
        touched = [Touched(ids.parse("run", run), int(fence), RUNNING)]
        if name in misdeeds.FALLING:
            world.died_at.add(run)
            world.await_recovery("misdeeds", touched, since=time.monotonic())
            world.let_go_on(touched)
        else:
            world.await_recovery("misdeeds", since=time.monotonic())
        if name not in {"change", "flood"}:
            self._gone(world, name, pid)
        return name

    def _gone(self, world: World, name: str, pid: str) -> None:
        ends = time.monotonic() + GONE
        while Path(f"/proc/{pid}").exists():
            if time.monotonic() > ends:
                return world.breach("wrong", f"the process of a step's {name} is still there")
            if world.ended.wait(0.1):
                return None
        return None


FAULT = Misdeeds()
