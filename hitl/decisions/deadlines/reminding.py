"""Reminders, and further people who are asked: by and by before the deadline, or at it.

What is due of several questions is worked out with nothing locked, and then written in few
statements. A question that was answered, moved or is held meanwhile is left out of them.
"""

from __future__ import annotations

import copy
import datetime as dt
import logging
import uuid
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.utils.translation import gettext

from checkpoints.database.people import NAME, User
from checkpoints.database.rounds import RoundItem
from checkpoints.events import log
from checkpoints.models import EventKind, Thread
from checkpoints.state import codec
from hitl.decisions import notifications
from hitl.decisions.reviewers import policy
from hitl.models import Snooze
from hitl.models.outbound import Delivery, Occasion
from runs.definitions import due_times
from runs.models import Pause, PauseQuerySet
from runs.services import PauseClosed

logger = logging.getLogger(__name__)

NAMED = 50
"""People that an event names."""
TIMES = ("reminded", "stage", "deadline_at", "turn")
"""Columns of a question that are as they were where nobody has moved its times meanwhile."""


class People:
    """Who may answer, and where they are told of what: looked up once for all questions of a batch
    for which that is the same.
    """

    def __init__(self) -> None:
        self._answerers: dict[Hashable, set[User]] = {}
        self._places: dict[Hashable, list[dict[str, Any]]] = {}

    def answerers(self, pause: Pause) -> set[User]:
        """As `policy.answerers`.

        Nobody has voted on most questions; on one with votes who voted is left out, so it is by
        itself.
        """
        thread = pause.run.thread
        barred = (
            frozenset()
            if pause.review.get("self_approval", True)
            else frozenset(policy.askers(pause))
        )
        key = (
            codec.encode(policy.named(pause)),
            thread.owner_id,
            thread.team_id,
            barred,
            pause.pk if pause.approvals else None,
        )
        if key not in self._answerers:
            self._answerers[key] = set(policy.answerers(pause))
        return self._answerers[key]

    def places(self, pause: Pause, occasion: str, people: Sequence[User]) -> list[dict[str, Any]]:
        """As `notifications.places`."""
        template = pause.run.frozen.template_slug
        key = (occasion, template, tuple(person.pk for person in people))
        if key not in self._places:
            self._places[key] = notifications.places(occasion, people, template=template)
        return self._places[key]


@dataclass
class Reminder:
    """What is to be written of one question."""

    pause: Pause
    columns: dict[str, Any]
    facts: list[tuple[EventKind, dict[str, Any]]] = field(default_factory=list)
    messages: list[Delivery] = field(default_factory=list)

    def changed(self) -> Pause:
        """Its question, as it is to be."""
        pause = copy.copy(self.pause)
        at = due_times.next_at({**pause.timing, **self.columns})
        for name, value in {**self.columns, "next_at": at}.items():
            setattr(pause, name, value)
        return pause


def act(pause: Pause, *, now: dt.datetime, asked: People) -> None:
    """Remind or ask further people of one question; raises PauseClosed where it is not as it was a
    moment ago.
    """
    if not _write([_drafted(pause, now, asked)]):
        raise PauseClosed(
            gettext("%(shown_id)s is not as it was a moment ago") % {"shown_id": pause.shown_id}
        )


def act_together(pauses: Sequence[Pause], *, now: dt.datetime, asked: People) -> set[uuid.UUID]:
    """The same of several; gives the keys of those of which it was written."""
    if len(pauses) < 2:
        return set()
    with RoundItem(logger, f"a batch that begins with {pauses[0].shown_id}"):
        return _write([_drafted(pause, now, asked) for pause in pauses])
    return set()


def _drafted(pause: Pause, now: dt.datetime, asked: People) -> Reminder:
    """What is due of a question: before its deadline the reminders and stages whose time has come;
    at it the next stage, which gets as long from now as the first people had.
    """
    reminded, stage = due_times.passed(pause, now)
    if pause.deadline_at is None or pause.deadline_at > now:
        found = Reminder(pause, {"reminded": reminded, "stage": stage})
        before = asked.answerers(pause)
        if missed := reminded - pause.reminded:
            more = {"instead_of": missed} if missed > 1 else {}
            _tell(found, "reminded", before, asked, **more)
        if stage > pause.stage:
            _tell_further(found, stage, before, asked)
        return found
    stage = max(stage, pause.stage + 1)
    limits = due_times.limits(due_times.longer(pause, now), now)
    assert limits["deadline_at"] is not None
    later = due_times.moved(
        pause, limits["deadline_at"], extendable_until=limits["extendable_until"]
    )
    found = Reminder(pause, {"reminded": reminded, "stage": stage, **later})
    _tell_further(found, stage, asked.answerers(pause), asked, deadline_at=later["deadline_at"])
    return found


