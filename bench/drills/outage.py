"""Nothing runs for hours: all processes are stopped, and the times in the database moved back."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from bench.chaos.faults import Fault

if TYPE_CHECKING:
    from bench.chaos.world import World
    from bench.drills.world import Product

HOURS = 3
QUESTIONS = 5
"""For each outcome of a deadline."""
OUTCOMES = {"expire": "expired", "cancel": "cancelled", "approve": "answered"}
"""Outcome of a deadline → what its question is then."""
CRONS = {
    **{f"{rule} each quarter": "*/15 * * * *" for rule in ("latest", "all", "none")},
    **{f"{rule} each minute": "* * * * *" for rule in ("latest", "all")},
}
BOUND = {"latest": 1, "all": 10, "none": 1}
"""Rule of catching up → how many starts it allows; what is found within 5 minutes was not
missed.
"""
AN_HOUR = dt.timedelta(hours=1)
COLUMNS = """
SELECT table_name,
  string_agg(format('%%1$I = %%1$I - interval ''%%2$s hours''', column_name, %s::int), ', ')
    AS moves
FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND table_name LIKE 'runs\\_%%'
  AND data_type = 'timestamp with time zone' GROUP BY table_name
"""
ACTED = """
SELECT p.status::text,
  (SELECT count(*) FROM hitl_decision d WHERE d.pause_id = p.id) AS decisions,
  (SELECT count(*) FROM checkpoints_event e WHERE e.thread_id = r.thread_id
    AND e.kind IN ('run_expired', 'approval_received')) AS told,
  extract(epoch FROM p.closed_at - %s)::float AS after
FROM runs_pause p JOIN runs_run r ON r.id = p.run_id JOIN runs_workorder o ON o.id = r.work_order_id
WHERE o.title = ANY(%s)
"""


class Outage(Fault):
    """Three hours in which nothing ran. A schedule starts what its rule of catching up says, and a
    deadline acts once, as soon as somebody looks again.
    """

    def prepare(self, world: World) -> None:
        from bench.chaos import orders

        for outcome in OUTCOMES:
            review = {"deadline": {"after": "PT2H", "outcome": outcome}}
            orders.load_template(f"drill-{outcome}", 1, review)

    def make(self, world: World) -> str:
        from bench.chaos.world import patiently
        from bench.drills import schedules
        from bench.drills.world import PARTS, Product
        from checkpoints.database import clock
        from runs.models import Occurrence, Pause
        from tests.servers.stack import until

        assert isinstance(world, Product)
        schedules.make(world, CRONS)
        asked = {
            outcome: [world.order(f"drill-{outcome}") for _ in range(QUESTIONS)]
            for outcome in OUTCOMES
        }
        far = Pause.objects.open().filter(deadline_at__gt=patiently(clock.now) + AN_HOUR)
        until(lambda: far.count() == QUESTIONS * len(OUTCOMES), what="the questions")
        keys = list(far.values_list("pk", flat=True))
        with world.trouble("outage"):
            for name in reversed(PARTS):
                world.down(name)
            move_back()
            since = patiently(clock.now)
            for name in PARTS:
                world.up(name)
        left = Pause.objects.open().filter(pk__in=keys)
        until(lambda: not left.exists(), what="the deadlines")
        looked_at = Occurrence.objects.values("schedule").distinct()
        until(lambda: looked_at.count() == len(CRONS), what="the schedules")
        until(lambda: not Occurrence.objects.open().exists(), what="their starts")
        schedules.stop()
        started = schedules.count(world)
        for name, row in started.items():
            if row["started"] > BOUND[name.split()[0]] + 1:  # its next time may have come since
                world.breach("wrong", f"{name}: {row}")
        world.facts["schedules"] = started
        world.facts["deadlines"] = {
            outcome: acted(world, outcome, titles, since) for outcome, titles in asked.items()
        }
        return "hours"


def move_back() -> None:
    """As if so many hours had passed; ledger, log and checkpoints keep their times, which are part
    of what is sealed, and so do questions that were answered.
    """
    from bench.drills import schedules

    for table in schedules.rows(COLUMNS, HOURS):
        name = table["table_name"]
        still = "WHERE closed_at IS NULL" if name == "runs_pause" else ""
        schedules.rows(f"UPDATE {name} SET {table['moves']} {still} RETURNING 1")


def acted(world: Product, outcome: str, titles: list[str], since: dt.datetime) -> dict[str, Any]:
    """How many questions there were, and the seconds until their rules had acted; each but once."""
    from bench.drills import schedules

    rows = schedules.rows(ACTED, since, titles)
    expected = (OUTCOMES[outcome], int(outcome != "expire"), 1)
    for row in rows:
        if (row["status"], row["decisions"], row["told"]) != expected:
            world.breach("wrong", f"the deadline that says {outcome}: {row}")
    return {"questions": len(rows), "slowest": round(max(row["after"] for row in rows), 1)}


DRILL = Outage()
