"""For operators: what failed, where in the code, and going on with many orders at once."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_safe

from checkpoints import ids
from checkpoints.database import clock
from hitl.operations import failures
from hitl.rendering.paging import ListAddress
from hitl.views.common import person
from runs.models import Run, StepTraceback, Template, WorkOrder
from runs.states import FAILED

TRACEBACK = "runs.view_steptraceback"


@login_required
@permission_required("runs.view_run", raise_exception=True)
@require_safe
def failure_list(request: HttpRequest) -> HttpResponse:
    """Newest first; `?code=`, `?template=` and `?days=` choose, `?before=<id>` gives the next
    page.
    """
    now, chosen = clock.now(), failures.FailureFilter.read(request.GET.dict())
    here = ListAddress(request.path, request.GET.dict()).only("code", "template", "days", "before")
    page = failures.listed(chosen, here, now=now)
    context = {
        "chosen": chosen,
        "groups": failures.groups(chosen, now=now),
        "page": page,
        "rows": [(run, failures.stopped_at(run)) for run in page.rows],
        "templates": Template.objects.current().order_by("slug").values_list("slug", flat=True),
        "days": failures.DAYS,
        "most": failures.MOST,
    }
    return render(request, "hitl/operations/failures.html", context)


@login_required
@permission_required("runs.view_run", raise_exception=True)
@require_safe
def failure(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """One failed run: its words and code, the step, and for holders of the right the traceback."""
    run = (
        Run.objects.select_related("thread__head", "work_order", "definition")
        .filter(pk=run_id, status=FAILED)
        .first()
    )
    if run is None:
        raise Http404("There is no such failed run.")
    may_read = person(request).has_perm(TRACEBACK)
    context = {
        "run": run,
        "step": failures.stopped_at(run),
        "may_read": may_read,
        "trace": StepTraceback.objects.filter(run=run).first() if may_read else None,
    }
    return render(request, "hitl/operations/failure.html", context)


@login_required
@permission_required("runs.change_run", raise_exception=True)
@require_http_methods(["GET", "HEAD", "POST"])
def failures_retry(request: HttpRequest) -> HttpResponse:
    """GET shows what would go on: `?order=<id>`, any number of times, or all that a filter of the
    list chooses; only POST retries.
    """
    try:
        orders = [
            ids.parse(WorkOrder.PREFIX, value)
            for value in (request.POST or request.GET).getlist("order")
        ]
    except ValueError as error:
        messages.info(request, gettext("%(error)s. Nothing was retried.") % {"error": error})
        return redirect("hitl:failures")
    if request.method == "POST":
        results = failures.retry(orders, by=person(request))
        begun = sum(1 for result in results if result.run)
        return render(
            request, "hitl/operations/failures_retried.html", {"results": results, "begun": begun}
        )
    if "all" in request.GET:
        chosen = failures.FailureFilter.read(request.GET.dict())
        orders = failures.orders_of(chosen, now=clock.now())
    shown = failures.preview(orders)
    if not shown:
        messages.info(request, gettext("Choose orders first. Nothing was retried."))
        return redirect("hitl:failures")
    return render(
        request, "hitl/operations/failures_retry.html", {"orders": shown, "most": failures.MOST}
    )
