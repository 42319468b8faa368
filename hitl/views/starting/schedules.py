"""Work that begins by the clock: one's schedules, a new one, and the page of one."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from checkpoints.database import clock
from checkpoints.database.people import User
from hitl.forms.schedules import ScheduleForm, form_of
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress
from hitl.views.common import person, posted
from runs.definitions import TemplateInvalid, TemplateNotFound, readiness, rights
from runs.definitions.readiness import CannotRun
from runs.definitions.rights import NotPermitted
from runs.git.sources import BadSource
from runs.models import Occurrence, Schedule, Template
from runs.schedules import keeping, starting
from runs.services import InputInvalid, OrdersStopped

PAGE = 30
NEWEST = paging.ListOrder(newest=True, prefix=Schedule.PREFIX)
LATEST = paging.ListOrder(newest=True, prefix=Occurrence.PREFIX)
REFUSED = (
    BadSource,
    CannotRun,
    NotPermitted,
    OrdersStopped,
    TemplateInvalid,
    TemplateNotFound,
    keeping.CannotStart,
    keeping.MayNotSchedule,
)
"""Errors whose words are for people, and speak of no one field."""


@require_safe
@login_required
def schedule_list(request: HttpRequest) -> HttpResponse:
    """One's own, the newest first."""
    here = ListAddress(request.path, request.GET.dict()).only("before")
    mine = Schedule.objects.filter(owner=person(request))
    page = paging.in_order(mine, NEWEST, here, "before", size=PAGE)
    return render(request, "hitl/schedules/schedules.html", {"page": page})


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@permission_required(starting.ADD, raise_exception=True)
def schedule_new(request: HttpRequest) -> HttpResponse:
    """The form of a template that this person may order by: `?template=<slug>`."""
    user = person(request)
    templates = _templates(user)
    slug = request.POST.get("template") or request.GET.get("template")
    template = next((one for one in templates if one.slug == slug), None)
    if template is None:
        return render(
            request,
            "hitl/schedules/schedule_new.html",
            {"templates": templates},
            status=422 if request.method == "POST" else 200,
        )
    form = ScheduleForm(posted(request), template=template, user=user)
    preview = form.preview() if _only_looks(request) else None
    if request.method == "POST" and not _only_looks(request) and form.is_valid():
        values = {"template": template.slug, **form.times(), **form.order()}
        schedule = _tried(form, lambda: keeping.make(user, **values))
        if schedule is not None:
            return redirect("hitl:schedule", schedule.pk)
    return render(
        request,
        "hitl/schedules/schedule_new.html",
        {"templates": templates, "template": template, "form": form, "preview": preview},
        status=422 if form.refused else 200,
    )


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def schedule(request: HttpRequest, schedule_id: uuid.UUID) -> HttpResponse:
    """What it orders and when, its next times, and what became of the earlier ones; POST changes
    it, or shows what other times would be.
    """
    user, found = person(request), _mine(request, schedule_id)
    template = next((one for one in _templates(user) if one.slug == found.template), None)
    form = form_of(found, template, posted(request), user=user)
    preview = form.preview() if _only_looks(request) else None
    if request.method == "POST" and not _only_looks(request) and form.is_valid():
        if _tried(form, lambda: keeping.change(found, **form.changes(found))) is not None:
            messages.success(
                request, gettext("The schedule was changed. It goes on by its new times.")
            )
            return redirect("hitl:schedule", found.pk)
        found = _mine(request, schedule_id)
    here = ListAddress(request.path, request.GET.dict()).only("before")
    history = (
        Occurrence.objects.filter(schedule=found)
        .select_related("order__latest_run", "order__thread__head", "by")
        .defer("order__thread__head__body")
    )
    context = {
        "schedule": found,
        "form": form,
        "template": template,
        "coming": keeping.preview_of(found),
        "preview": preview,
        "history": paging.in_order(history, LATEST, here, "before", size=PAGE, anchor="history"),
        "now": clock.now(),
        "changed": keeping.stands_over_code(found),
    }
    return render(
        request, "hitl/schedules/schedule.html", context, status=422 if form.refused else 200
    )


@require_POST
@login_required
def schedule_do(request: HttpRequest, schedule_id: uuid.UUID) -> HttpResponse:
    """Start its order now, switch it off or on, remove it, or go back to what the code
    declares.
    """
    found = _mine(request, schedule_id)
    match request.POST.get("do"):
        case "start":
            try:
                order = keeping.start_now(found, person(request))
            except (*REFUSED, InputInvalid) as error:
                messages.error(request, str(error))
            else:
                return redirect("hitl:order", order.pk)
        case "on" | "off" as wanted:
            keeping.change(found, enabled=wanted == "on")
            messages.success(
                request,
                gettext("%(found)s is switched %(wanted)s.")
                % {"found": found, "wanted": gettext(wanted)},
            )
        case "declared":
            try:
                keeping.change(found, as_declared=True)
            except (*REFUSED, InputInvalid, keeping.ScheduleInvalid) as error:
                messages.error(request, str(error))
            else:
                messages.success(request, gettext("The schedule is what the code declares."))
        case "remove":
            keeping.remove(found)
            words = (
                gettext("%(found)s was removed. Its work orders stay.")
                if found.declared is None
                else gettext("%(found)s is switched off. The code declares it, so it stays.")
            )
            messages.success(request, words % {"found": found})
            return redirect("hitl:schedules")
    return redirect("hitl:schedule", found.pk)


def _only_looks(request: HttpRequest) -> bool:
    """Whether somebody asks what the times would be, or for a row more or less: nothing is kept."""
    return bool({"show", "change"} & request.POST.keys())


def _templates(user: User) -> list[Template]:
    """Those that this person may order by, and this server can run."""
    refused = rights.refusals(user)
    known = [one for one in Template.objects.current().order_by("slug") if one.slug not in refused]
    lacks = readiness.lacking(known, by=user)
    return [one for one in known if one.slug not in lacks]


def _tried(form: Any, act: Any) -> Schedule | None:
    """The schedule, or None with the reasons on the form."""
    try:
        made: Schedule = act()
        return made
    except keeping.ScheduleInvalid as error:
        known = {error.field, f"input.{error.field}"} & set(form.fields)
        form.add_error(min(known, default=None), str(error))
    except InputInvalid as error:
        form.add_errors(error.errors)
    except BadSource as error:
        form.add_error("repository_url" if "repository_url" in form.fields else None, str(error))
    except REFUSED as error:
        form.add_error(None, str(error))
    return None


def _mine(request: HttpRequest, schedule_id: uuid.UUID) -> Schedule:
    mine = Schedule.objects.filter(owner=person(request)).select_related("owner", "team")
    found = mine.filter(pk=schedule_id).first()
    if found is None:
        raise Http404(gettext("You have no such schedule."))
    return found
