"""Work orders: list, new, the page of one, and the answers given on it."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from checkpoints import ids, store
from checkpoints.models import Blob, Event, EventKind
from hitl import patches, services
from hitl.forms import DecisionForm, WorkOrderForm
from hitl.models import Decision, Via
from hitl.views.common import person
from runs import services as runs
from runs.models import Pause, Template, WorkOrder
from runs.services import InputInvalid, OrdersStopped
from runs.states import RunEnded, RunStatus
from runs.steps.sources import BadSource
from runs.workflows import sequence
from runs.workflows.sequence import REVISE

PAGE = 30
TIMELINE = 200
TERMINAL = {"completed", "failed"}


@require_safe
@login_required
def order_list(request: HttpRequest) -> HttpResponse:
    """Newest first; `?before=<id>` gives the next page."""
    orders = WorkOrder.objects.visible_to(person(request)).shown().order_by("-id")
    if before := request.GET.get("before"):
        try:
            orders = orders.filter(pk__lt=ids.parse("wo", before))
        except ValueError as error:
            raise Http404(str(error)) from error
    found = list(orders[: PAGE + 1])
    context = {"orders": found[:PAGE], "next_before": found[PAGE - 1].shown_id if len(found) > PAGE else ""}
    return render(request, "hitl/orders.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def order_new(request: HttpRequest) -> HttpResponse:
    """The form is rendered from the template's input schema."""
    templates = list(Template.objects.current().order_by("slug"))
    if not templates:
        return render(request, "hitl/order_new.html", {"templates": [], "form": None})
    slug = request.POST.get("template") or request.GET.get("template") or "repo-tidy"
    template = next((one for one in templates if one.slug == slug), templates[0])
    form = WorkOrderForm(request.POST or None, template=template, user=person(request))
    if request.method == "POST" and form.is_valid():
        order = _submit(template, form, person(request))
        if order is not None:
            return redirect("hitl:order", order.pk)
    return render(
        request, "hitl/order_new.html", {"templates": templates, "template": template, "form": form}, status=422 if form.errors else 200
    )


def _submit(template: Template, form: WorkOrderForm, user: Any) -> WorkOrder | None:
    """The order, or None with the reasons on the form."""
    values = form.cleaned_data
    try:
        return runs.submit(
            template.slug,
            by=user,
            title=values["title"],
            request=values["request"],
            input=form.input_values(),
            repository_url=values.get("repository_url", ""),
            team=values.get("team"),
        )
    except InputInvalid as error:
        form.add_errors(error.errors)
    except (BadSource, OrdersStopped) as error:
        form.add_error("repository_url", str(error))
    return None


@require_safe
@login_required
def order(request: HttpRequest, order_id: uuid.UUID) -> HttpResponse:
    """The page of one work order; with `?live` only the part that changes."""
    order = _find(order_id, request)
    return render(request, "hitl/_order_live.html" if "live" in request.GET else "hitl/order.html", page_of(order))


def page_of(order: WorkOrder, *, form: DecisionForm | None = None, problem: str = "") -> dict[str, Any]:
    """All that the work-order page shows."""
    pause = services.open_pause(order)
    files, hidden, damage = _patch_of(pause)
    events = list(Event.objects.filter(thread=order.thread_id).exclude(kind=EventKind.STREAMING_CHUNK).order_by("-seq")[:TIMELINE])
    last = Decision.objects.select_related("decided_by", "pause").filter(pause__run__thread=order.thread_id).order_by("-id").first()
    rerun = bool(
        last
        and last.action == REVISE
        and not pause
        and order.status in {"pending", "running"}
        and order.current_step == last.pause.ways.get(REVISE)
    )
    return {
        "order": order,
        "pause": pause,
        "form": form or DecisionForm(),
        "problem": problem or damage,
        "files": files,
        "hidden_lines": hidden,
        "ways": _ways(order, pause) if pause else [],
        "leads": _leads(order, pause) if pause else {},
        "steps": progress(order),
        "timeline": [event for event in events if event.kind != EventKind.LOG],
        "log": [event for event in reversed(events) if event.kind == EventKind.LOG],
        "rerunning": order.current_step if rerun else "",
        "feedback": last.feedback if rerun and last else "",
        "seq": order.thread.last_seq,
        "terminal": order.status in TERMINAL,
        "may_cancel": order.status in {"pending", "running"},
        "may_retry": order.latest_run is not None and order.latest_run.status == RunStatus.FAILED,
    }


def _patch_of(pause: Pause | None) -> tuple[list[patches.FileDiff], int, str]:
    """The patch by file, its lines that are left out, and what is wrong where it cannot be read."""
    if pause is None or not pause.patch_digest:
        return [], 0, ""
    try:
        return *patches.parse(store.get_blob(pause.patch_digest).decode("utf-8", "replace")), ""
    except (store.CheckpointDamaged, Blob.DoesNotExist) as error:
        return [], 0, f"The patch cannot be shown: {error}. Do not approve what you cannot see."


