"""Where a question and a run are shown: the addresses of their pages."""

from __future__ import annotations

from django.urls import reverse

from runs.models import Pause, Run


def root_of(run: Run) -> Run:
    """The run for which, in the end, a child run works; a run that is nobody's child is its own."""
    while run.parent is not None:
        run = run.parent
    return run


def home_of(run: Run) -> str:
    """The address of the page that shows a run: its order's, else its thread's."""
    if run.work_order_id is not None:
        return reverse("hitl:order", args=[run.work_order_id])
    return reverse("hitl:thread", args=[root_of(run).thread_id])


def place_of(pause: Pause) -> str:
    """The address of a question.

    That of a child run names it, since others of the same order may be open.
    """
    home = home_of(pause.run)
    return f"{home}?pause={pause.shown_id}" if pause.run.parent_id is not None else home
