"""Two lists, never mixed: what waits for you, and what was decided."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from checkpoints.models import Thread
from hitl import policy
from hitl.models import Decision
from hitl.views.common import person
from runs.models import Pause

SHOWN = 100
HISTORY = 30
WHOSE = ("run__work_order", "run__thread__team", "run__thread__owner", "run__definition", "run__parent", "claimed_by")
"""Whose question it is: an order's, a child run's, a thread's."""


def waiting_for(user: User) -> list[Pause]:
    """The oldest questions for a person: found first, then read with what belongs to them, since so many joins are planned badly."""
    oldest = list(policy.waiting_for(user).order_by("id").values_list("pk", flat=True)[:SHOWN])
    return list(Pause.objects.filter(pk__in=oldest).shown().select_related(*WHOSE).order_by("id"))


def history_of(user: User) -> list[Decision]:
    """The newest answers on a person's threads, and his own where he was only asked."""
    newest = Decision.objects.select_related("decided_by", "on_behalf_of", *(f"pause__{name}" for name in WHOSE)).order_by("-id")
    found = list(newest.filter(pause__run__thread__in=Thread.objects.visible_to(user))[:HISTORY])
    asked = newest.filter(decided_by=user.pk, pause__in=policy.asked_of(user)).exclude(pk__in=[one.pk for one in found])
    return sorted([*found, *asked[:HISTORY]], key=lambda one: one.pk, reverse=True)[:HISTORY]


@require_safe
@login_required
def inbox(request: HttpRequest) -> HttpResponse:
    """The inbox; with `?live` only the part that changes."""
    context = {"waiting": waiting_for(person(request)), "history": history_of(person(request))}
    return render(request, "hitl/_inbox.html" if "live" in request.GET else "hitl/inbox.html", context)
