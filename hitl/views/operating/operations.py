"""For operators: what waits, what works, what is stuck, and whether the promises hold."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from checkpoints.database import clock
from hitl.operations import dashboard, invariants
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress
from hitl.views.common import person
from runs import services
from runs.definitions import compatibility
from runs.models import Run

HELD = 50
OLDEST = paging.ListOrder(prefix=Run.PREFIX)


@login_required
@permission_required("runs.view_run", raise_exception=True)
@require_safe
def operations(request: HttpRequest) -> HttpResponse:
    """`?invariants` also asks the database whether each invariant holds, which reads whole
    tables.
    """
    now = clock.now()
    results = list(invariants.check(now=now)) if "invariants" in request.GET else None
    broken = [result for result in results or () if result.count]
    here = ListAddress(request.path, request.GET.dict()).only(
        "held", "stuck", "incidents", "workers"
    )
    held = paging.in_order(compatibility.held(), OLDEST, here, "held", size=HELD, anchor="code")
    code = {"held": held, "changed": compatibility.report(verdicts=sorted(compatibility.BAD))}
    context = {
        "now": now,
        "standing": dashboard.standing(now=now, here=here),
        "results": results,
        "broken": broken,
        **code,
    }
    return render(request, "hitl/operations/operations.html", context)


@login_required
@permission_required("runs.change_run", raise_exception=True)
@require_POST
def accept_code(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """Let a run that is held go on with the changed code of its next step."""
    get_object_or_404(Run, pk=run_id)
    try:
        services.accept_code(run_id, by=person(request))
    except services.NotHeld as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, gettext("The run continues with the current code."))
    return redirect("hitl:operations")
