"""Beat is dead for minutes, then two beats are there at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.chaos.faults import Fault
from bench.drills import SECONDS

if TYPE_CHECKING:
    from bench.chaos.world import World

TOGETHER = 30.0
"""Seconds with two beats."""
DEADLINES = """
SELECT count(*) AS due,
  count(*) FILTER (WHERE status = 'expired') AS expired,
  count(*) FILTER (WHERE status = 'expired' AND closed_at < deadline_at) AS early,
  coalesce(max(extract(epoch FROM closed_at - deadline_at))
    FILTER (WHERE status = 'expired'), 0)::float AS latest,
  (SELECT count(*) FROM (SELECT thread_id FROM checkpoints_event WHERE kind = 'run_expired'
    GROUP BY thread_id HAVING count(*) > 1) AS twice) AS doubled
FROM runs_pause WHERE deadline_at BETWEEN %s AND %s
"""


class SilentBeat(Fault):
    """Nobody orders rounds: deadlines and schedules are late by as much, and by no more."""

    def make(self, world: World) -> str:
        from bench.chaos.world import patiently
        from bench.drills import schedules
        from bench.drills.world import Product
        from checkpoints.database import clock

        assert isinstance(world, Product)
        schedules.make(world, {f"{rule} each minute": "* * * * *" for rule in ("latest", "all")})
        began = patiently(clock.now)
        with world.trouble("silent_beat"):
            world.down("beat")
            world.endure(SECONDS)
            world.up("beat")
            second = world.stack.beat()
        back = patiently(clock.now)
        world.endure(TOGETHER)
        time.sleep(max(0.0, 15 - time.time() % 60))  # no schedule's minute has just begun
        world.stack.kill(second)
        schedules.stop()
        (alone,) = schedules.rows(DEADLINES, began, back)
        (both,) = schedules.rows(DEADLINES, back, patiently(clock.now))
        for row in (alone, both):
            row["latest"] = round(row["latest"], 1)
            for kind in ("early", "doubled"):
                if row[kind]:
                    world.breach(kind, f"deadlines: {row}")
        world.facts |= {
            "deadlines_without_beat": alone,
            "deadlines_with_two": both,
            "schedules": schedules.count(world),
        }
        return "back, and another one beside it"


DRILL = SilentBeat()
