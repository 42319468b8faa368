"""The page that asks why work is to stop at its next step boundary, of an order or of a thread."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from checkpoints.models import Thread
from hitl.decisions import services, visibility
from hitl.threads import messages as doors
from hitl.views.common import person
from hitl.views.threads.pages import latest_of, leave_for, look_at, show
from runs.models import WorkOrder
from runs.services.forks import ReasonMissing
from runs.states import RunEnded


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def order_suspend(request: HttpRequest, order_id: uuid.UUID) -> HttpResponse:
    """Stop at the next step boundary, where the order waits as at any question; GET asks why."""
    order = services.look_at_order(order_id, by=person(request))
    services.find_to_suspend(order_id, by=person(request))
    return _suspend(request, order, order.thread, partial(services.suspend_order, order.pk))


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def thread_suspend(request: HttpRequest, thread_id: uuid.UUID) -> HttpResponse:
    """The same of a thread's run."""
    thread = look_at(thread_id, request)
    run = latest_of(thread)
    if run is not None:
        visibility.find_run_to_suspend(run.pk, by=person(request))
    if elsewhere := leave_for(thread):
        return elsewhere
    if run is None:
        words = gettext("No run of this thread is alive, so there is nothing to suspend.")
        return show(request, thread, status=409, problem=words)
    return _suspend(request, thread, thread, partial(doors.suspend, run.pk))


def _suspend(
    request: HttpRequest, work: WorkOrder | Thread, thread: Thread, suspend: Callable[..., object]
) -> HttpResponse:
    home = "hitl:order" if isinstance(work, WorkOrder) else "hitl:thread"
    problem = ""
    if request.method == "POST":
        try:
            suspend(by=person(request), reason=request.POST.get("reason", ""))
            return redirect(home, work.pk)
        except RunEnded as error:
            if isinstance(work, Thread):
                return show(request, work, status=409, problem=str(error))
            messages.info(request, str(error))
            return redirect(home, work.pk)
        except ReasonMissing as error:
            problem = str(error)
    return render(
        request,
        "hitl/orders/suspend.html",
        {
            "work": work,
            "home": home,
            "observer": visibility.is_observer(thread, by=person(request)),
            "problem": problem,
            "reason": request.POST.get("reason", ""),
            "most": services.MAX_REASON,
        },
        status=422 if problem else 200,
    )
