"""Two lists, never mixed: what waits for you, and what was decided."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Exists, QuerySet
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_POST, require_safe

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.database.people import User
from hitl.decisions.deadlines import changes
from hitl.decisions.deadlines.changes import MOST_COUNTED, SOONEST, PreparedInbox
from hitl.decisions.reviewers import whose
from hitl.decisions.reviewers.policy import ReviewContext
from hitl.find import answers, marks
from hitl.find.asking import SORT, WORDS, Asked
from hitl.find.lists import KINDS, Asker
from hitl.find.questions import ASKED, INBOX, WHOSE_QUESTIONS, inbox_of, of_questions
from hitl.live.inbox_feed import SHOWN
from hitl.models import SavedView, Snooze
from hitl.rendering import paging
from hitl.rendering.paging import ListPage
from hitl.views.cards import lines
from hitl.views.cards.rows import QuestionRows, texts_of
from hitl.views.common import keep_waiting_count, person, waiting_of
from hitl.views.lists import reading
from hitl.views.lists.bar import Listing
from hitl.views.lists.history import history_of
from hitl.views.lists.reading import Waiting
from runs.models import Pause, PauseQuerySet

FILTERS = tuple(parameter.name for parameter in INBOX.parameters)
TABS = {"": gettext_noop("All"), **WHOSE_QUESTIONS}
WELCOME_CLOSED = dt.timedelta(days=400)  # as long as browsers keep a cookie
HIDDEN = paging.ListOrder("until")
ORDERS = {
    "due": gettext_noop("the earliest due first"),
    "newest": gettext_noop("the newest first"),
    "oldest": gettext_noop("those that wait longest first"),
}


@dataclass(frozen=True)
class _Looked:
    """What one look at the questions of an inbox says of them all."""

    rows: PauseQuerySet
    keys: Sequence[uuid.UUID]
    """Of the first MOST_COUNTED of them, in the order of the list."""
    hides: bool
    """Whether the person may have hidden some."""
    has_views: bool
    """Whether the person may have saved views of the inbox."""
    has_lapses: bool
    """Whether the person may see questions that nobody answered in time."""

    @property
    def is_whole(self) -> bool:
        return len(self.keys) < MOST_COUNTED

    @property
    def newest(self) -> str:
        """The question that was asked last: what comes later is new to who looks at this page.
        Where more wait than are counted, the moment of the look: keys are in the order of time.
        """
        known = [*self.keys, *([] if self.is_whole else [ids.floor(clock.now())])]
        return ids.show(Pause.PREFIX, max(known)) if known else ""

    def asked_after(self, seen: str) -> int:
        """How many questions were asked after that one."""
        if not seen:
            return 0
        last = SOONEST.read(seen).key
        if self.is_whole and isinstance(last, uuid.UUID):
            return sum(key > last for key in self.keys)
        return changes.count(self.rows.filter(pk__gt=last))


def _look(mine: PauseQuerySet, listing: Listing) -> _Looked:
    """All that the page needs of its questions beside its rows, in one query."""
    user, now = listing.asker.user, listing.asker.now
    found = (
        listing.order(mine)
        .annotate(
            hides=Exists(Snooze.objects.filter(person=user.pk, until__gt=now)),
            has_views=Exists(SavedView.objects.visible_to(user).filter(list=INBOX.name)),
            has_lapses=Exists(answers.lapsed(user)),
        )
        .values_list("pk", "hides", "has_views", "has_lapses")[:MOST_COUNTED]
    )
    rows = list(found)
    _, *beside = rows[0] if rows else ((), True, True, True)
    return _Looked(mine, [key for key, *_ in rows], *beside)


def _page(look: _Looked, listing: Listing) -> ListPage[Waiting]:
    """A page of questions: found first, then read with what belongs to them, since so many joins
    are planned badly.
    """
    order = listing.order

    def read(after: str, limit: int) -> list[Waiting]:
        if not after:
            return reading.waiting(look.keys[:limit])
        found = order(look.rows, order.read(after)).values_list("pk", flat=True)
        return reading.waiting(list(found[:limit]))

    return paging.paged(
        listing.here, "after", read, lambda row: order.write(order.place(row.pause)), size=SHOWN
    )


@require_safe
@login_required
def inbox(request: HttpRequest) -> HttpResponse:
    """The inbox; with `?live` only the part that changes, with `?whose=` only one's own questions,
    those of one's teams, or those that one waits for.
    """
    user, live = person(request), "live" in request.GET
    listing = Listing(request, INBOX)
    here, asked, tab = listing.here, listing.asked, listing.asked["whose"]
    seen = inbox_of(user, asked, waiting_of(request))
    look = _look(listing.among(seen) if asked or listing.refused else seen, listing)
    if look.rows is waiting_of(request):
        keep_waiting_count(request, len(look.keys))
    narrowed, order = bool(asked.but_for("whose")), ORDERS[asked["sort"] or "due"]
    waiting = _page(look, listing)
    nothing = not waiting.rows and not narrowed and not listing.refused
    several = len(waiting.rows) > 1 and tab != ASKED
    history = history_of(
        listing.asker,
        answers.beside_inbox(asked),
        here,
        given=answers.BESIDE_INBOX,
        over=answers.LAPSES_BESIDE_INBOX if look.has_lapses else None,
        refused=listing.refused is not None,
        anchor="history",
    )
    context = {
        "waiting": _rows(request, listing, waiting.rows, several=several),
        "several": several,
        "page": waiting,
        "back": _back(listing),
        "found": len(look.keys),
        "newest": look.newest,
        "news": look.asked_after(request.GET.get("seen", "")),
        "kind": narrowed or listing.refused is not None,
        "sorted": gettext(order),
        "tab": tab,
        "tabs": [
            (here.only(*FILTERS).to(whose=value), gettext(label), value == tab)
            for value, label in TABS.items()
        ],
        "elsewhere": _elsewhere(user, tab) if nothing else 0,
        "snoozed": paging.in_order(changes.snoozed(user), HIDDEN, here, "hidden", size=SHOWN)
        if look.hides
        else ListPage([]),
        "history": history,
        "lines": lines.history(history.rows, lines.find(history.rows, asked.words, user)),
        "welcome": not live and _welcome_of(user) not in request.COOKIES,
        "bar": None
        if live
        else listing.bar(
            seen,
            shows=waiting.rows or waiting.first,
            has_views=look.has_views,
            counted=len(look.keys),
        ),
    }
    template = "hitl/inbox/_inbox.html" if live else "hitl/inbox/inbox.html"
    return render(request, template, context, status=listing.status)


@require_POST
@login_required
def close_welcome(request: HttpRequest) -> HttpResponse:
    """Show the lines for newcomers no more to this person, in this browser."""
    answer = redirect("hitl:inbox")
    answer.set_cookie(
        _welcome_of(person(request)),
        "closed",
        max_age=WELCOME_CLOSED,
        secure=request.is_secure(),
        httponly=True,
        samesite="Lax",
    )
    return answer


def _welcome_of(user: User) -> str:
    return f"welcome_{user.pk}"


def _rows(
    request: HttpRequest, listing: Listing, rows: Sequence[Waiting], *, several: bool
) -> SafeString:
    user = person(request)
    shown = ((row.pause.pk, texts_of(row)) for row in rows)
    told = QuestionRows(
        user.pk,
        KINDS,
        several=several,
        waits_for=_waits_for(rows, user) if listing.asked["whose"] == ASKED else None,
        token=lambda: get_token(request),
        back=_back(listing),
        found=marks.find(listing.asked.words, shown, marks.of_questions()),
    )
    return SafeString("\n".join([told.html(row) for row in rows]))


def _waits_for(rows: Sequence[Waiting], user: User) -> dict[uuid.UUID, str]:
    """Question → whom it waits for: said where that is somebody else."""
    pauses = Pause.objects.select_related("run__thread__owner", "run__thread__team").only(
        *("review", "turn", "stage", "outside", "run__thread__team__name", "run__thread__owner")
    )
    found = pauses.filter(pk__in=[row.pause.pk for row in rows])
    return {pause.pk: ReviewContext(pause, user).who for pause in found}


def _back(listing: Listing) -> str:
    """The query of the list that an answer leads back to."""
    return listing.here.only(*FILTERS, "after").to().partition("?")[2]


def _elsewhere(user: User, tab: str) -> int:
    """Where nothing is shown, how many questions stand under the other tabs: of the own work where
    nothing waits at all, else of all that waits.
    """
    return changes.count(whose.asked(user) if not tab else changes.inbox(user))


@require_safe
@login_required
def rows(request: HttpRequest) -> HttpResponse:
    """The rows of `?ids=`, as the inbox of the same address has them, of those that wait for this
    person and fit its filters.
    """
    try:
        named = filter(None, request.GET.get("ids", "").split(","))
        keys = [ids.parse(Pause.PREFIX, one) for one in named]
    except ValueError as error:
        return HttpResponse(str(error), status=422, content_type="text/plain")
    if len(keys) > SHOWN:
        said = gettext("Ask for up to %(most)s questions at once.") % {"most": SHOWN}
        return HttpResponse(said, status=422, content_type="text/plain")
    listing = Listing(request, INBOX)
    found = _fitting(request, listing, keys) if keys and listing.refused is None else []
    told = _rows(request, listing, found, several=True)
    return HttpResponse(format_html("<ul>{}</ul>", told), status=listing.status)


def _fitting(
    request: HttpRequest, listing: Listing, keys: Sequence[uuid.UUID]
) -> Sequence[Waiting]:
    """Those of some questions that are in the inbox and fit its filters."""
    size = 1 if len(keys) == 1 else SHOWN
    if UNTIMED.issuperset(listing.asked.given):
        # the same key again finds no row more
        same = [keys[-1]] * (size - len(keys))
        found = _prepared(listing.asked, size).get(listing.asker.user, *keys, *same)
        if found is not None:
            return list(reading.read_waiting(found))
    mine = listing.among(inbox_of(person(request), listing.asked, waiting_of(request)))
    return reading.waiting(list(mine.filter(pk__in=keys).values_list("pk", flat=True)))


UNTIMED = frozenset({*of_questions(), WORDS, SORT})
"""What an inbox may be asked that says no time."""
NEVER = dt.datetime.max.replace(tzinfo=dt.UTC)
"""What is asked instead of the time: where a filter counts from it, that fails."""


@lru_cache(maxsize=100)
def _prepared(asked: Asked, size: int) -> PreparedInbox:
    """The rows of so many questions, where they fit: an open page asks for what changed in it."""

    def build(waiting: PauseQuerySet, user: User, *keys: uuid.UUID) -> QuerySet[Any, Any]:
        asker = Asker(user, NEVER)
        rows = INBOX.among(waiting, asked, asker).filter(pk__in=keys)
        return rows.values_list(*reading.OPEN_ROW)

    return PreparedInbox(build, *[uuid.UUID] * size)
