"""What was decided, and what nobody answered in time: the history."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from checkpoints.database.people import NAMED_BY
from checkpoints.models import Thread
from hitl.decisions.reviewers import policy
from hitl.find import answers
from hitl.find.asking import Asked
from hitl.find.lists import Asker, List
from hitl.models import Decision
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress, ListPage, RowPosition
from hitl.views.lists.bar import Listing
from runs.models import Pause, PauseQuerySet

HISTORY = 30
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
SHOWN_OF_PAST = (*SHOWN_OF_ALL, "labels", "closed_at")
"""What a row shows, and no other column: of hundreds of rows most would be JSON that nobody
reads.
"""


@dataclass(frozen=True)
class Past:
    """A question that is over: answered, or expired where there is no decision."""

    pause: Pause
    decision: Decision | None
    at: dt.datetime

    @property
    def place(self) -> RowPosition:
        return RowPosition(self.at, self.decision.pk if self.decision else self.pause.pk)


def decisions_shown() -> QuerySet[Decision]:
    """Answers with what a line shows of them."""
    return Decision.objects.select_related(
        "decided_by", "on_behalf_of", *(f"pause__{name}" for name in WHOSE)
    ).only(
        *("action", "feedback", "by_name", "for_name", "external", "via", "decided_at"),
        *(f"{person}__{name}" for person in ("decided_by", "on_behalf_of") for name in NAMED_BY),
        *(f"pause__{name}" for name in SHOWN_OF_PAST),
    )


def lapses_shown() -> PauseQuerySet:
    """The same of questions that nobody answered in time."""
    return Pause.objects.select_related(*WHOSE).only(*SHOWN_OF_PAST)


@require_safe
@login_required
def history(request: HttpRequest) -> HttpResponse:
    """Answers and expired questions; `?past=` gives the next page."""
    listing = Listing(request, answers.ANSWERS)
    page = history_of(
        listing.asker, listing.asked, listing.here, refused=listing.refused is not None
    )
    user = listing.asker.user
    bar = listing.bar(answers.answered(user), (answers.LAPSES, answers.lapsed(user)))
    context = {"history": page, "bar": bar}
    return render(request, "hitl/lists/history.html", context, status=listing.status)


def history_of(
    asker: Asker,
    asked: Asked,
    here: ListAddress,
    *,
    given: List = answers.ANSWERS,
    over: List = answers.LAPSES,
    refused: bool = False,
    anchor: str = "",
) -> ListPage[Past]:
    """Answers on a person's threads, and the own ones where they were only asked; and what nobody
    answered in time. The two are read apart and told as one list, so a place in it is one in both.
    """
    user = asker.user
    mine = Thread.objects.visible_to(user)
    order, of_lapses = given.order_of(asked), over.order_of(asked)

    def read(after: str, limit: int) -> list[Past]:
        # found first, then read with what belongs to them, as the questions are
        place = order.read(after) if after else None
        if refused:
            return []
        decided = (
            Decision.objects.filter(pause__run__thread__in=mine),
            Decision.objects.filter(decided_by=user.pk, pause__in=policy.asked_of(user)),
        )
        at: dict[uuid.UUID, dt.datetime] = {}
        for rows in decided:
            found = order(given.among(rows, asked, asker), place)
            at |= dict(found.values_list("pk", "decided_at")[:limit])
        ended = of_lapses(over.among(answers.lapsed(user), asked, asker), place)
        # the constraint says that an expired question has this time
        moments = at | {
            key: closed
            for key, closed in ended.values_list("pk", "closed_at")[:limit]
            if closed is not None
        }
        first = sorted(moments, key=lambda key: (moments[key], key), reverse=order.newest)[:limit]
        in_time = decisions_shown().in_bulk([key for key in first if key in at])
        late = lapses_shown().in_bulk([key for key in first if key not in at])
        entries = [
            *(Past(row.pause, row, row.decided_at) for row in in_time.values() if row.pause),
            *(Past(row, None, moments[row.pk]) for row in late.values()),
        ]
        return sorted(entries, key=lambda entry: entry.place, reverse=order.newest)

    return paging.paged(
        here, "past", read, lambda entry: order.write(entry.place), size=HISTORY, anchor=anchor
    )
