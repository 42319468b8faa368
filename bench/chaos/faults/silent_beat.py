"""The host of beat vanishes without closing its connections, and comes back when another one has
taken its place.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.chaos.faults import Fault

if TYPE_CHECKING:
    from bench.chaos.world import World

STARTS = 15.0
"""Seconds that a new beat and a new worker get to start."""
BESIDE = 5.0
"""Seconds in which two of them send rounds."""


class SilentBeat(Fault):
    """The host of beat falls silent, and a worker is killed: for a lease nobody sends rounds, so
    nobody takes back what that worker had, and all else goes on. Then another beat begins. The
    silent one comes back with what it had to say, and for some seconds there are two. Promised:
    within two leases of the new beat's start the worker's runs go on; late rounds and those of two
    do nothing twice.
    """

    def prepare(self, world: World) -> None:
        from bench.chaos.namespaces import Namespace

        world.namespaces = Namespace.possible()

    def make(self, world: World) -> str:
        silent, worker, lease = world.hosts["beat"], world.worker(), world.lease
        owners = worker.owners
        silent.silence()
        world.kill(worker)
        touched = world.held_by(owners)
        world.await_recovery("silent_beat", since=time.monotonic(), others=lease, watch=lease)
        for name in ("beat", worker.name):
            world.start(name)
        world.await_recovery(
            "silent_beat", touched, since=time.monotonic(), affected=2 * lease + STARTS
        )
        silent.heal()
        world.await_recovery("silent_beat", since=time.monotonic(), others=lease, watch=BESIDE)
        world.kill(silent)
        return "back beside another"


FAULT = SilentBeat()