def _tell_further(
    found: Reminder, stage: int, before: set[User], asked: People, **more: Any
) -> None:
    """Tell those who may answer from this stage on, and could not before."""
    pause = found.pause
    was, pause.stage = pause.stage, stage
    try:
        now_asked = asked.answerers(pause)
        _tell(found, "escalated", now_asked - before or now_asked, asked, **more)
    finally:
        pause.stage = was


def _tell(found: Reminder, occasion: str, people: set[User], asked: People, **more: Any) -> None:
    """Note that people are told that a question waits for them: `reminded` or `escalated`."""
    pause, to = found.pause, sorted(people, key=User.get_username)
    details = {
        name: value.isoformat() if isinstance(value, dt.datetime) else value
        for name, value in more.items()
    }
    event = {
        "what": occasion,
        "pause_id": pause.shown_id,
        "step": pause.step,
        "stage": pause.stage,
        "to": _named(pause, occasion, to)[:NAMED],
        **details,
    }
    found.facts.append((EventKind.PAUSE_UPDATED, event))
    mark = f"{pause.stage}.{pause.reminded}"
    found.messages += notifications.at_places(
        pause, occasion, asked.places(pause, occasion, to), mark=mark
    )
    if occasion == Occasion.REMINDED:
        found.messages += notifications.outside(pause, occasion, mark=mark)


def _named(pause: Pause, occasion: str, to: Sequence[User]) -> list[str]:
    """Who is told, as whoever sees the log may know it: those who take part by name, all others as
    the rules have them. Who is in a group, and whether there is somebody of a name, the log does
    not say.
    """
    if policy.open_to_all(pause) and not pause.stage:
        return [person.get_username() for person in to]
    *earlier, latest = [
        [*actors.get("users", []), *(f"the group {name}" for name in actors.get("groups", []))]
        for actors in policy.named(pause)
    ]
    before = {name for names in earlier for name in names}
    if occasion == Occasion.ESCALATED:
        return sorted(set(latest) - before or latest)
    voted = set(pause.votes.values_list(f"voter__{NAME}", flat=True)) if pause.approvals else set()
    return sorted({*before, *latest} - voted)


@transaction.atomic(durable=True)
def _write(reminders: Sequence[Reminder]) -> set[uuid.UUID]:
    """Write those whose questions are still as they were read; gives their keys.

    Questions that are told of come back to the inboxes that they were hidden from. One alone waits
    for whoever holds it.
    """
    held = _held(reminders)
    mine = [reminder for reminder in reminders if reminder.pause.pk in held]
    Pause.objects.change_each([reminder.changed() for reminder in mine], due_times.COLUMNS)
    told = [reminder for reminder in mine if reminder.facts]
    Snooze.objects.filter(pause__in=[reminder.pause.pk for reminder in told]).delete()
    log.append_each([(one.pause.run.thread_id, one.pause.run_id, one.facts) for one in told])
    notifications.write(message for reminder in told for message in reminder.messages)
    return held


def _held(reminders: Sequence[Reminder]) -> set[uuid.UUID]:
    """The keys of those that are as they were read; their rows and threads are this transaction's
    from now on.
    """
    alone = len(reminders) == 1
    times = {reminder.pause.pk: _times(reminder.pause) for reminder in reminders}
    rows = Pause.objects.open().filter(pk__in=times).order_by("pk")
    locked = rows.select_for_update(skip_locked=not alone, no_key=True)
    same = {pk for pk, *found in locked.values_list("pk", *TIMES) if found == times[pk]}
    if alone:
        return same
    threads = {reminder.pause.pk: reminder.pause.run.thread_id for reminder in reminders}
    logs = Thread.objects.filter(pk__in=[threads[pk] for pk in same]).order_by("pk")
    free = set(logs.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True))
    return {pk for pk in same if threads[pk] in free}


def _times(pause: Pause) -> list[Any]:
    return [getattr(pause, name) for name in TIMES]


def unchanged(pause: Pause) -> PauseQuerySet:
    """The open question, if nothing of its times has moved since it was read."""
    return Pause.objects.open().filter(
        pk=pause.pk, **{name: getattr(pause, name) for name in TIMES}
    )
