"""Who else is at a question: "Ana is viewing", "Ben is writing a decision".

It keeps nobody from answering; for that there are claims.

Each open page says every few seconds that it is there; what is not said again is over after
`LASTS`. Rows, since pages of one question are served by several processes; the channel layer only
tells the others to ask.
"""

from __future__ import annotations

import datetime as dt
import uuid
from typing import TypedDict

from django.db import models, transaction

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.events import live
from hitl.decisions.reviewers import policy
from hitl.decisions.reviewers.policy import Actor
from hitl.decisions.visibility import find_shown
from hitl.models import Presence
from hitl.rendering.links import root_of
from runs.models import Pause
from runs.states import PauseStatus

LASTS = dt.timedelta(seconds=20)
"""A page says it again within less than half of that (`static/js/presence.js`)."""
NAMED = 20
TOPIC = "presence"
"""Names, in hints to a thread's watchers, that other people look at its question, or no longer."""


class Present(TypedDict):
    name: str
    writing: bool  # an answer, at this moment


def look(pause_id: uuid.UUID, *, by: User, now: dt.datetime) -> list[Present]:
    """Who else is at a question, by name. Raises services.NotFound."""
    return _others(find_shown(pause_id, by=by), by, now)


def note(pause_id: uuid.UUID, *, by: User, writing: bool, now: dt.datetime) -> list[Present]:
    """Say that a person is at a question, and who else is.

    Of one that is closed nobody is. Raises services.NotFound.
    """
    pause = find_shown(pause_id, by=by)
    if pause.status == PauseStatus.OPEN and _is_named(pause, by):
        _note(pause, by, writing, now)
    return _others(pause, by, now)


@transaction.atomic(durable=True)
def _note(pause: Pause, by: User, writing: bool, now: dt.datetime) -> None:
    until = now + LASTS
    if (
        Presence.objects.now(now=now)
        .filter(pause=pause, person=by, writing=writing)
        .update(until=until)
    ):
        return
    row = Presence(pause=pause, person=by, writing=writing, until=until)
    Presence.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["pause", "person"],
        update_fields=["writing", "until"],
    )
    _tell(pause)


def _tell(pause: Pause) -> None:
    # a child run's question is on its root's page
    for thread_id in {pause.run.thread_id, root_of(pause.run).thread_id}:
        live.side_hint_on_commit(thread_id, TOPIC)


def stop_writing(pause: Pause, *, by: Actor) -> None:
    """Say no more that a person writes: what they wrote is sent. Call inside a transaction."""
    if isinstance(by, User) and Presence.objects.filter(
        pause=pause, person=by, writing=True
    ).update(writing=False):
        _tell(pause)


def old(*, now: dt.datetime | clock.FromNow) -> models.QuerySet[Presence]:
    """Rows that say nothing any more."""
    return Presence.objects.filter(until__lte=now)


def drop_old(*, now: dt.datetime) -> None:
    old(now=now).delete()


def _is_named(pause: Pause, by: User) -> bool:
    """An administrator who sees everything, and is neither asked nor takes part, is not shown to
    those who do.
    """
    return not by.is_superuser or bool(policy.ReviewContext(pause, by).seats)


def _others(pause: Pause, by: User, now: dt.datetime) -> list[Present]:
    if pause.status != PauseStatus.OPEN:
        return []
    there = (
        Presence.objects.now(now=now)
        .filter(pause=pause, person__is_active=True)
        .exclude(person=by)
        .select_related("person")
    )
    return [
        Present(name=policy.name_of(presence.person), writing=presence.writing)
        for presence in there.order_by("pk")[:NAMED]
    ]
