"""Two lists, never mixed: what waits for you, and what was decided."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from checkpoints.models import Thread
from hitl.models import Decision
from hitl.views.common import person
from runs.models import Pause
from runs.states import PauseKind

SHOWN = 100
KINDS = {
    "": "All",
    PauseKind.APPROVAL: "Approvals",
    PauseKind.INPUT: "Data",
    PauseKind.TOOLS: "Tool calls",
    PauseKind.EXTERNAL: "Wait gates",
}
WHOSE = ("run__work_order", "run__thread__team", "run__thread__owner", "run__definition", "run__parent")
"""Whose question it is: an order's, a child run's, a thread's."""


def waiting_for(user: User, kind: str = "") -> list[Pause]:
    """The oldest questions for a person: found first, then read with what belongs to them, since so many joins are planned badly."""
    mine = Pause.objects.waiting_for(user).filter(**({"kind": kind} if kind else {}))
    oldest = list(mine.order_by("id").values_list("pk", flat=True)[:SHOWN])
    return list(Pause.objects.filter(pk__in=oldest).shown().select_related(*WHOSE).order_by("id"))


@require_safe
@login_required
def inbox(request: HttpRequest) -> HttpResponse:
    """The inbox; with `?live` only the part that changes, with `?kind=` only what wants that."""
    mine = Thread.objects.visible_to(person(request))
    kind = request.GET.get("kind", "")
    context = {
        "waiting": waiting_for(person(request), kind if kind in PauseKind.values else ""),
        "kind": kind,
        "kinds": KINDS,
        "history": Decision.objects.filter(pause__run__thread__in=mine)
        .select_related("decided_by", *(f"pause__{name}" for name in WHOSE))
        .order_by("-id")[:30],
    }
    return render(request, "hitl/_inbox.html" if "live" in request.GET else "hitl/inbox.html", context)
