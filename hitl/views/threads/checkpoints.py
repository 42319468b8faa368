"""Time travel for reviewers: the history of an order or a thread, what a checkpoint changed, and
going on from one.
"""

from __future__ import annotations

import uuid
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from checkpoints import store
from checkpoints.admin import page_context
from checkpoints.forensics import steps
from checkpoints.models import Checkpoint, Thread
from hitl.decisions import services
from hitl.http.errors import status_of
from hitl.views.common import person, posted
from hitl.views.threads import path
from runs.services import forks
from runs.services.forks import NothingToFork

PAGES = {
    "details": "hitl:checkpoint",
    "compare": "hitl:compare",
    "resume": "hitl:checkpoint_resume",
}
"""Which pages the shared templates lead to."""


class ResumeForm(forms.Form):
    reason = forms.CharField(
        max_length=forks.MAX_REASON,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("Why? It is kept with the new run and shown in the history."),
        label=gettext_lazy("Reason"),
    )


@require_safe
@login_required
def history(request: HttpRequest, thread_id: uuid.UUID) -> HttpResponse:
    """The branches and the checkpoints of a thread, newest first; `?before=<id>` gives the next
    page.
    """
    thread = (
        Thread.objects.visible_to(person(request))
        .select_related("work_order", "head")
        .filter(pk=thread_id)
        .first()
    )
    if thread is None:
        raise Http404(gettext("There is no such thread."))
    context = {
        **PAGES,
        "thread": thread,
        "home": home_of(thread),
        **page_context.history_of(thread, request),
        **path.of_thread(thread),
    }
    return render(request, "hitl/inbox/history.html", context)


@require_safe
@login_required
def checkpoint(request: HttpRequest, checkpoint_id: uuid.UUID) -> HttpResponse:
    """One checkpoint: what it changed, the events of its step, its state."""
    checkpoint = services.find_checkpoint(checkpoint_id, by=person(request))
    context = {
        **PAGES,
        "checkpoint": checkpoint,
        "thread": checkpoint.thread,
        "home": home_of(checkpoint.thread),
        "is_head": checkpoint.thread.head_id == checkpoint.pk,
        "prospect": forks.prospect(checkpoint),
        "events": steps.events_of(checkpoint),
        **page_context.change_of(checkpoint),
        **page_context.state_of(checkpoint, request),
    }
    return render(request, "hitl/checkpoints/checkpoint.html", context)


@require_safe
@login_required
def compare(request: HttpRequest) -> HttpResponse:
    """Any two checkpoints of a thread: `?old=` and `?new=`."""
    visible = Checkpoint.objects.filter(
        thread__in=Thread.objects.visible_to(person(request))
    ).select_related("thread__work_order")
    checkpoints = visible.in_bulk(page_context.wanted(request))
    first = next(iter(checkpoints.values()), None)
    context = {
        **PAGES,
        **page_context.compared(request, checkpoints),
        "thread": first.thread if first else None,
        "home": home_of(first.thread) if first else "",
    }
    return render(request, "hitl/checkpoints/compare.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def checkpoint_resume(request: HttpRequest, checkpoint_id: uuid.UUID) -> HttpResponse:
    """GET says what would be repeated and what is kept; only POST does it."""
    checkpoint = services.find_checkpoint(checkpoint_id, by=person(request))
    form = ResumeForm(posted(request))
    problem, status = "", 200
    if request.method == "POST" and form.is_valid():
        try:
            run = services.fork(
                checkpoint.pk, by=person(request), reason=form.cleaned_data["reason"]
            )
        except (NothingToFork, store.CheckpointDamaged) as error:
            problem, status = str(error), status_of(error)
        else:
            messages.info(
                request,
                gettext(
                    "Run %(run)s continues from the checkpoint. What came after it "
                    "stays in the history."
                )
                % {"run": run.shown_id},
            )
            return redirect(home_of(checkpoint.thread))
    elif request.method == "POST":
        status = 422
    context: dict[str, Any] = {
        "checkpoint": checkpoint,
        "thread": checkpoint.thread,
        "home": home_of(checkpoint.thread),
        "form": form,
        "problem": problem,
    }
    return render(
        request,
        "hitl/checkpoints/checkpoint_resume.html",
        {**context, "prospect": forks.prospect(checkpoint)},
        status=status,
    )


def home_of(thread: Thread) -> str:
    """The address of the page that shows a thread: its order's, or its own."""
    order = getattr(thread, "work_order", None)
    return (
        reverse("hitl:order", args=[order.pk])
        if order
        else reverse("hitl:thread", args=[thread.pk])
    )
