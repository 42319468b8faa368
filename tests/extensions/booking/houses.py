"""A house with books, suppliers and purchase orders."""

from __future__ import annotations

import pytest

from extensions.booking.outcomes import WORDS
from extensions.booking.state import REJECTED
from hitl.models import Decision
from runs.models import Pause, WorkOrder
from tests.worlds.books.booking import House, state_of


@pytest.fixture
def house(make_order, settings, tmp_path, ana):
    settings.WAYSTATION_SHARED = tmp_path / "shared"
    settings.WAYSTATION_FILES = [tmp_path / "inbox"]
    made = House(make_order, tmp_path, ana)
    yield made
    ends_truly(made)


def ends_truly(house: House) -> None:
    """Assert, after each test too, that each completed booking has an entry in the ledger, or a
    person's decision that there shall be none, and says which; and that each other booking is a
    question or a failure, with its reason.
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
        assert order.outputs["conclusion"] == WORDS[state_of(order)["outcome"]]
        assert order.shown_id in booked or order.outputs["conclusion"] == WORDS[REJECTED]
    for order in WorkOrder.objects.shown().exclude(latest_run__status="completed"):
        run = order.latest_run
        if run.status == "failed":
            assert run.error and run.failure_code, f"{order.shown_id} failed without a word"
        for pause in Pause.objects.open().filter(run__thread=order.thread_id):
            assert pause.question and pause.content and pause.answers
