"""For operators: what failed, and where in the code."""

from __future__ import annotations

import uuid

from django.contrib.auth.decorators import login_required, permission_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from checkpoints.database import clock
from hitl.operations import batches, failures
from hitl.rendering.paging import ListAddress
from hitl.views.common import person
from runs.models import Run, StepTraceback, Template
from runs.states import FAILED


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
        "most": batches.MOST,
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
        raise Http404(gettext("There is no such failed run."))
    may_read = person(request).has_perm(failures.TRACEBACK)
    context = {
        "run": run,
        "step": failures.stopped_at(run),
        "may_read": may_read,
        "trace": StepTraceback.objects.filter(run=run).first() if may_read else None,
    }
    return render(request, "hitl/operations/failure.html", context)
