"""PostgreSQL's disk has no room; the fault `disk` of `bench.chaos`, for minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.chaos.faults.disk import Disk
from bench.drills import SECONDS

if TYPE_CHECKING:
    from bench.chaos.world import World


class FullDisk(Disk):
    """Not a page more can be written to the database's tables, and all can be read."""

    def make(self, world: World) -> str:
        from bench.drills.world import Product

        assert isinstance(world, Product)
        assert world.disk is not None
        with world.trouble("disk_full"):
            world.disk.fill()
            world.endure(SECONDS)
            world.disk.make_room()
        return "full"


DRILL = FullDisk()
