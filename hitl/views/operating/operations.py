"""For operators: what waits, what works, what is stuck, and whether the promises hold."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from checkpoints.database import clock
from hitl.models import Batch
from hitl.operations import dashboard, flow, health, invariants
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress
from hitl.views.common import person
from runs import services, tasks
from runs.definitions import compatibility
from runs.models import Run

HELD, BATCHES = 50, 10
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
        "parts": [*health.look_at_database(), *health.parts(["redis"])],
        "standing": dashboard.standing(now=now, here=here),
        "flow": flow.lately(now=now),
        "batches": Batch.objects.defer("orders").order_by("-made_at")[:BATCHES],
        "results": results,
        "broken": broken,
        **code,
    }
    return render(request, "hitl/operations/operations.html", context)


@login_required
@permission_required("runs.change_run", raise_exception=True)
@require_POST
def sweep(request: HttpRequest) -> HttpResponse:
    """Take lost runs back and send messages again now, as beat has workers do: also where neither
    does.
    """
    tasks.sweep()
    messages.success(
        request,
        gettext(
            "What was lost was taken back, and what is due was sent to the workers again. What "
            "stays here has no worker that serves its queue."
        ),
    )
    return redirect(f"{reverse('hitl:operations')}#stuck")


@login_required
@permission_required("runs.change_run", raise_exception=True)
@require_POST
def send_again(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """Do the same for one run; who came from the page of an order that says why goes back there."""
    run = get_object_or_404(Run, pk=run_id)
    try:
        sent = tasks.send_again(run.pk)
    except tasks.BrokerAway:
        messages.error(
            request,
            gettext("The broker does not answer. The message is sent when it is back; see below."),
        )
    else:
        words = (
            gettext("%(run)s was sent to the workers of the queue %(queue)s again.")
            if sent
            else gettext("%(run)s needs no message: no worker could take it up now.")
        )
        messages.success(request, words % {"run": run.shown_id, "queue": run.queue})
    if "order" in request.POST and run.work_order_id is not None:
        return redirect("hitl:order_why", run.work_order_id)
    return redirect(f"{reverse('hitl:operations')}#stuck")


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
