"""Two lists, never mixed: what waits for you, and what was decided."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from checkpoints import ids
from checkpoints.database.people import NAMED_BY, User
from checkpoints.models import Thread
from hitl.decisions.deadlines import changes
from hitl.decisions.deadlines.changes import SOONEST
from hitl.decisions.reviewers import policy, whose
from hitl.live.inbox_feed import SHOWN
from hitl.models import Decision
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress, ListPage, RowPosition
from hitl.views.cards.rows import row_of
from hitl.views.common import person, waiting_count, waiting_of
from runs.models import Pause, PauseQuerySet
from runs.states import PauseKind, PauseStatus

HISTORY = 30
KEPT = ("whose", "kind", "after", "past", "hidden")
"""What an address of the inbox says, and its links keep."""
TABS = {"": "All", "own": "Mine", "team": "My teams’", "asked": "I wait for"}
NARROWED: dict[str, Callable[[PauseQuerySet, User], PauseQuerySet]] = {
    "own": whose.own,
    "team": whose.shared,
    "asked": lambda _, user: whose.asked(user),
}
"""Tab → its questions, of those that wait for a person."""
HIDDEN = paging.ListOrder("until")
KINDS = {
    "": "All",
    PauseKind.APPROVAL: "Approvals",
    PauseKind.INPUT: "Data",
    PauseKind.TOOLS: "Tool calls",
    PauseKind.EXTERNAL: "Wait gates",
}
WHOSE = (
    "run__work_order__created_by",
    "run__thread__team",
    "run__thread__owner",
    "run__definition",
    "run__parent",
)
"""Whose question it is: an order's, a child run's, a thread's."""
SHOWN_OF_RUN = (
    *("child_name", "thread__title", "thread__team__name", "work_order__title"),
    *("definition__template_slug", "definition__template_version", "parent__thread"),
    *(f"thread__owner__{name}" for name in NAMED_BY),
    *(f"work_order__created_by__{name}" for name in NAMED_BY),
)
SHOWN_OF_ALL = ("question", "revision", *(f"run__{name}" for name in SHOWN_OF_RUN))
SHOWN_OF_OPEN = (
    *SHOWN_OF_ALL,
    *("kind", "review", "turn", "opened_at", "deadline_at", "claimed_until"),
    *("status", "ways", "labels", "bare", "required_inputs", "calls", "content_digest"),
    *(f"claimed_by__{name}" for name in NAMED_BY),
)
SHOWN_OF_PAST = (*SHOWN_OF_ALL, "labels", "closed_at")
"""What a row shows, and no other column: of hundreds of rows most would be JSON that nobody
reads.
"""


def waiting_page(mine: PauseQuerySet, here: ListAddress, *more: str) -> ListPage[Pause]:
    """A page of questions: found first, then read with what belongs to them, since so many joins
    are planned badly. `more` names further columns.
    """

    def read(after: str, limit: int) -> list[Pause]:
        keys = list(
            SOONEST(mine, SOONEST.read(after) if after else None).values_list("pk", flat=True)[
                :limit
            ]
        )
        pauses = Pause.objects.select_related(*WHOSE, "claimed_by").only(*SHOWN_OF_OPEN, *more)
        found = pauses.in_bulk(keys)
        return [found[key] for key in keys if key in found]

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
    ).only(
        *("action", "feedback", "by_name", "for_name", "external", "via", "decided_at"),
        *(f"{person}__{name}" for person in ("decided_by", "on_behalf_of") for name in NAMED_BY),
        *(f"pause__{name}" for name in SHOWN_OF_PAST),
    )
    lapses = Pause.objects.select_related(*WHOSE).only(*SHOWN_OF_PAST)

    def read(after: str, limit: int) -> list[Past]:
        # found first, then read with what belongs to them, as the questions are
        place = DECIDED.read(after) if after else None
        decided = (
            Decision.objects.filter(pause__run__thread__in=mine),
            Decision.objects.filter(decided_by=user.pk, pause__in=policy.asked_of(user)),
        )
        at: dict[uuid.UUID, dt.datetime] = {}
        for rows in decided:
            at |= dict(DECIDED(rows, place).values_list("pk", "decided_at")[:limit])
        lapsed = Pause.objects.filter(status=PauseStatus.EXPIRED, run__thread__in=mine)
        ended = dict(EXPIRED(lapsed, place).values_list("pk", "closed_at")[:limit])
        # the constraint says that an expired question has this time
        moments = at | {key: closed for key, closed in ended.items() if closed is not None}
        newest = sorted(moments, key=lambda key: (moments[key], key), reverse=True)[:limit]
        given = answers.in_bulk([key for key in newest if key in at])
        over = lapses.in_bulk([key for key in newest if key not in at])
        found = [
            *(Past(row.pause, row, row.decided_at) for row in given.values() if row.pause),
            *(Past(row, None, moments[row.pk]) for row in over.values()),
        ]
        return sorted(found, key=lambda entry: entry.place, reverse=True)

    return paging.paged(
        here, "past", read, lambda entry: DECIDED.write(entry.place), size=HISTORY, anchor="history"
    )


