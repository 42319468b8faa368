"""For operators: what waits, what works, what is stuck, and whether the promises hold."""

from __future__ import annotations

import uuid
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from checkpoints.database import clock
from checkpoints.state import codec
from checkpoints.text import dates
from hitl.models import Batch
from hitl.operations import changed_code, dashboard, failures, flow, health, invariants
from hitl.operations.failures import FailureFilter
from hitl.rendering.diagrams import bars
from hitl.rendering.paging import ListAddress
from hitl.views.common import person
from runs import services, tasks
from runs.models import Run
from runs.states import FailureCode

BATCHES, CODE = 10, ("template", "reason")
INCIDENTS = FailureFilter(code=FailureCode.INCIDENT, days=1)


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
    here = ListAddress(request.path, request.GET.dict()).only("stuck", "workers")
    lately = flow.lately(now=now)
    context = {
        "now": now,
        "parts": [*health.look_at_database(), *health.parts(["redis"])],
        "standing": dashboard.standing(now=now, here=here),
        "flow": lately,
        "charts": _charts(lately),
        "incidents": failures.groups(INCIDENTS, now=now),
        "code": changed_code.lines(),
        "batches": Batch.objects.defer("orders").order_by("-made_at")[:BATCHES],
        "results": results,
        "broken": broken,
    }
    return render(request, "hitl/operations/operations.html", context)


def _charts(lately: flow.Flow) -> dict[str, bars.Bars]:
    return {
        "ages": bars.chart(bars.Count(gettext(words), count) for words, count in lately.ages),
        "speeds": bars.chart(bars.Count(gettext(words), count) for words, count in lately.speeds),
        "days": bars.chart(
            bars.Count(dates.of_date(one.day), one.count, one.expired) for one in lately.days
        ),
    }


@login_required
@permission_required("runs.view_run", raise_exception=True)
@require_safe
def code(request: HttpRequest) -> HttpResponse:
    """The runs of one template, by `?template=`, whose code changed, is missing or holds them, by
    `?reason=`.
    """
    asked = {
        name: codec.readable(request.GET.get(name, "")[:80]) for name in ("template", "reason")
    }
    here = ListAddress(request.path, request.GET.dict()).only("template", "reason", "after")
    context = {**asked, "page": changed_code.listed(asked["template"], asked["reason"], here)}
    return render(request, "hitl/operations/code.html", context)


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
    run = get_object_or_404(Run.objects.select_related("definition"), pk=run_id)
    try:
        services.accept_code(run_id, by=person(request))
    except services.NotHeld as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, gettext("The run continues with the current code."))
    held = {"template": run.definition.template_slug, "reason": changed_code.HELD}
    return redirect(f"{reverse('hitl:code')}?{urlencode(held)}")
