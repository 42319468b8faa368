"""What a list is asked in a shell: `status=failed since=7d`, the words of its address."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandError
from django.db.models import QuerySet

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.models import Thread
from checkpoints.text import dates
from hitl.decisions.deadlines import changes
from hitl.find import answers, asking
from hitl.find.asking import Asked, NotUnderstood
from hitl.find.lists import Asker, List
from hitl.find.orders import ORDERS
from hitl.find.questions import INBOX, inbox_of
from hitl.find.threads import THREADS, standing
from hitl.models import Decision
from runs.models import Pause, WorkOrder

MOST = 500
"""Lines of a list."""


@dataclass(frozen=True)
class Shown:
    """How a shell shows a list."""

    asked_of: List
    seen_by: Callable[[User, Asked], QuerySet[Any]]
    read: Callable[[list[Any]], dict[Any, Any]]
    """The rows of some keys."""
    line: Callable[[Any], str]


def _order(order: WorkOrder) -> str:
    return f"{order.shown_id}  {order.status:<9}  {order.phase:<32}  {order.title}"


def _thread(thread: Thread) -> str:
    return f"{thread.shown_id}  {dates.told(thread.created_at)}  {thread}"


def _question(pause: Pause) -> str:
    order = pause.run.work_order
    due = dates.told(pause.deadline_at) if pause.deadline_at else "no deadline"
    return f"{pause.shown_id}  {due:<24}  {order or pause.run.thread}: {pause}"


def _answer(decision: Decision) -> str:
    at = dates.told(decision.decided_at)
    return f"{decision.shown_id}  {at}  {decision.action:<9}  {decision.who}"


def _inbox(user: User, asked: Asked) -> QuerySet[Pause]:
    return inbox_of(user, asked, changes.inbox(user))


def _orders(user: User, asked: Asked) -> QuerySet[WorkOrder]:
    return WorkOrder.objects.visible_to(user)


OF_QUESTION = ("run__work_order", "run__thread")
SHOWN = {
    shown.asked_of.name: shown
    for shown in (
        Shown(INBOX, _inbox, Pause.objects.select_related(*OF_QUESTION).in_bulk, _question),
        Shown(ORDERS, _orders, WorkOrder.objects.shown().in_bulk, _order),
        Shown(
            THREADS,
            lambda user, asked: standing(Thread.objects.visible_to(user)),
            Thread.objects.in_bulk,
            _thread,
        ),
        Shown(
            answers.ANSWERS,
            lambda user, asked: answers.answered(user),
            Decision.objects.select_related("decided_by", "on_behalf_of").in_bulk,
            _answer,
        ),
    )
}


def lines(name: str, words: Sequence[str], *, by: User, limit: int) -> list[str]:
    """The rows of a list that a person sees and that fit, a line each, and a line more where there
    are more. Raises CommandError.
    """
    if not 1 <= limit <= MOST:
        raise CommandError(f"--limit is a number from 1 to {MOST}.")
    shown, asker = SHOWN[name], Asker(by, clock.now())
    given: dict[str, list[str]] = {}
    for word in words:
        parameter, equals, value = word.partition("=")
        if not equals:
            raise CommandError(f"{word!r} is no filter. Say it as name=value, such as q=words.")
        given.setdefault(parameter, []).append(value)
    try:
        asked = asking.read(given.items(), shown.asked_of.parameters, now=asker.now)
    except NotUnderstood as error:
        raise CommandError(f"{error} There are: {', '.join(error.known)}.") from error
    fitting = shown.asked_of.among(shown.seen_by(by, asked), asked, asker)
    ordered = shown.asked_of.order_of(asked)(fitting)
    keys = list(ordered.values_list("pk", flat=True)[: limit + 1])
    rows = shown.read(keys[:limit])
    told = [shown.line(rows[key]) for key in keys[:limit] if key in rows]
    if len(keys) > limit:
        told.append(f"… and more: --limit {min(limit * 5, MOST)} shows more.")
    return told
