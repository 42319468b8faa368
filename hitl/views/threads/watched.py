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
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

from django.http import Http404, HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.template import loader
from django.utils import translation
from django.utils.safestring import mark_safe
from django.utils.translation import get_language

from checkpoints.database.people import User
from hitl.decisions import services, visibility
from hitl.http import tracing
from hitl.live import hub
from hitl.live.work_feed import SEPARATOR, WorkKind
from hitl.operations import failures
from hitl.views.common import person
from runs.models import WorkOrder
from runs.services import priorities, resubmit
from runs.states import FAILED

FOR = 1.0
"""Seconds for which a page is handed on: what no event tells shows by then."""
AGAIN = 0.25
"""Seconds for which it is handed on though more happened meanwhile: a page that is behind what it
was told looks again.
"""
RIGHTS_FOR = 5.0
"""Seconds for which is known whether a person may change an order's priority, suspend it, or read
tracebacks; who tries is asked anew.
"""
EVERY, EACH = 120, 10
"""Milliseconds between two looks of a page, and how many more for each who watches."""
TOKEN = mark_safe("<token>")
"""Stands where each who is shown the page gets a token of their own. What people and agents wrote
is escaped, so none of it can read as this, and be given its reader's token.
"""
PageOf: TypeAlias = Callable[..., dict[str, Any]]
"""`hitl.views.threads.order_page.page_of`."""


class _Written(NamedTuple):
    seq: int
    at: float
    html: str


_lock = Lock()
_written: dict[Hashable, _Written] = {}
_writing: dict[Hashable, Lock] = {}
_may_change: dict[Hashable, tuple[float, bool]] = {}


def order_page(request: HttpRequest, order_id: uuid.UUID, page_of: PageOf) -> HttpResponse | None:
    """What `hitl/orders/_order_live.html` shows, but for the way to the next question; None where
    it is not the same for others. `page_of` as in
    `hitl.views.threads.order_page`.

    Raises NotFound, Http404.
    """
    by = person(request)
    order = services.look_at_order(order_id, by=by)
    if not _is_shared(order) or order.latest_run is None:
        return None
    if order.standing == FAILED and _may_trace(by):
        return None
    earlier, successor = resubmit.beside(order, by=by)
    key = (
        order.pk,
        request.GET.urlencode(),
        get_language(),
        (observes := visibility.is_observer(order.thread, by=by)),
        _may_suspend(order, by, observes),
        _may_prioritise(order, by),
        earlier and earlier.pk,
        successor and successor.pk,
    )
    html = _once(key, order, lambda: page_of(order.pk, by=by, query=request.GET.dict()))
    if html is None:
        return None
    return HttpResponse(
        html.replace(SEPARATOR, "").replace(TOKEN, get_token(request)),
        headers={tracing.HEADER: order.latest_run.shown_id},
    )


def _is_shared(order: WorkOrder) -> bool:
    """Whether its page is the same for others who stand to it alike."""
    run = order.latest_run
    return (
        run is not None
        and not order.gathering
        and not getattr(order, "waits_for", None)
        and not services.open_pauses(order)
    )


def kind_of(user: User, thread_id: uuid.UUID, language: str) -> WorkKind | None:
    """As whom a person is brought an order's page; None for a thread of its own."""
    key = WorkOrder.objects.filter(thread=thread_id).values_list("pk", flat=True).first()
    if key is None:
        return None
    try:
        order = services.look_at_order(key, by=user)
    except services.NotFound:
        return None
    observes = visibility.is_observer(order.thread, by=user)
    may = _may_prioritise(order, user), _may_suspend(order, user, observes), _may_trace(user)
    return WorkKind(key, language, observes, *may, user.pk)


def write(kind: WorkKind, page_of: PageOf) -> tuple[int, str] | None:
    """The page, and as of which event; None where each has their own."""
    by = User.objects.select_related("service_account").filter(pk=kind.by, is_active=True).first()
    if by is None:
        return None
    try:
        order = services.look_at_order(kind.order_id, by=by)
        if not _is_shared(order) or any(resubmit.beside(order, by=by)):
            return None
        if kind.may_trace and order.standing == FAILED:
            return None
        with translation.override(kind.language):
            context = page_of(kind.order_id, by=by)
            html = _html(context)
    except (services.NotFound, Http404):
        return None
    return None if html is None else (context["seq"], html)


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
    now, html = time.monotonic(), _html(context)
    if html is None:
        return None
    with _lock:
        for old in [one for one, written in _written.items() if now - written.at > FOR]:
            del _written[old]
            _writing.pop(old, None)
        _written[key] = _Written(context["seq"], now, html)
    return html


def _html(context: dict[str, Any]) -> str | None:
    if context["undo"] or context["pause"]:
        return None
    shared = {"shared": mark_safe(SEPARATOR), "look_every": _pace(context["order"])}  # noqa: S308  # ours
    shared |= {"csrf_token": TOKEN, "trace": None}  # whoever may read where it failed has their own
    return loader.render_to_string("hitl/orders/_order_live.html", {**context, **shared})


def _may_prioritise(order: WorkOrder, by: User) -> bool:
    return _may((order.pk, by.pk), lambda: priorities.may_change(order, by))


def _may_suspend(order: WorkOrder, by: User, observes: bool) -> bool:
    may = partial(visibility.may_suspend, order.latest_run, by=by)
    return not observes or _may(("suspend", order.pk, by.pk), may)


def _may_trace(by: User) -> bool:
    return _may((failures.TRACEBACK, by.pk), lambda: failures.may_trace(by))


def _may(key: Hashable, ask: Callable[[], bool]) -> bool:
    """What was the case within `RIGHTS_FOR`, else asked now."""
    now = time.monotonic()
    at, may = _may_change.get(key, (-RIGHTS_FOR, False))
    if now - at >= RIGHTS_FOR:
        for old in [one for one, (then, _) in list(_may_change.items()) if now - then > RIGHTS_FOR]:
            _may_change.pop(old, None)
        may = ask()
        _may_change[key] = (now, may)
    return may


def _pace(order: WorkOrder) -> int:
    """After how many milliseconds a page looks again: with many who watch, all together look as
    often as the server can bear.
    """
    return EVERY + EACH * hub.watching(order.thread_id)