@require_safe
@login_required
def inbox(request: HttpRequest) -> HttpResponse:
    """The inbox; with `?live` only the part that changes, with `?kind=` only what wants that, with
    `?whose=` only one's own questions, those of one's teams, or those that one waits for.
    """
    user, kind = person(request), request.GET.get("kind", "")
    tab = request.GET.get("whose", "")
    here = ListAddress(reverse("hitl:inbox"), request.GET.dict()).only(*KEPT)
    mine = waiting_of(request)
    if tab in NARROWED:
        mine = NARROWED[tab](mine, user)
    if kind in PauseKind.values:
        mine = mine.filter(kind=kind)
    others = tab == "asked"
    waiting = waiting_page(mine, here, *(["outside"] if others else []))
    context = {
        "waiting": [row_of(pause, KINDS, by=user, others=others) for pause in waiting.rows],
        "several": len(waiting.rows) > 1 and not others,
        "page": waiting,
        "total": _total(request, mine, waiting),
        "newest": _newest(mine),
        "news": _asked_after(mine, request.GET.get("seen", "")),
        "kind": kind,
        "tab": tab if tab in NARROWED else "",
        "tabs": _links(here, "whose", TABS, tab),
        "kinds": _links(here, "kind", KINDS, kind),
        "elsewhere": _elsewhere(user, tab) if not waiting.rows and not kind else 0,
        "back": here.only("whose", "kind", "after").to().partition("?")[2],
        "snoozed": paging.in_order(changes.snoozed(user), HIDDEN, here, "hidden", size=SHOWN),
        "history": history_of(user, here),
    }
    return render(
        request,
        "hitl/inbox/_inbox.html" if "live" in request.GET else "hitl/inbox/inbox.html",
        context,
    )


def _links(
    here: ListAddress, name: str, labels: dict[str, str], chosen: str
) -> list[tuple[str, str, bool]]:
    """Address, label, and whether it is the one that is shown, of each choice."""
    kept = here.only("whose", "kind")
    return [(kept.to(**{name: value}), label, value == chosen) for value, label in labels.items()]


def _elsewhere(user: User, tab: str) -> int:
    """Where nothing is shown, how many questions stand under the other tabs: of the own work where
    nothing waits at all, else of all that waits.
    """
    return changes.count(whose.asked(user) if not tab else changes.inbox(user))


def _total(request: HttpRequest, mine: PauseQuerySet, page: ListPage[Pause]) -> int:
    if not page.cut:
        return len(page.rows)
    return waiting_count(request) if mine is waiting_of(request) else changes.count(mine)


def _newest(mine: PauseQuerySet) -> str:
    """The question that was asked last: what comes later is new to who looks at this page."""
    newest = mine.order_by("-pk").values_list("pk", flat=True).first()
    return ids.show(Pause.PREFIX, newest) if newest else ""


def _asked_after(mine: PauseQuerySet, seen: str) -> int:
    """How many questions were asked after that one."""
    return changes.count(mine.filter(pk__gt=SOONEST.read(seen).key)) if seen else 0
