"""Schedules of the drills, one for each rule of catching up, and what came of them by SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import Permission, User
from django.db import connection

from bench.chaos import orders

if TYPE_CHECKING:
    from bench.drills.world import Product

MOST = 10
"""Missed times that `all` starts."""
STARTS = """
SELECT s.name,
  (SELECT count(*) FROM runs_workorder w WHERE w.title = s.name) AS orders,
  (SELECT count(DISTINCT o.order_id) FROM runs_occurrence o WHERE o.schedule_id = s.id
     AND o.status = 'started') AS started,
  (SELECT coalesce(sum(o.count), 0) FROM runs_occurrence o WHERE o.schedule_id = s.id
     AND o.status = 'skipped') AS skipped,
  (SELECT count(*) FROM runs_occurrence o WHERE o.schedule_id = s.id
     AND o.status IN ('due', 'refused')) AS other,
  (SELECT count(*) FROM runs_occurrence o JOIN runs_workorder w ON w.id = o.order_id
     WHERE o.schedule_id = s.id AND w.created_at < o.at) AS early,
  (SELECT coalesce(max(extract(epoch FROM w.created_at - o.at)), 0) FROM runs_occurrence o
     JOIN runs_workorder w ON w.id = o.order_id WHERE o.schedule_id = s.id)::float AS latest
FROM runs_schedule s ORDER BY s.name
"""


def make(world: Product, crons: dict[str, str]) -> None:
    """Over REST, by name → cron; the name's first word is its rule of catching up."""
    owner = User.objects.get(username="ana")
    owner.user_permissions.add(Permission.objects.get(codename="add_schedule"))
    for name, cron in crons.items():
        body = {
            **{"name": name, "title": name, "template": orders.TEMPLATE, "input": {"crew": 2}},
            **{"cron": cron, "overlap": "allow", "catch_up": name.split()[0]},
            **{"catch_up_most": MOST, "team": "chaos"},
        }
        status, answer = world.stack.call("POST", "/api/v1/schedules", body, token=world.token)
        assert status == 201, answer


def stop() -> None:
    """No more starts: the drill comes to its end."""
    rows("UPDATE runs_schedule SET enabled = false, next_at = NULL RETURNING 1")


def count(world: Product) -> dict[str, dict[str, Any]]:
    """Orders, starts and skipped times of each schedule; what was doubled or early is a breach."""
    found = {row.pop("name"): row for row in rows(STARTS)}
    for name, row in found.items():
        if row["orders"] != row["started"] or row["other"]:
            world.breach("doubled", f"{name}: {row}")
        if row["early"]:
            world.breach("early", f"{name}: {row}")
        row["latest"] = round(row["latest"], 1)
    return found


def rows(statement: str, *values: Any) -> list[dict[str, Any]]:
    """What SQL finds, by the names of its columns."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
