"""The page of an order while it works, written once for all who watch it: behind each event they
all ask for the same.

Shared is what one person who stands to the order as another does is shown too, in the same
language; it is written without a person, and each gets a token of their own. A page with a question
is everybody's own.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.template import loader
from django.utils.translation import get_language

from checkpoints.database.people import User
from hitl.decisions import services, visibility
from hitl.http import tracing
from hitl.live import hub
from hitl.views.common import person
from runs.models import WorkOrder
from runs.services import priorities, resubmit

FOR = 1.0
"""Seconds for which a page is handed on: what no event tells shows by then."""
AGAIN = 0.25
"""Seconds for which it is handed on though more happened meanwhile: a page that is behind what it
was told looks again.
"""
RIGHTS_FOR = 5.0
"""Seconds for which is known whether a person may change an order's priority; who tries is asked
anew.
"""
EVERY, EACH = 120, 10
"""Milliseconds between two looks of a page, and how many more for each who watches."""
TOKEN = "token-of-whoever-is-shown-this"  # noqa: S105  # what stands in its place


class _Written(NamedTuple):
    seq: int
    at: float
    html: str


_lock = Lock()
_written: dict[Hashable, _Written] = {}
_writing: dict[Hashable, Lock] = {}
_may_change: dict[tuple[uuid.UUID, int], tuple[float, bool]] = {}


def order_page(
    request: HttpRequest, order_id: uuid.UUID, page_of: Callable[..., dict[str, Any]]
) -> HttpResponse | None:
    """What `hitl/orders/_order_live.html` shows, but for the way to the next question; None where
    it is not the same for others. `page_of` as in `hitl.views.orders`.

    Raises NotFound, Http404.
    """
    by = person(request)
    order = services.look_at_order(order_id, by=by)
    run = order.latest_run
    if run is None or order.gathering or getattr(order, "waits_for", None):
        return None
    if services.open_pauses(order):
        return None
    earlier, successor = resubmit.beside(order, by=by)
    key = (
        order.pk,
        request.GET.urlencode(),
        get_language(),
        visibility.is_observer(order.thread, by=by),
        _may_prioritise(order, by),
        earlier and earlier.pk,
        successor and successor.pk,
    )
    html = _once(key, order, lambda: page_of(order.pk, by=by, query=request.GET.dict()))
    if html is None:
        return None
    return HttpResponse(
        html.replace(TOKEN, get_token(request)), headers={tracing.HEADER: run.shown_id}
    )


def _once(key: Hashable, order: WorkOrder, read: Callable[[], dict[str, Any]]) -> str | None:
    """As somebody else was shown it just now; else written here. While it is being written, who
    wants it gets the one before: whoever waits keeps a connection to the database from others.
    """
    with _lock:
        mine = _writing.setdefault(key, Lock())
    html = _known(key, order.thread.last_seq, AGAIN)
    if html is not None or not mine.acquire(blocking=_known(key, 0, FOR) is None):
        return html or _known(key, 0, FOR)
    try:
        html = _known(key, order.thread.last_seq, AGAIN)  # written while this one waited
        return html or _write(key, read())
    finally:
        mine.release()


def _known(key: Hashable, seq: int, behind: float) -> str | None:
    """What was written FOR seconds ago at most, or `behind` where more happened since."""
    known = _written.get(key)
    if known is None:
        return None
    age = time.monotonic() - known.at
    return known.html if age < (FOR if known.seq >= seq else behind) else None


def _write(key: Hashable, context: dict[str, Any]) -> str | None:
    if context["undo"] or context["pause"]:
        return None
    now, order = time.monotonic(), context["order"]
    shown = {**context, "csrf_token": TOKEN, "shared": True, "look_every": _pace(order)}
    html = loader.render_to_string("hitl/orders/_order_live.html", shown)
    with _lock:
        for old in [one for one, written in _written.items() if now - written.at > FOR]:
            del _written[old]
            _writing.pop(old, None)
        _written[key] = _Written(context["seq"], now, html)
    return html


def _may_prioritise(order: WorkOrder, by: User) -> bool:
    now, key = time.monotonic(), (order.pk, by.pk)
    at, may = _may_change.get(key, (-RIGHTS_FOR, False))
    if now - at >= RIGHTS_FOR:
        for old in [one for one, (then, _) in list(_may_change.items()) if now - then > RIGHTS_FOR]:
            _may_change.pop(old, None)
        may = priorities.may_change(order, by)
        _may_change[key] = (now, may)
    return may


def _pace(order: WorkOrder) -> int:
    """After how many milliseconds a page looks again: with many who watch, all together look as
    often as the server can bear.
    """
    return EVERY + EACH * hub.watching(order.thread_id)
