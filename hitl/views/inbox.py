"""Two lists, never mixed: what waits for you, and what was decided."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_safe

from checkpoints import ids
from checkpoints.database.people import NAMED_BY, User
from hitl.decisions.deadlines import changes
from hitl.decisions.deadlines.changes import SOONEST
from hitl.decisions.reviewers import whose
from hitl.find import answers
from hitl.find.lists import KINDS
from hitl.find.questions import ASKED, INBOX, WHOSE_QUESTIONS, inbox_of
from hitl.live.inbox_feed import SHOWN
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress, ListOrder, ListPage
from hitl.views.cards.rows import QuestionRows
from hitl.views.common import person, waiting_count, waiting_of
from hitl.views.lists.bar import Listing
from hitl.views.lists.history import SHOWN_OF_ALL, WHOSE, history_of
from runs.models import Pause, PauseQuerySet

FILTERS = tuple(parameter.name for parameter in INBOX.parameters)
KEPT = (*FILTERS, "after", "past", "hidden")
"""What an address of the inbox says, and its links keep."""
TABS = {"": gettext_noop("All"), **WHOSE_QUESTIONS}
HIDDEN = paging.ListOrder("until")
ORDERS = {
    "due": gettext_noop("the earliest due first"),
    "newest": gettext_noop("the newest first"),
    "oldest": gettext_noop("those that wait longest first"),
}
SHOWN_OF_OPEN = (
    *SHOWN_OF_ALL,
    *("kind", "review", "turn", "opened_at", "changed_at", "deadline_at", "claimed_until"),
    *("status", "ways", "labels", "bare", "required_inputs", "calls", "content_digest"),
    *(f"claimed_by__{name}" for name in NAMED_BY),
)
MORE_OF_OTHERS = ("outside",)
"""A row says whom it waits for where that is somebody else."""


def open_shown(*more: str) -> PauseQuerySet:
    """Questions with what a row shows of them. `more` names further columns."""
    return Pause.objects.select_related(*WHOSE, "claimed_by").only(*SHOWN_OF_OPEN, *more)


def waiting_page(
    mine: PauseQuerySet, here: ListAddress, *more: str, order: ListOrder = SOONEST
) -> ListPage[Pause]:
    """A page of questions: found first, then read with what belongs to them, since so many joins
    are planned badly. `more` names further columns.
    """

    def read(after: str, limit: int) -> list[Pause]:
        keys = list(
            order(mine, order.read(after) if after else None).values_list("pk", flat=True)[:limit]
        )
        found = open_shown(*more).in_bulk(keys)
        return [found[key] for key in keys if key in found]

    return paging.paged(
        here, "after", read, lambda pause: order.write(order.place(pause)), size=SHOWN
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
    mine = listing.among(seen) if asked or listing.refused else seen
    narrowed = bool(asked.but_for("whose"))
    others = tab == ASKED
    waiting = waiting_page(mine, here, *_more(listing), order=listing.order)
    nothing = not waiting.rows and not narrowed and not listing.refused
    order = ORDERS[asked["sort"] or "due"]
    several = len(waiting.rows) > 1 and not others
    told = _rows(request, listing, several=several)
    context = {
        "waiting": [told.html(pause) for pause in waiting.rows],
        "several": several,
        "page": waiting,
        "back": _back(listing),
        "total": _total(request, mine, waiting),
        "newest": _newest(mine),
        "news": _asked_after(mine, request.GET.get("seen", "")),
        "kind": narrowed or listing.refused is not None,
        "sorted": gettext(order),
        "tab": tab,
        "tabs": [
            (here.only(*FILTERS).to(whose=value), gettext(label), value == tab)
            for value, label in TABS.items()
        ],
        "elsewhere": _elsewhere(user, tab) if nothing else 0,
        "snoozed": paging.in_order(changes.snoozed(user), HIDDEN, here, "hidden", size=SHOWN),
        "history": history_of(
            listing.asker,
            answers.beside_inbox(asked),
            here,
            given=answers.BESIDE_INBOX,
            over=answers.LAPSES_BESIDE_INBOX,
            refused=listing.refused is not None,
            anchor="history",
        ),
        "bar": None if live else listing.bar(seen),
    }
    template = "hitl/inbox/_inbox.html" if live else "hitl/inbox/inbox.html"
    return render(request, template, context, status=listing.status)


def _more(listing: Listing) -> tuple[str, ...]:
    return MORE_OF_OTHERS if listing.asked["whose"] == ASKED else ()


def _rows(request: HttpRequest, listing: Listing, *, several: bool) -> QuestionRows:
    return QuestionRows(
        person(request),
        KINDS,
        several=several,
        others=listing.asked["whose"] == ASKED,
        token=get_token(request),
        back=_back(listing),
    )


def _back(listing: Listing) -> str:
    """The query of the list that an answer leads back to."""
    return listing.here.only(*FILTERS, "after").to().partition("?")[2]


def _elsewhere(user: User, tab: str) -> int:
    """Where nothing is shown, how many questions stand under the other tabs: of the own work where
    nothing waits at all, else of all that waits.
    """
    return changes.count(whose.asked(user) if not tab else changes.inbox(user))


def _total(request: HttpRequest, mine: PauseQuerySet, page: ListPage[Pause]) -> int:
    if not page.cut:
        return len(page.rows)
    return waiting_count(request) if mine is waiting_of(request) else changes.count(mine)


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
    mine = listing.among(inbox_of(person(request), listing.asked, waiting_of(request)))
    wanted = list(mine.filter(pk__in=keys).values_list("pk", flat=True))
    found = open_shown(*_more(listing)).filter(pk__in=wanted)
    told = _rows(request, listing, several=True)
    lines = format_html_join("", "{}", ((told.html(pause),) for pause in found))
    return HttpResponse(format_html("<ul>{}</ul>", lines), status=listing.status)


def _newest(mine: PauseQuerySet) -> str:
    """The question that was asked last: what comes later is new to who looks at this page."""
    newest = mine.order_by("-pk").values_list("pk", flat=True).first()
    return ids.show(Pause.PREFIX, newest) if newest else ""


def _asked_after(mine: PauseQuerySet, seen: str) -> int:
    """How many questions were asked after that one."""
    return changes.count(mine.filter(pk__gt=SOONEST.read(seen).key)) if seen else 0
