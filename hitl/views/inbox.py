"""Two lists, never mixed: what waits for you, and what was decided."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from checkpoints.models import Thread
from hitl import policy, postponing
from hitl.models import Decision
from hitl.views.common import person
from hitl.waiting import SHOWN
from runs.models import Pause
from runs.states import PauseKind, PauseStatus

HISTORY = 30
KINDS = {
    "": "All",
    PauseKind.APPROVAL: "Approvals",
    PauseKind.INPUT: "Data",
    PauseKind.TOOLS: "Tool calls",
    PauseKind.EXTERNAL: "Wait gates",
}
WHOSE = ("run__work_order", "run__thread__team", "run__thread__owner", "run__definition", "run__parent", "claimed_by")
"""Whose question it is: an order's, a child run's, a thread's."""


def waiting_for(user: User, kind: str = "") -> list[Pause]:
    """The oldest questions for a person: found first, then read with what belongs to them, since so many joins are planned badly."""
    mine = postponing.inbox(user).filter(**({"kind": kind} if kind else {}))
    oldest = list(mine.order_by("id").values_list("pk", flat=True)[:SHOWN])
    return list(Pause.objects.filter(pk__in=oldest).shown().select_related(*WHOSE).order_by("id"))


@dataclass(frozen=True)
class Past:
    """A question that is over: answered, or expired where there is no decision."""

    pause: Pause
    decision: Decision | None
    at: dt.datetime


def history_of(user: User) -> list[Past]:
    """The newest answers on a person's threads, and the own ones where they were only asked; and what nobody answered in time."""
    mine = Thread.objects.visible_to(user)
    newest = Decision.objects.select_related("decided_by", "on_behalf_of", *(f"pause__{name}" for name in WHOSE)).order_by("-id")
    decided = list(newest.filter(pause__run__thread__in=mine)[:HISTORY])
    asked = newest.filter(decided_by=user.pk, pause__in=policy.asked_of(user)).exclude(pk__in=[one.pk for one in decided])[:HISTORY]
    expired = Pause.objects.filter(status=PauseStatus.EXPIRED, run__thread__in=mine).select_related(*WHOSE).order_by("-closed_at")[:HISTORY]
    past = [Past(one.pause, one, one.decided_at) for one in [*decided, *asked] if one.pause is not None]
    past += [Past(one, None, one.closed_at) for one in expired if one.closed_at is not None]
    return sorted(past, key=lambda one: one.at, reverse=True)[:HISTORY]


@require_safe
@login_required
def inbox(request: HttpRequest) -> HttpResponse:
    """The inbox; with `?live` only the part that changes, with `?kind=` only what wants that."""
    user, kind = person(request), request.GET.get("kind", "")
    context = {
        "waiting": waiting_for(user, kind if kind in PauseKind.values else ""),
        "kind": kind,
        "kinds": KINDS,
        "snoozed": postponing.snoozed(user),
        "history": history_of(user),
    }
    return render(request, "hitl/_inbox.html" if "live" in request.GET else "hitl/inbox.html", context)
