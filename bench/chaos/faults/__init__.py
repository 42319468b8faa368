"""The faults, one module each with a `FAULT`, and what makes them one after the other.

A fault's module imports what knows Django's models where it is used: the list of faults is wanted
before Django is ready.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
import time
from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from bench.chaos.world import World

SIGN_OF_LIFE = 60.0
"""Seconds to wait for an effect before the next fault.

On a busy machine a worker may need many to start, and would die again before.
"""


class Fault(ABC):
    """Something that breaks.

    The docstring says what is done, for `--help`; the module's name is the fault's.
    """

    only_hosts: ClassVar[bool] = False
    """Whether it can only be made where servers are hosts as well (`--hosts`)."""

    def possible(self) -> str | None:
        """Why it cannot be made on this machine; None where it can."""
        return None

    def prepare(self, world: World) -> None:  # noqa: B027  # a hook: most faults need none
        """Before any process of the product starts: what they need in `world.stack.environment`, or
        one in `world.stack.own[name]`.
        """

    @abstractmethod
    def make(self, world: World) -> str:
        """Make it once, end it, and wait with `World.await_recovery` until everything goes on;
        gives which kind of it that was. "" where it was not to be made this time, or has counted
        itself in `World.made`.

        What clients may notice is made within `World.outage`; what must not be is said by
        `World.breach`.
        """

    def check(self, world: World) -> None:  # noqa: B027  # a hook, empty for most
        """After the last run: what else must hold."""


@cache
def known() -> dict[str, Fault]:
    """All faults by name."""
    faults: dict[str, Fault] = {}
    for module in pkgutil.iter_modules(__path__):
        faults[module.name] = importlib.import_module(f"{__name__}.{module.name}").FAULT
    # they are written with Fault, so this module comes before theirs
    return {**faults, **importlib.import_module("bench.chaos.hosts.faults").FAULTS}


class Maker(threading.Thread):
    """Makes faults in turn, every few seconds, but not before the survivors have done something
    again.
    """

    def __init__(self, world: World, names: list[str], *, every: float, times: int) -> None:
        super().__init__(name="faults", daemon=True)
        self.world, self.names, self.every, self.times = world, names, every, times

    def run(self) -> None:
        try:
            self._make_all()
        finally:
            if self.times:
                self.world.ended.set()

    def _make_all(self) -> None:
        world, turn = self.world, 0
        while not world.ended.wait(self.every * world.dice.uniform(0.5, 1.5)):
            self._await_life()
            if world.ended.is_set() or (self.times and turn == self.times * len(self.names)):
                return
            name = self.names[turn % len(self.names)]
            turn += 1
            try:
                kind = known()[name].make(world)
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
