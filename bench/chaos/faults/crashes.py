"""Processes and servers that die, or stand still."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from bench.chaos.faults import Fault
from tests.servers.private import PostgreSQL, Redis

if TYPE_CHECKING:
    from bench.chaos.world import Touched, World

KINDS = (
    *("kill worker", "restart redis", "restart postgresql", "freeze worker"),
    *("kill worker", "kill worker"),
)


class Crashes(Fault):
    """A worker is killed with its children, or frozen past its lease; Redis is killed with all that
    is in it; PostgreSQL is killed.
    """

    def __init__(self) -> None:
        self._turn = list(KINDS)

    def make(self, world: World) -> str:
        kind = self._turn.pop(0) if self._turn else world.dice.choice(KINDS)
        host = world.worker()
        owners: list[str] = host.owners
        touched: list[Touched] = []
        match kind:
            case "kill worker":
                world.kill(host)
                touched = world.held_by(owners)
                world.start(host.name)
            case "freeze worker":
                os.killpg(host.process.pid, signal.SIGSTOP)
                touched = world.held_by(owners)
                world.ended.wait(world.lease + 1)  # another one takes its runs before it comes back
                os.killpg(host.process.pid, signal.SIGCONT)
            case "restart redis":
                # with all messages in it: the product must not need one of them
                self._away(world, world.redis)
            case "restart postgresql":
                touched, began = world.running(), time.monotonic()
                self._away(world, world.postgresql)
                world.note_silence(touched, since=began)
        world.await_recovery("crashes", touched, since=time.monotonic())
        return kind

    def _away(self, world: World, server: PostgreSQL | Redis) -> None:
        with world.outage():
            server.kill()
            world.ended.wait(world.dice.uniform(0, 1))
            server.start()


FAULT = Crashes()
