"""Redis has no room: `maxmemory` is reached, and nothing may be evicted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import redis

from bench.chaos.faults import Fault
from bench.drills import SECONDS

if TYPE_CHECKING:
    from bench.chaos.world import World


class FullRedis(Fault):
    """Every command of Redis that needs memory is refused."""

    def make(self, world: World) -> str:
        from bench.drills.world import Product

        assert isinstance(world, Product)
        with redis.Redis.from_url(world.redis.url) as server:
            server.config_set("maxmemory-policy", "noeviction")
            with world.trouble("redis_full"):
                server.config_set("maxmemory", 1)
                world.endure(SECONDS)
                refused = int(server.info("errorstats").get("errorstat_OOM", {}).get("count", 0))
                server.config_set("maxmemory", 0)
        world.facts["commands_refused_by_redis"] = refused
        return "full"


DRILL = FullRedis()
