"""Questions: the answers that are given on a page, and the patch under review."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from checkpoints import store
from checkpoints.models import Blob
from hitl import payload_forms, services
from hitl.forms import DecisionForm
from hitl.models import Via
from hitl.views import family, orders, threads
from hitl.views.common import home_of, person, root_of
from runs.models import Pause
from runs.states import PauseStatus

MARKED = "Nothing was decided; the question is still open. Look at the marked fields: what you filled in is kept."


@require_POST
@login_required
def decide(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Answer a question from its page; a second answer gets a calm page that names the first."""
    form = DecisionForm(request.POST)
    pause = _find(pause_id, request)
    if not form.is_valid():
        return _again(request, pause, 400, form=form, problem="Nothing was decided: the answer was incomplete.")
    inputs = payload_forms.sent(pause, form.cleaned_data["action"], request.POST) if pause.status == PauseStatus.OPEN else None
    if inputs is not None and not inputs.is_valid():
        return _again(request, pause, 422, form=form, inputs=inputs, problem=MARKED)
    try:
        services.decide(
            pause_id,
            action=form.cleaned_data["action"],
            by=person(request),
            via=Via.PAGE,
            feedback=form.cleaned_data["feedback"],
            revision=form.cleaned_data["revision"],
            payload=inputs.payload() if inputs is not None else None,
        )
    except services.AnswerInvalid as error:
        if inputs is None:
            return _again(request, pause, 422, form=form, problem=str(error))
        inputs.add_errors(error.errors)
        return _again(request, pause, 422, form=form, inputs=inputs, problem=MARKED)
    except (services.AlreadyAnswered, services.RevisionMismatch, store.CheckpointDamaged) as error:
        return _again(request, pause, 409, form=form, problem=str(error))
    return redirect(home_of(pause.run))


def _again(request: HttpRequest, pause: Pause, status: int, **answer: Any) -> HttpResponse:
    """The page that the answer came from, with what was wrong with it."""
    answer |= {"answered": pause, "wanted": pause.shown_id if pause.run.parent_id else ""}
    if pause.run.work_order_id is not None:
        order = services.find_order(pause.run.work_order_id, by=person(request))
        return render(request, "hitl/order.html", orders.page_of(order, **answer), status=status)
    return threads.show(request, threads.find(root_of(pause.run).thread_id, request), status=status, **answer)


@require_safe
@login_required
def pause_cancel(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Asks whether you are sure: the way to cancel at a question without JavaScript."""
    pause = _find(pause_id, request)
    if pause.status != PauseStatus.OPEN:
        return redirect(home_of(pause.run))
    return render(request, "hitl/pause_cancel.html", {"pause": pause, "cancel": family.cancel_of(pause)})


@require_safe
@login_required
def pause_patch(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """The whole patch under review, as text."""
    pause = _find(pause_id, request)
    if not pause.patch_digest:
        raise Http404("There is no such patch.")
    try:
        content = store.get_blob(pause.patch_digest)
    except (store.CheckpointDamaged, Blob.DoesNotExist) as error:
        raise Http404(f"The patch cannot be shown: {error}.") from error
    response = HttpResponse(content, content_type="text/plain; charset=utf-8")
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Disposition"] = f'inline; filename="{pause.shown_id}.patch"'
    return response


def _find(pause_id: uuid.UUID, request: HttpRequest) -> Pause:
    pause = Pause.objects.visible_to(person(request)).shown().filter(pk=pause_id).first()
    if pause is None:
        raise Http404("There is no such question.")
    return pause
