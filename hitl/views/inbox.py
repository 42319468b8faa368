"""Two lists, never mixed: what waits for you, and what was decided."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from checkpoints import ids
from checkpoints.database.people import User
from checkpoints.models import Thread
from hitl.decisions.deadlines import changes
from hitl.decisions.deadlines.changes import SOONEST
from hitl.decisions.reviewers import policy
from hitl.live.inbox_feed import SHOWN
from hitl.models import Decision
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress, ListPage, RowPosition
from hitl.views.common import person
from runs.models import Pause, PauseQuerySet
from runs.states import PauseKind, PauseStatus

HISTORY = 30
HIDDEN = paging.ListOrder("until")
KINDS = {
    "": "All",
    PauseKind.APPROVAL: "Approvals",
    PauseKind.INPUT: "Data",
    PauseKind.TOOLS: "Tool calls",
    PauseKind.EXTERNAL: "Wait gates",
}
WHOSE = (
    "run__work_order",
    "run__thread__team",
    "run__thread__owner",
    "run__definition",
    "run__parent",
    "claimed_by",
)
"""Whose question it is: an order's, a child run's, a thread's."""


def waiting_page(mine: PauseQuerySet, here: ListAddress) -> ListPage[Pause]:
    """A page of questions: found first, then read with what belongs to them, since so many joins
    are planned badly.
    """

    def read(after: str, limit: int) -> list[Pause]:
        keys = list(
            SOONEST(mine, SOONEST.read(after) if after else None).values_list("pk", flat=True)[
                :limit
            ]
        )
        pauses = Pause.objects.filter(pk__in=keys).shown().select_related(*WHOSE).in_bulk(keys)
        return [pauses[key] for key in keys if key in pauses]

    return paging.paged(
        here, "after", read, lambda pause: SOONEST.write(SOONEST.place(pause)), size=SHOWN
    )


@dataclass(frozen=True)
class Past:
    """A question that is over: answered, or expired where there is no decision."""

    pause: Pause
    decision: Decision | None
    at: dt.datetime

    @property
    def place(self) -> RowPosition:
        return RowPosition(self.at, self.decision.pk if self.decision else self.pause.pk)


DECIDED = paging.ListOrder("decided_at", newest=True, prefix="past")
EXPIRED = paging.ListOrder("closed_at", newest=True, prefix="past")
"""The two are read apart and told as one list, so a place in it is one in both."""


def history_of(user: User, here: ListAddress) -> ListPage[Past]:
    """Answers on a person's threads, and the own ones where they were only asked; and what nobody
    answered in time. Newest first.
    """
    mine = Thread.objects.visible_to(user)
    answers = Decision.objects.select_related(
        "decided_by", "on_behalf_of", *(f"pause__{name}" for name in WHOSE)
    )
    lapsed = Pause.objects.filter(status=PauseStatus.EXPIRED, run__thread__in=mine).select_related(
        *WHOSE
    )

    def read(after: str, limit: int) -> list[Past]:
        place = DECIDED.read(after) if after else None
        decided = list(DECIDED(answers.filter(pause__run__thread__in=mine), place)[:limit])
        asked = DECIDED(answers.filter(decided_by=user.pk, pause__in=policy.asked_of(user)), place)[
            :limit
        ]
        every = {entry.pk: entry for entry in [*decided, *asked]}
        past = [
            Past(entry.pause, entry, entry.decided_at)
            for entry in every.values()
            if entry.pause is not None
        ]
        past += [
            Past(entry, None, entry.closed_at)
            for entry in EXPIRED(lapsed, place)[:limit]
            if entry.closed_at is not None
        ]
        return sorted(past, key=lambda entry: entry.place, reverse=True)[:limit]

    return paging.paged(
        here, "past", read, lambda entry: DECIDED.write(entry.place), size=HISTORY, anchor="history"
    )


@require_safe
@login_required
def inbox(request: HttpRequest) -> HttpResponse:
    """The inbox; with `?live` only the part that changes, with `?kind=` only what wants that."""
    user, kind = person(request), request.GET.get("kind", "")
    here = ListAddress(reverse("hitl:inbox"), request.GET.dict()).only(
        "kind", "after", "past", "hidden"
    )
    mine = changes.inbox(user).filter(**({"kind": kind} if kind in PauseKind.values else {}))
    waiting = waiting_page(mine, here)
    context = {
        "waiting": waiting.rows,
        "page": waiting,
        "total": mine.count() if waiting.cut else len(waiting.rows),
        "newest": _newest(mine, waiting),
        "news": _asked_after(mine, request.GET.get("seen", "")),
        "kind": kind,
        "kinds": KINDS,
        "snoozed": paging.in_order(changes.snoozed(user), HIDDEN, here, "hidden", size=SHOWN),
        "history": history_of(user, here),
    }
    return render(
        request,
        "hitl/inbox/_inbox.html" if "live" in request.GET else "hitl/inbox/inbox.html",
        context,
    )


def _newest(mine: PauseQuerySet, page: ListPage[Pause]) -> str:
    """The question that was asked last: what comes later is new to who looks at this page."""
    keys = (
        mine.order_by("-pk").values_list("pk", flat=True)[:1]
        if page.cut
        else [row.pk for row in page.rows]
    )
    return ids.show(Pause.PREFIX, max(keys)) if keys else ""


def _asked_after(mine: PauseQuerySet, seen: str) -> int:
    """How many questions were asked after that one."""
    return mine.filter(pk__gt=SOONEST.read(seen).key).count() if seen else 0
