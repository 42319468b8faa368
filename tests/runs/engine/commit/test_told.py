"""What watchers are told at once, beside what the log tells them later."""

from __future__ import annotations

from typing import Any

import pytest

from checkpoints.events import live, log
from runs.engine.advance import advance
from runs.workflows.base import Go
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db(transaction=True)


def test_events_have_the_same_times_live_and_in_the_log(order_that, monkeypatch):
    """P9: on SQLite they had the time at which they were announced, and that of their rows."""
    told: list[Any] = []
    monkeypatch.setattr(
        live, "send_on_commit", lambda group, message: told.extend(message.get("events", []))
    )
    order = order_that(lambda state, context: Go(update={"n": 1}))
    told.clear()
    assert advance(order.latest_run.pk, budget=60) == []
    kept = {event["seq"]: event for event in log.told_after(order.thread_id, 0)}
    assert len(told) > 3
    assert told == [kept[event["seq"]] for event in told]
