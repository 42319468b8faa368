"""Two lists, never mixed: what waits for you, and what was decided."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from checkpoints.models import Thread
from hitl.models import Decision
from hitl.views.common import person
from runs.models import Pause

SHOWN = 100


@require_safe
@login_required
def inbox(request: HttpRequest) -> HttpResponse:
    """The inbox; with `?live` only the part that changes."""
    mine = Thread.objects.visible_to(person(request))
    context = {
        "waiting": Pause.objects.open().visible_to(person(request)).shown().order_by("id")[:SHOWN],
        "history": Decision.objects.filter(pause__run__thread__in=mine)
        .select_related("decided_by", "pause__run__work_order")
        .order_by("-id")[:30],
    }
    return render(request, "hitl/_inbox.html" if "live" in request.GET else "hitl/inbox.html", context)
