"""Work orders and runs for operators, and the actions that cancel and retry them, each confirmed on
a page of its own.
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from checkpoints.admin.base import MOST, ConfirmedAdmin, confirmed
from hitl.admin.base import person, tell
from hitl.decisions import services
from hitl.models import Via
from runs import services as runs
from runs.admin.runs import RunRows, WorkOrderRows
from runs.models import Run, WorkOrder
from runs.states import RunEnded


@confirmed(
    gettext_lazy("Cancel…"),
    button=gettext_lazy("Cancel them"),
    title=gettext_lazy("Cancel these orders?"),
    words=gettext_lazy("Each order ends where it stands. This cannot be undone."),
    danger=True,
)
def cancel_order(shown_by: ConfirmedAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> None:
    for obj in queryset[:MOST]:
        tell(shown_by, request, partial(cancel_one, request, obj), about=obj.shown_id)


@confirmed(
    gettext_lazy("Retry…"),
    button=gettext_lazy("Retry"),
    title=gettext_lazy("Retry these orders?"),
    words=gettext_lazy("Each goes on from its last good checkpoint, as a new run."),
)
def retry(shown_by: ConfirmedAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> None:
    for obj in queryset[:MOST]:
        tell(shown_by, request, partial(retry_one, request, obj), about=obj.shown_id)


def cancel_one(request: HttpRequest, obj: WorkOrder | Run) -> str:
    services.cancel_order(order_of(obj), by=person(request), via=Via.ADMIN)
    return _("cancelled")


def retry_one(request: HttpRequest, obj: WorkOrder | Run) -> str:
    # `runs` does not ask who may see it
    order = services.find_order(order_of(obj), by=person(request))
    run = runs.retry(order.pk, by=person(request))
    return _("goes on as %(run)s") % {"run": run.shown_id}


def order_of(obj: WorkOrder | Run) -> uuid.UUID:
    if isinstance(obj, WorkOrder):
        return obj.pk
    if obj.work_order is None or obj.work_order.latest_run_id != obj.pk:
        raise RunEnded(_("This is not the latest run of a work order, so nothing was done."))
    return obj.work_order.pk


@admin.register(WorkOrder)
class WorkOrderAdmin(WorkOrderRows):
    actions = (cancel_order, retry)


@admin.register(Run)
class RunAdmin(RunRows):
    actions = (cancel_order, retry)
