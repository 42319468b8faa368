"""For operators: retrying, cancelling and forking many orders at once, looked over first."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_safe

from checkpoints import ids
from checkpoints.database import clock
from hitl.find.asking import NotUnderstood
from hitl.models.batches import Batch, BatchAction
from hitl.operations import batches, failures
from hitl.operations.batches import BatchChoice, BatchInvalid
from hitl.views.common import person
from runs.models import WorkOrder

OWN = ("action", "order", "csrfmiddlewaretoken", "batch", "reason", "step", "query")
"""What this page's addresses and form have beside the filters of the list of orders."""
MAY = permission_required("runs.change_run", raise_exception=True)


@login_required
@MAY
@require_http_methods(["GET", "HEAD", "POST"])
def batch_new(request: HttpRequest) -> HttpResponse:
    """GET shows what would be done: `?action=retry|cancel|fork`, with `order=<id>` any number of
    times or the filters of the list of orders; only POST from that page does it.
    """
    given = request.POST or request.GET
    try:
        if request.method == "POST":
            return _done(request, given)
        orders, query = _chosen(request, given)
        return _preview(request, given.get("action", ""), orders, query)
    except (BatchInvalid, NotUnderstood, ValueError) as error:
        messages.info(request, str(error))
        return redirect("hitl:orders")


@login_required
@MAY
@require_safe
def of_failures(request: HttpRequest) -> HttpResponse:
    """What a retry of all that a filter of the list of failures chooses would do."""
    chosen = failures.FailureFilter.read(request.GET.dict())
    orders = failures.orders_of(chosen, now=clock.now())
    return _preview(request, BatchAction.RETRY, orders, "")


def _preview(
    request: HttpRequest,
    action: str,
    orders: Sequence[uuid.UUID],
    query: str,
    *,
    typed: BatchChoice | None = None,
) -> HttpResponse:
    """`typed`: what was refused. Raises BatchInvalid."""
    preview = batches.preview(action, orders, by=person(request))
    if not preview.orders and not preview.left_out:
        messages.info(request, gettext("No order matches. Nothing was done."))
        return redirect("hitl:orders")
    context = {
        "preview": preview,
        "query": query,
        "key": ids.new(),
        "most": batches.MOST,
        "to": reverse("hitl:batch_new"),
        "typed": typed,
    }
    status = 200 if typed is None else 422
    return render(request, "hitl/operations/batch_new.html", context, status=status)


def _chosen(request: HttpRequest, given: QueryDict) -> tuple[list[uuid.UUID], str]:
    if "order" in given:
        return [ids.parse(WorkOrder.PREFIX, shown) for shown in given.getlist("order")], ""
    filters = {name: values for name, values in given.lists() if name not in OWN}
    return batches.chosen_by(filters, by=person(request))


def _done(request: HttpRequest, given: QueryDict) -> HttpResponse:
    choice = BatchChoice(
        action=given.get("action", ""),
        orders=[ids.parse(WorkOrder.PREFIX, shown) for shown in given.getlist("order")],
        query=given.get("query", ""),
        reason=given.get("reason", ""),
        step=given.get("step", ""),
    )
    try:
        batch = batches.begin(uuid.UUID(given.get("batch", "")), choice, by=person(request))
    except BatchInvalid as error:
        messages.error(request, str(error))
        return _preview(request, choice.action, choice.orders, choice.query, typed=choice)
    return redirect("hitl:batch", batch.pk)


@login_required
@permission_required("runs.view_run", raise_exception=True)
@require_safe
def batch(request: HttpRequest, batch_id: uuid.UUID) -> HttpResponse:
    """What became of each order of a batch."""
    found = get_object_or_404(Batch, pk=batch_id)
    lines = batches.lines_of(found, by=person(request))
    done = sum(line.reached and not line.words for line in lines)
    context = {"batch": found, "lines": lines, "done": done}
    return render(request, "hitl/operations/batch.html", context)
