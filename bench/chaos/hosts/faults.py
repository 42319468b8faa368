"""What breaks where databases and Redis are hosts, too."""

from __future__ import annotations

import itertools
import os
import signal
import time
from typing import TYPE_CHECKING

from django.db import connection

from bench.chaos.faults import Fault
from bench.chaos.wire import Weather

if TYPE_CHECKING:
    from bench.chaos.hosts.world import Hosts
    from bench.chaos.world import World

STORM = Weather(delay=0.02, loss=0.03)
"""Of each of three cables, in both directions."""
HELD = 15.0
"""Seconds of slow cables, and of a Redis that hangs: longer than a lease of nine seconds, and than
what any call to it is given.
"""
AFTER = 10.0
"""Seconds in which everybody is watched after Redis is back: what it lost is missed later."""
WITHIN = 30.0
"""Seconds in which a worker takes a step."""
LOCKED = """
SELECT pause.id FROM runs_pause AS pause JOIN pg_stat_activity AS session
ON pause.xmax = session.backend_xid WHERE session.state = 'idle in transaction'
"""


class CutOff(Fault):
    """A worker is cut off in the middle of a step for longer than its lease. The step goes on to
    its end, and the worker comes back with what it had to say. Promised: all else goes on within
    one lease, what it had within two.
    """

    only_hosts = True

    def make(self, world: World) -> str:
        host = world.worker()
        wanted, lingers = (world.folder / f"{name}-{host.name}" for name in ("linger", "lingers"))
        owners = host.owners
        wanted.touch()
        end = time.monotonic() + WITHIN
        while not lingers.exists() and time.monotonic() < end and not world.ended.wait(0.05):
            pass
        caught = lingers.exists()
        host.silence()
        since, touched = time.monotonic(), world.held_by(owners)
        world.note_held(touched, _locked())
        world.await_recovery(
            "cut_off",
            touched,
            since=since,
            others=world.lease,
            affected=2 * world.lease,
            watch=1.5 * world.lease,
        )
        for file in (wanted, lingers):
            file.unlink(missing_ok=True)  # the step goes on, and finds nobody
        world.ended.wait(1)
        host.heal()
        return "in a step" if caught else "at rest"


def _locked() -> bytes:
    """The keys of the questions that sessions hold which say nothing more, one behind the other.

    A worker tells reviewers of a question, too: that it is cut off there has nothing to do with its
    runs, and whoever answers that question waits for the server to end the session.
    """
    with connection.cursor() as cursor:
        cursor.execute(LOCKED)
        return b"".join(key.bytes for (key,) in cursor.fetchall())


class SlowNetwork(Fault):
    """The cables of the primary, of Redis and of a worker take 20 ms more in each direction, and
    lose three packets of a hundred. All goes on meanwhile.
    """

    only_hosts = True

    def make(self, world: World) -> str:
        hosts = _hosts(world)
        since = time.monotonic()
        hosts.set_weather(STORM)
        try:
            # nobody is excused: a slow network is no outage
            world.await_recovery("slow_network", since=since, watch=HELD)
        finally:
            hosts.set_weather(None)
        return "slow and lossy"


class Failover(Fault):
    """The primary's host vanishes without a word, and its synchronous standby is promoted; all find
    it by themselves, from an address that names both. Nothing acknowledged is lost. Counted from
    the moment in which the primary is lost.
    """

    only_hosts = True

    def make(self, world: World) -> str:
        places = _hosts(world).places
        places.add_standby()
        world.ended.wait(2)  # work goes on, and every commit waits for both
        touched = world.running()
        with world.outage():
            since = time.monotonic()
            places.lose_primary()
            places.promote()
            world.postgresql = places.postgresql
            world.note_silence(touched, since=since)
            world.await_recovery("failover", touched, since=since)
            places.bring_back()
        return "promoted"


class RedisHangs(Fault):
    """Redis stands still for 15 seconds, with its connections open, and goes on as if nothing had
    been. Counted from there.
    """

    only_hosts = True

    def make(self, world: World) -> str:
        assert world.redis.process is not None
        with world.outage():
            os.kill(world.redis.process.pid, signal.SIGSTOP)
            world.ended.wait(HELD)
            os.kill(world.redis.process.pid, signal.SIGCONT)
            world.await_recovery("redis_hangs", since=time.monotonic(), watch=AFTER)
        return "stopped"


class RedisEmpty(Fault):
    """Redis loses all that is in it, while it runs (FLUSHALL) or by a restart."""

    only_hosts = True

    def __init__(self) -> None:
        self._kinds = itertools.cycle(("flushed", "restarted"))

    def make(self, world: World) -> str:
        import redis

        kind = next(self._kinds)
        with world.outage():
            if kind == "flushed":
                with redis.Redis.from_url(world.redis.url) as server:
                    server.flushall()
            else:
                world.redis.kill()
                world.redis.start()
        world.await_recovery("redis_empty", since=time.monotonic(), watch=AFTER)
        return kind


def _hosts(world: World) -> Hosts:
    from bench.chaos.hosts.world import Hosts

    assert isinstance(world, Hosts)
    return world


FAULTS: dict[str, Fault] = {
    "cut_off": CutOff(),
    "slow_network": SlowNetwork(),
    "failover": Failover(),
    "redis_hangs": RedisHangs(),
    "redis_empty": RedisEmpty(),
}
ALL = (*FAULTS, "clocks")
"""What `make hosts` breaks, each once."""
