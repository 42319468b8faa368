"""Redis is read-only: a replica of a primary that nobody reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import redis

from bench.chaos.faults import Fault
from bench.drills import SECONDS

if TYPE_CHECKING:
    from bench.chaos.world import World

NOBODY = ("127.0.0.1", "1")


class ReadonlyRedis(Fault):
    """Every command of Redis that writes is refused, as after a failover that did not end."""

    def make(self, world: World) -> str:
        from bench.drills.world import Product

        assert isinstance(world, Product)
        with redis.Redis.from_url(world.redis.url) as server:
            with world.trouble("readonly_redis"):
                server.execute_command("REPLICAOF", *NOBODY)
                world.endure(SECONDS)
                server.execute_command("REPLICAOF", "NO", "ONE")
            refused = server.info("errorstats").get("errorstat_READONLY", {}).get("count", 0)
        world.facts["commands_refused_by_redis"] = int(refused)
        return "read-only"


DRILL = ReadonlyRedis()
