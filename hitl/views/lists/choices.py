"""What there is to choose from in the filters of a list, with how many rows each choice leaves: a
page shows it to who looks for it, and asks for it then.
"""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from checkpoints.models import Thread
from hitl.find import answers, saved
from hitl.find.answers import ANSWERS
from hitl.find.counts import Part
from hitl.find.orders import ORDERS
from hitl.find.questions import INBOX, inbox_of
from hitl.find.threads import THREADS, standing
from hitl.views.common import person, waiting_of
from hitl.views.lists.bar import Listing
from runs.models import WorkOrder


def _inbox(request: HttpRequest, listing: Listing) -> list[Part]:
    return [(INBOX, inbox_of(person(request), listing.asked, waiting_of(request)))]


def _orders(request: HttpRequest, listing: Listing) -> list[Part]:
    return [(ORDERS, WorkOrder.objects.visible_to(person(request)))]


def _threads(request: HttpRequest, listing: Listing) -> list[Part]:
    return [(THREADS, standing(Thread.objects.visible_to(person(request))))]


def _history(request: HttpRequest, listing: Listing) -> list[Part]:
    user = person(request)
    return [(ANSWERS, answers.answered(user)), (answers.LAPSES, answers.lapsed(user))]


SEEN: dict[str, Callable[[HttpRequest, Listing], list[Part]]] = {
    INBOX.name: _inbox,
    ORDERS.name: _orders,
    THREADS.name: _threads,
    ANSWERS.name: _history,
}
"""List → its rows that whoever asks may see."""


@require_safe
@login_required
def choices(request: HttpRequest, listed: str) -> HttpResponse:
    """The filters of the list of that name, as its page has them in `?filters=open`, for what the
    query asks; 422 with what is wrong where it is not understood.
    """
    if listed not in SEEN:
        raise Http404(gettext("There is no such list."))
    listing = Listing(request, saved.LISTS[listed])
    (_, rows), *parts = SEEN[listed](request, listing)
    bar = listing.bar(rows, *parts, shows=True)
    return render(request, "hitl/lists/_choices.html", {"bar": bar}, status=listing.status)
