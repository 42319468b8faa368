"""Beat is dead for minutes, then two beats are there at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.chaos.faults import Fault
from bench.drills import SECONDS

if TYPE_CHECKING:
    from bench.chaos.world import World
    from bench.drills.world import Product

TOGETHER = 30.0
"""Seconds with two beats."""
TEMPLATE, AFTER, EVERY = "drill-silence", "PT15S", 5.0
"""Whose question has a deadline, after how long, and how many seconds there are between two."""
DEADLINES = """
SELECT count(*) AS due,
  count(*) FILTER (WHERE status = 'expired') AS expired,
  count(*) FILTER (WHERE status = 'expired' AND closed_at < deadline_at) AS early,
  coalesce(max(extract(epoch FROM closed_at - deadline_at))
    FILTER (WHERE status = 'expired'), 0)::float AS latest,
  (SELECT count(*) FROM (SELECT thread_id FROM checkpoints_event WHERE kind = 'run_expired'
    GROUP BY thread_id HAVING count(*) > 1) AS twice) AS doubled
FROM runs_pause WHERE deadline_at BETWEEN %s AND %s AND status IN ('open', 'expired')
"""


class SilentBeat(Fault):
    """Nobody orders rounds: deadlines and schedules are late by as much, and by no more."""

    def prepare(self, world: World) -> None:
        from bench.chaos import orders

        orders.load_template(TEMPLATE, 1, {"deadline": {"after": AFTER, "outcome": "expire"}})

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
            self._ask(world, SECONDS)
            world.up("beat")
            second = world.stack.beat()
        back = patiently(clock.now)
        self._ask(world, TOGETHER)
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

    def _ask(self, world: Product, seconds: float) -> None:
        """Questions that nobody answers, all the while."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            world.order(TEMPLATE)
            world.endure(min(EVERY, left))


DRILL = SilentBeat()
