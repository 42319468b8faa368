"""Redis breaks between two commands of a worker: at the first, the second, the third …, in every
way in which it can.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.chaos.faults import Fault
from tests.servers.redis_proxy import RedisProxy

if TYPE_CHECKING:
    from bench.chaos.world import Touched, World

KINDS = {"kill": 0.3, "cut": 0.0, "hang": 1.5, "oom": 1.5, "readonly": 1.5, "loading": 1.5}
"""How Redis breaks, and for how many seconds."""
AT_WORK = 60
"""Commands of a worker that takes, runs and sends on; then it begins anew."""
STARTING = 80
"""Commands of a worker that starts."""
START_EVERY = 5
"""Each fault of this number meets a worker that starts."""
WITHIN = 20.0
"""Seconds in which a worker sends so many commands."""


class Broker(Fault):
    """Redis is killed, loses its connections, hangs, is full, is read-only or loads, before the
    n-th command of a worker: n = 1, 2, 3 …,
    while the worker is at work and while it starts.
    """

    def __init__(self) -> None:
        self._proxy: RedisProxy | None = None
        self._turns = {"at work": 0, "at the start": 0}

    def make(self, world: World) -> str:
        starts = sum(self._turns.values()) % START_EVERY == START_EVERY - 1
        where = "at the start" if starts else "at work"
        rounds, kind = divmod(self._turns[where], len(KINDS))
        self._turns[where] += 1
        how, number = list(KINDS)[kind], 1 + rounds % (STARTING if starts else AT_WORK)
        proxy, host = self._counted(world), world.worker()
        touched: list[Touched] = []
        if starts:
            owners = host.owners
            world.kill(host)
            touched = world.held_by(owners)
        host.broker.repoint(proxy.port)
        proxy.arm(number, how)
        with world.outage():
            if starts:
                world.start(host.name)
            proxy.broken.wait(WITHIN)
            world.ended.wait(KINDS[how])
            proxy.mend()
        host.broker.repoint(world.redis.port)  # what is counted next may be another worker's
        world.await_recovery("broker", touched, since=time.monotonic())
        return f"{how} {where}"

    def check(self, world: World) -> None:
        if self._proxy is not None:
            self._proxy.stop()

    def _counted(self, world: World) -> RedisProxy:
        if self._proxy is None:
            self._proxy = RedisProxy(world.redis)
            self._proxy.start()
        return self._proxy


FAULT = Broker()
