"""A house with books, suppliers and purchase orders."""

from __future__ import annotations

import pytest

from hitl.models import Decision
from runs.models import WorkOrder
from tests.worlds.books.booking import House


@pytest.fixture
def house(make_order, settings, tmp_path, ana):
    settings.WAYSTATION_SHARED = tmp_path / "shared"
    settings.WAYSTATION_FILES = [tmp_path / "inbox"]
    made = House(make_order, tmp_path, ana)
    yield made
    ends_truly(made)


def ends_truly(house: House) -> None:
    """Assert, after each test too, that each completed booking has an entry in the ledger, or a
    person's decision that there shall be none.
    """
    booked = house.entered | {row.get("order", "") for row in house.ledger()}
    for order in WorkOrder.objects.shown().filter(latest_run__status="completed"):
        decisions = Decision.objects.filter(pause__run__thread=order.thread_id)
        against = [
            one
            for one in decisions
            if one.action == "reject"
            or (one.payload or {}).get("amounts") == "reject"
            or (one.payload or {}).get("refuse")
        ]
        assert order.shown_id in booked or against, f"{order.shown_id} ended without a word"
