"""Many rows like one, without what makes them: for lists, pages and how much they cost."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User

from checkpoints import ids
from runs.models import Pause, Run, WorkOrder
from tests.conftest import pause_of


class World:
    """Ana and Ben, and an order of hers that waits; then more rows like those."""

    def __init__(
        self, ana: User, ben: User, order: WorkOrder, make_order: Callable[..., WorkOrder]
    ) -> None:
        self.ana, self.ben, self.order, self.make_order = ana, ben, order, make_order
        self.pause = pause_of(order)

    def copies(self, row: Any, count: int, **changes: Any) -> list[Any]:
        """More rows like one; a callable change is called with the number."""
        made = []
        for number in range(count):
            values = {
                field.attname: getattr(row, field.attname)
                for field in row._meta.concrete_fields
                if field.attname != "id"
            }
            values |= {
                name: value(number) if callable(value) else value for name, value in changes.items()
            }
            if isinstance(row.pk, uuid.UUID):
                values.setdefault("id", ids.new())
            made.append(type(row)(**values))
        return list(type(row).objects.bulk_create(made))

    def runs(self, count: int, **changes: Any) -> list[Run]:
        """Runs on threads of their own."""
        run = self.order.latest_run
        assert run is not None
        made = self.copies(self.order.thread, count, title=lambda n: f"Thread {n}", head_id=None)
        return self.copies(
            run, count, thread_id=lambda n: made[n].pk, work_order_id=None, **changes
        )

    def asked(self, count: int, **changes: Any) -> list[Pause]:
        made = self.runs(count)
        return self.copies(
            self.pause,
            count,
            run_id=lambda n: made[n].pk,
            question=lambda n: f"Question {n}?",
            **changes,
        )
