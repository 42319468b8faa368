"""The faults, one module each with a `FAULT`.

A fault's module imports what knows Django's models where it is used: the list of faults is wanted
before Django is ready.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from bench.chaos.world import World


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
