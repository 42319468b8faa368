"""What pages and requests cost in calls of functions, queries and bytes, over 600 questions and
over 60 000: neither may depend on how many there are, and no machine's noise touches either.

Each face has its bar. `tests/hitl/views/test_faces.py` holds what they come to today.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib.auth.models import User
from django.db import connection

from bench import pages, workload
from bench.workload import figure
from runs.models import WorkOrder
from tests.databases import cleaning
from tests.doors.faces import Cost, counted, faces

FEW, MANY = 600, 60_000
EVEN = 0.05
"""So much more, as a share, calls may be over many rows."""


def measure() -> Iterator[dict[str, Any]]:
    few, many = costs_over(FEW), costs_over(MANY)
    for name, (cost, bar) in many.items():
        less = few[name][0]
        even = abs(cost.calls - less.calls) <= EVEN * less.calls
        yield {
            **figure(f"{name}: calls", cost.calls, "calls", bar=bar.calls),
            "met": cost.calls <= bar.calls and cost.queries <= bar.queries and even,
            "queries": cost.queries,
            "bar_queries": bar.queries,
            "bytes": cost.bytes,
            f"calls_over_{FEW}": less.calls,
        }


def costs_over(number: int) -> dict[str, tuple[Cost, Cost]]:
    """Face → what it costs with so many open questions, and its bar."""
    cleaning.empty(["default"])
    workload.load()
    User.objects.create_user("bench")
    pages.generate(threads=number, each=7, orders=number * 5 // 6)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    reader, root = (User.objects.get(username=name) for name in ("reader", "root"))
    order = WorkOrder.objects.get(title=f"Order {number // 2}")
    return {
        face.name: (counted(face), face.bar) for face in faces(reader, root, order, "bench-ask")
    }
