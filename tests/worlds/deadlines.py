"""Orders whose first step asks under rules of the test's own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from checkpoints.models import Event
from hitl.decisions.deadlines import outcomes, reminding
from runs import definitions
from runs.models import Pause, WorkOrder
from tests.conftest import drive
from tests.worlds.people import hire

HOUR = dt.timedelta(hours=1)


@pytest.fixture
def asked(make_order: Callable[..., WorkOrder]) -> Callable[..., WorkOrder]:
    """`asked(deadline={"after": "PT4H"}, reminders=[…])`: an order that waits at a step with these
    rules; `step` is more of that step.
    """

    def make(*, step: dict[str, Any] | None = None, **review: Any) -> WorkOrder:
        first = {
            "step_type": "planning",
            "step_template_slug": "test-plan",
            "pause_after": True,
            "pause_phase": "awaiting_plan_approval",
        }
        last = {"step_type": "deliver", "name": "finish", "step_template_slug": "test-finish"}
        steps = [{**first, "review": review, **(step or {})}, last]
        hire(review)
        definitions.edit_template("ruled", steps=steps, title="Ruled", needs_repository=False)
        return drive(make_order("ruled"))

    return make


def fire(pause_id: Any, *, now: dt.datetime) -> None:
    """Let the rules of one question act, if it is due; raises PauseClosed where somebody was
    faster.
    """
    pause = Pause.objects.due(now=now).answerable().filter(pk=pause_id).first()
    if pause is not None:
        outcomes.fire(pause, now=now, asked=reminding.People())


def updates(order: WorkOrder) -> list[dict[str, Any]]:
    """What the log tells of a question's times."""
    return [
        event.data
        for event in Event.objects.filter(thread=order.thread_id, kind="pause_updated").order_by(
            "seq"
        )
    ]


def at(pause: Pause, hours: float) -> dt.datetime:
    return pause.opened_at + hours * HOUR


def overdue(pause: Pause, *, by: dt.timedelta = HOUR) -> Pause:
    """The question, as if it had been opened so long ago that its deadline has passed by that; no
    sweep has looked since.
    """
    assert pause.deadline_at is not None and pause.extendable_until is not None  # it has one
    back = pause.deadline_at - (timezone.now() - by)
    moved = {
        name: getattr(pause, name) - back
        for name in ("opened_at", "deadline_at", "extendable_until")
    }
    Pause.objects.filter(pk=pause.pk).update(**moved, next_at=moved["deadline_at"])
    return Pause.objects.get(pk=pause.pk)
