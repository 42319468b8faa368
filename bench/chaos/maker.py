"""What makes the faults one after the other."""

from __future__ import annotations

import importlib
import pkgutil
import threading
import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from bench.chaos import faults
from bench.chaos.faults import Fault
from bench.chaos.hosts import faults as of_hosts

if TYPE_CHECKING:
    from bench.chaos.world import World

SIGN_OF_LIFE = 60.0
"""Seconds to wait for an effect before the next fault.

On a busy machine a worker may need many to start, and would die again before.
"""


@cache
def known() -> dict[str, Fault]:
    """All faults by name."""
    by_name: dict[str, Fault] = {}
    for module in pkgutil.iter_modules(faults.__path__):
        by_name[module.name] = importlib.import_module(f"{faults.__name__}.{module.name}").FAULT
    return {**by_name, **of_hosts.FAULTS}


class Maker(threading.Thread):
    """Makes faults in turn, every few seconds, but not before the survivors have done something
    again.
    """

    def __init__(
        self,
        world: World,
        faults: dict[str, Fault],
        turns: Sequence[str],
        *,
        every: float,
        times: int,
    ) -> None:
        """In these turns, in which a name may be there more than once; all of them so many times,
        or until no more are wanted.
        """
        super().__init__(name="faults", daemon=True)
        self.world, self.faults, self.turns = world, faults, turns
        self.every, self.times = every, times

    def run(self) -> None:
        try:
            self._make_all()
        finally:
            if self.times:
                self.world.ended.set()

    def _make_all(self) -> None:
        world, turn, names = self.world, 0, self.turns
        while not world.ended.wait(self.every * world.dice.uniform(0.5, 1.5)):
            self._await_life()
            if world.ended.is_set() or (self.times and turn == self.times * len(names)):
                return
            name = names[turn % len(names)]
            turn += 1
            try:
                kind = self.faults[name].make(world)
            except Exception as error:  # noqa: BLE001  # else lost with its thread
                world.breach("wrong", f"the fault {name} could not be made: {error!r}")
                world.ended.set()
                return
            if kind:
                world.made[name, kind] += 1
            world.revive()

    def _await_life(self) -> None:
        since = time.monotonic()
        while (
            self.world.effects.first(since) is None
            and time.monotonic() < since + SIGN_OF_LIFE
            and not self.world.ended.wait(0.1)
        ):
            pass

    def stop(self) -> None:
        self.world.ended.set()
        self.join(90)
        self.world.revive()
