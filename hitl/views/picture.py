"""The picture of an order: its workflow, where its run stands in it, and where the time went."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from checkpoints.database import clock
from checkpoints.database.snapshot import one_moment
from hitl.decisions import services
from hitl.rendering.diagrams import graph, times, workflow
from hitl.rendering.diagrams.times import Moment, Span
from hitl.rendering.own_words import own as in_reader_words
from hitl.threads import time_spent
from hitl.views import family
from hitl.views.common import person
from hitl.views.threads.order_page import progress
from runs.definitions import pictures
from runs.models import Run, WorkOrder
from runs.states import COMPLETED, ENDED, LIVE
from runs.workflows.sequence import FrozenStep

CHILDREN = 40
"""Child runs that get a row of their own."""


@require_safe
@login_required
def order_picture(request: HttpRequest, order_id: uuid.UUID) -> HttpResponse:
    """Whoever sees an order sees its picture."""
    with one_moment():
        try:
            order = services.look_at_order(order_id, by=person(request))
        except services.NotFound as error:
            raise Http404(str(error)) from error
        return render(request, "hitl/orders/picture.html", _parts_of(order))


def _parts_of(order: WorkOrder) -> dict[str, object]:
    now, steps = clock.now(), order.definition.steps
    spent = time_spent.of_thread(order.thread_id, asked_at=order.created_at, now=now)
    own = spent.spans
    standing = workflow.standing_of(
        steps, progress(order), notes=_notes(steps, own), taken=_unshown(steps, spent.moments)
    )
    below = [run for run in family.family_of(order.latest_run) if run.thread_id != order.thread_id]
    endings = order.definition.content.get("endings", {})
    standing = replace(standing, steps={**standing.steps, **_ended(order, endings, below)})
    return {
        "order": order,
        "picture": workflow.draw(steps, standing, endings=endings),
        "graphs": graph.draw_all(pictures.of_steps(steps, order.latest_run)),
        "gantt": times.chart([*_rows(steps, own), *_children(below[:CHILDREN], now)]),
        "totals": [
            (what, times.NAMES[what], times.in_words(length))
            for what in times.WHATS
            if (length := times.total(own, what))
        ],
        "cut": spent.cut,
        "more_children": max(0, len(below) - CHILDREN),
    }


def _ended(
    order: WorkOrder, endings: Mapping[str, FrozenStep], below: Iterable[Run]
) -> dict[str, str]:
    """Where the steps stand that follow an end: as their runs do, if they have begun."""
    run = order.latest_run
    usual = "left" if run is not None and run.status in ENDED else "todo"
    begun = {each.child_name: ENDING_STATES[each.status] for each in below}
    return {step["name"]: begun.get(end, usual) for end, step in endings.items()}


ENDING_STATES: Mapping[str, str] = {
    COMPLETED: "done",
    **dict.fromkeys(LIVE, "now"),
    **family.STOPPED,
}


def _rows(steps: Sequence[FrozenStep], own: Iterable[Span]) -> list[tuple[str, list[Span]]]:
    """A row for each step that has begun, in the order of the template."""
    spans = list(own)
    titles = {step["name"]: in_reader_words(step["title"]) for step in steps}
    named = [*titles, *sorted({span.step for span in spans} - titles.keys())]
    rows = [(titles.get(name, name), [s for s in spans if s.step == name]) for name in named]
    return [(title or gettext("Not begun"), found) for title, found in rows if found]


def _children(runs: Sequence[Run], now: dt.datetime) -> list[tuple[str, Sequence[Span]]]:
    """A row for each child run."""
    return [
        (
            f"↳ {run.child_name}",
            time_spent.of_thread(run.thread_id, asked_at=run.created_at, now=now).spans,
        )
        for run in runs
    ]


def _notes(steps: Sequence[FrozenStep], own: Sequence[Span]) -> dict[str, str]:
    """What each step took, in words."""
    notes = {}
    for step in steps:
        parts = [
            f"{times.in_words(length)} {times.NAMES[what]}"
            for what in (times.WORK, times.PEOPLE, times.CHILDREN)
            if (length := times.total(own, what, step["name"]))
        ]
        notes[step["name"]] = ", ".join(parts)
    return notes


def _unshown(steps: Sequence[FrozenStep], moments: Sequence[Moment]) -> list[tuple[str, str]]:
    """Ways that the run went and the template does not show: a step named the next one itself."""
    shown, names = workflow.drawn_ways(steps), {step["name"] for step in steps}
    return [way for way in times.ways(moments) if way not in shown and names.issuperset(way)]