def _leads(order: WorkOrder, pause: Pause) -> dict[str, str]:
    """Answer → the title of the step it leads to; empty where it leads to the end."""
    titles = {step["name"]: step["title"] for step in order.definition.steps}
    return {name: titles.get(to, "") for name, to in pause.ways.items()}


def _ways(order: WorkOrder, pause: Pause) -> list[dict[str, str]]:
    """The answers that the template adds, and where each leads."""
    names = {step["name"]: step["title"] for step in order.definition.steps}
    return [
        {"name": name, "label": pause.labels[name], "to": names.get(to, "the end")}
        for name, to in pause.ways.items()
        if name in pause.labels
    ]


def progress(order: WorkOrder) -> list[dict[str, str]]:
    """The steps and the pauses between them, each `done`, `now`, `failed` or `todo`."""
    current, status = order.current_step, order.status
    parts: list[dict[str, str]] = []
    state = "done" if current else "todo"
    for step in order.definition.steps:
        here = step["name"] == current and status != "completed"
        if here:
            state = "todo"
        work = ("done" if status == "paused" else "failed" if status == "failed" else "now") if here else state
        parts.append({"title": step["title"], "state": work})
        if step["pause_after"]:
            waits = "now" if here and status == "paused" else state
            parts.append(
                {
                    "title": sequence.HEADINGS.get(step["pause_phase"], "Answer").removeprefix("Waiting for "),
                    "state": waits,
                    "person": "yes",
                }
            )
    return parts


@require_POST
@login_required
def decide(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Answer a question from its page; a second answer gets a calm page that names the first."""
    form = DecisionForm(request.POST)
    pause = Pause.objects.visible_to(person(request)).shown().filter(pk=pause_id).first()
    if pause is None or pause.run.work_order is None:
        raise Http404("There is no such question.")
    order_id = pause.run.work_order.pk
    if not form.is_valid():
        return _again(request, order_id, form, "Nothing was decided: the answer was incomplete.", 400)
    try:
        services.decide(
            pause_id,
            action=form.cleaned_data["action"],
            by=person(request),
            via=Via.PAGE,
            feedback=form.cleaned_data["feedback"],
            revision=form.cleaned_data["revision"],
        )
    except services.AnswerInvalid as error:
        return _again(request, order_id, form, str(error), 422)
    except (services.AlreadyAnswered, services.RevisionMismatch, store.CheckpointDamaged) as error:
        return _again(request, order_id, form, str(error), 409)
    return redirect("hitl:order", order_id)


def _again(request: HttpRequest, order_id: uuid.UUID, form: DecisionForm, problem: str, status: int) -> HttpResponse:
    return render(request, "hitl/order.html", page_of(_find(order_id, request), form=form, problem=problem), status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def order_cancel(request: HttpRequest, order_id: uuid.UUID) -> HttpResponse:
    """GET asks whether you are sure; only POST cancels."""
    order = _find(order_id, request)
    if request.method != "POST":
        return render(request, "hitl/order_cancel.html", {"order": order})
    try:
        services.cancel_order(order.pk, by=person(request), via=Via.PAGE)
    except (RunEnded, services.AlreadyAnswered) as error:
        return _again(request, order_id, DecisionForm(), str(error), 409)
    return redirect("hitl:order", order_id)


@require_POST
@login_required
def order_retry(request: HttpRequest, order_id: uuid.UUID) -> HttpResponse:
    order = _find(order_id, request)
    try:
        runs.retry(order.pk, by=person(request))
    except (RunEnded, store.CheckpointDamaged) as error:
        messages.info(request, str(error))
    return redirect("hitl:order", order_id)


@require_safe
@login_required
def pause_patch(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """The whole patch under review, as text."""
    pause = Pause.objects.visible_to(person(request)).filter(pk=pause_id).first()
    if pause is None or not pause.patch_digest:
        raise Http404("There is no such patch.")
    try:
        content = store.get_blob(pause.patch_digest)
    except (store.CheckpointDamaged, Blob.DoesNotExist) as error:
        raise Http404(f"The patch cannot be shown: {error}.") from error
    response = HttpResponse(content, content_type="text/plain; charset=utf-8")
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Disposition"] = f'inline; filename="{pause.shown_id}.patch"'
    return response


@require_POST
@login_required
def order_suspend(request: HttpRequest, order_id: uuid.UUID) -> HttpResponse:
    """Stop at the next step boundary; the run then waits like at any pause."""
    order = _find(order_id, request)
    try:
        runs.suspend(order.pk, by=person(request))
    except RunEnded as error:
        messages.info(request, str(error))
    return redirect("hitl:order", order_id)


def _find(order_id: uuid.UUID, request: HttpRequest) -> WorkOrder:
    try:
        return services.find_order(order_id, by=person(request))
    except services.NotFound as error:
        raise Http404(str(error)) from error
