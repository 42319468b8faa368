"""How long the step of a run works already, and how long it may."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from checkpoints.models import Event, EventKind
from runs.engine import time_limit
from runs.models import Run
from runs.states import RUNNING


@dataclass(frozen=True, kw_only=True)
class AtWork:
    """A step while it works."""

    since: dt.datetime
    until: dt.datetime
    """When its time is up, at the latest."""


def at_work(run: Run | None) -> AtWork | None:
    """The times of the step that a run is at; None where none works, or its beginning is not known
    any more.
    """
    if run is None or run.status != RUNNING:
        return None
    began = (
        Event.objects.filter(thread_id=run.thread_id, run_id=run.pk, kind=EventKind.STEP_STARTED)
        .order_by("-seq")
        .first()
    )
    if began is None or not isinstance(began.data, dict):
        return None
    name = began.data.get("step")
    for step in run.definition.steps:
        if step["name"] == name:
            until = began.at + dt.timedelta(seconds=time_limit.limit_of(step))
            return AtWork(since=began.at, until=until)
    return None
