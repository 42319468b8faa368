"""The rows of a timeline say what is."""

from __future__ import annotations

from django.utils import timezone

from checkpoints.models import Event
from hitl.views.threads.timeline import TimelineRows


def rows(*events):
    """Newest first, as a page has them."""
    made = [
        Event(seq=number, kind=kind, data=data, at=timezone.now())
        for number, (kind, data) in enumerate(events, start=1)
    ]
    return TimelineRows(of_order=True).html(reversed(made))


def asked(step, kind="input"):
    question = {"step": step, "kind": kind, "prompt": "Which city?"}
    return [
        ("await_human_input", {**question, "told_as": "approval_requested"}),
        ("approval_requested", question),
    ]


def test_a_step_that_asks_for_data_is_not_told_as_finished():
    """Issue 36: "Form finished" stood above the open question of Form."""
    shown = rows(("step_completed", {"step": "form"}), *asked("form"))
    assert "Form asked for data" in shown and "Form finished" not in shown


def test_a_step_before_a_review_and_one_before_another_step_that_asks_are_finished():
    shown = rows(("step_completed", {"step": "plan"}), *asked("plan", "approval"))
    assert "Plan finished" in shown
    shown = rows(
        ("step_completed", {"step": "draft"}),
        ("step_completed", {"step": "form"}),
        *asked("form"),
    )
    assert "Draft finished" in shown and "Form asked for data" in shown
