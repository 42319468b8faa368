"""What people may do about time: move a question's deadline for everybody, with a reason, or hide
it from the own inbox for a while.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import NAME, User
from checkpoints.events import log
from checkpoints.models import EventKind
from checkpoints.state import codec
from checkpoints.store.prepared_queries import PreparedCount, PreparedValues, Value
from checkpoints.text import dates
from hitl.decisions import visibility
from hitl.decisions.deadlines.reminding import unchanged
from hitl.decisions.reviewers import policy
from hitl.decisions.reviewers.seats import Seat, seats_of
from hitl.decisions.reviewers.waiting import may_be_asked, waiting_at
from hitl.decisions.services import check_open
from hitl.models import Snooze
from hitl.rendering import paging
from runs import keyed
from runs.definitions import due_times
from runs.models import Pause, PauseQuerySet
from runs.workflows.refusals import FieldsRefused

MAX_REASON = 2_000
LONGEST_SNOOZE = dt.timedelta(days=366)
STEPS = tuple(dt.timedelta(hours=hours) for hours in (1, 4, 24, 72, 168))
"""What pages offer."""


class NoDeadline(Exception):
    """The question waits for as long as it takes, so there is nothing to move."""

    code = "no_deadline"


class NotAnswerer(Exception):
    """Somebody who sees the question, but may not answer it."""

    code = "not_an_answerer"


class DeadlineMoved(Exception):
    """The deadline, or who is asked, changed at the same moment."""

    code = "deadline_moved"


class PostponingInvalid(FieldsRefused):
    """A time or a reason that cannot be taken; nothing was changed."""

    code = "postponing_invalid"

    def told(self, errors: Mapping[str, list[str]]) -> str:
        text = " ".join(chain(*errors.values()))
        return gettext("Nothing was changed. %(text)s") % {"text": text}


SOONEST = paging.ListOrder("deadline_at", timeless=True, prefix=Pause.PREFIX)
"""The inbox: what is due first, then what has no deadline and was asked first."""


MOST_COUNTED = 1000
"""Questions that are counted for a badge: where more wait, nobody needs to know how many, and a
page is not to cost more for each of them.
"""


def inbox(user: User) -> PauseQuerySet:
    """What waits for a person and is not hidden: the one query behind the inbox, its badge and its
    socket.
    """
    return _not_hidden(policy.waiting_for(user), user, clock.now())


def _not_hidden(waiting: PauseQuerySet, user: User, now: dt.datetime) -> PauseQuerySet:
    hidden = Snooze.objects.filter(pause=OuterRef("pk"), person=user.pk, until__gt=now)
    return waiting.filter(~Exists(hidden))


class PreparedInbox:
    """What is often asked of somebody's inbox: `inbox` and its SQL are made once for all people of
    as many teams.

    Args:
        build: makes a query of `values_list` of an inbox, its person and the values. It is to be
            the same one whoever that is and whatever they are, and to ask for no time.
    """

    def __init__(
        self,
        build: Callable[..., QuerySet[Any, Any]],
        *kinds: type[Value],
        made: type[PreparedValues] = PreparedValues,
    ) -> None:
        self._build, self._kinds, self._made = build, kinds, made
        self._known: dict[tuple[bool, bool, int], PreparedValues] = {}

    def get(self, user: User, *values: Value) -> list[list[Any]] | None:
        """The rows; None where the person stands in for others, or is none who may be asked: then
        the query is another one each time.
        """
        now = clock.now()
        seats = seats_of(user, now=now) if may_be_asked(user) else []
        if len(seats) != 1:
            return None
        [own] = seats
        form = (user.is_superuser, own.named, len(own.teams))
        teams: Iterable[int] = () if user.is_superuser else own.teams
        names = [user.get_username(), *own.groups] if own.named else []
        given: list[int | str] = [user.pk, *teams, *names]
        if form not in self._known:
            kinds = [type(value) for value in given]
            build = partial(self._of_inbox, *form)
            self._known[form] = self._made(build, dt.datetime, *kinds, *self._kinds)
        return self._known[form].get(now, *given, *values)

    def _of_inbox(
        self, is_superuser: bool, named: bool, size: int, now: dt.datetime, key: int, *given: Any
    ) -> QuerySet[Any, Any]:
        rest = iter(given)
        teams = range(size) if is_superuser else [next(rest) for _ in range(size)]
        user = User(pk=key, is_superuser=is_superuser)
        names = [""] * size
        if named:
            setattr(user, NAME, next(rest))
            names = [next(rest) for _ in range(size)]
        own = Seat(user, dict(zip(teams, names, strict=True)), named, None)
        return self._build(_not_hidden(waiting_at(user, [own]), user, now), user, *rest)


def count(waiting: PauseQuerySet) -> int:
    """How many questions wait, up to MOST_COUNTED: that many says that or more."""
    return waiting.order_by().values("pk")[:MOST_COUNTED].count()


_counted = PreparedInbox(
    lambda waiting, _: waiting.order_by().values_list("pk")[:MOST_COUNTED], made=PreparedCount
)


def count_inbox(user: User) -> int:
    """As `count` of somebody's inbox: every page asks."""
    counted = _counted.get(user)
    return count(inbox(user)) if counted is None else int(counted[0][0])


def snoozed(user: User) -> QuerySet[Snooze]:
    """What a person has hidden."""
    mine = Snooze.objects.filter(person=user, until__gt=clock.now())
    if not mine.exists():  # the usual, without a look at what waits
        return Snooze.objects.none()
    return mine.filter(pause__in=policy.waiting_for(user)).select_related(
        "pause__run__work_order", "pause__run__thread", "pause__run__parent"
    )


def snooze(pause_id: uuid.UUID, *, by: User, until: dt.datetime | None) -> Snooze | None:
    """Hide an open question from the own inbox until then; None shows it again.

    It shows again by itself when people are reminded.

    Raises NotFound, AlreadyAnswered, DeadlinePassed, NotAnswerer, PostponingInvalid.
    """
    pause = _find_open(pause_id, by)
    if until is None:
        Snooze.objects.filter(pause=pause, person=by).delete()
        return None
    now = clock.now()
    if not now < until <= now + LONGEST_SNOOZE:
        raise PostponingInvalid.of(
            "until", gettext("Choose a time from now on, up to a year ahead.")
        )
    if pause.deadline_at is not None and until >= pause.deadline_at:
        raise PostponingInvalid.of(
            "until",
            gettext("It is due at %(told)s: choose a time before that.")
            % {"told": dates.told(pause.deadline_at)},
        )
    return _hide(pause, by, until)


@transaction.atomic(durable=True)
def _hide(pause: Pause, by: User, until: dt.datetime) -> Snooze:
    return Snooze.objects.update_or_create(pause=pause, person=by, defaults={"until": until})[0]


def extend(pause_id: uuid.UUID, *, by: User, until: dt.datetime, reason: str) -> Pause:
    """Move the deadline of an open question to a later time, for everybody.

    Who, why and from when is recorded.

    Nobody moves one that has passed. Raises NotFound, AlreadyAnswered, DeadlinePassed, NotAnswerer,
    NoDeadline, PostponingInvalid; DeadlineMoved where it moved since it was read.
    """
    pause = _find_open(pause_id, by)
    if pause.deadline_at is None or pause.extendable_until is None:
        raise NoDeadline(gettext("This question has no deadline, so there is none to move."))
    reason = reason.strip()
    if not reason or len(reason) > MAX_REASON or reason != codec.readable(reason):
        raise PostponingInvalid.of(
            "reason",
            gettext("Say why, in up to %(max_reason)s characters: it is recorded with your name.")
            % {"max_reason": MAX_REASON},
        )
    if until <= pause.deadline_at:
        raise PostponingInvalid.of(
            "until",
            gettext("It is due at %(told)s: choose a later time.")
            % {"told": dates.told(pause.deadline_at)},
        )
    if until > pause.extendable_until:
        raise PostponingInvalid.of(
            "until",
            gettext("It may be moved to %(told)s at the latest.")
            % {"told": dates.told(pause.extendable_until)},
        )
    try:
        return _extend(pause, by=by, until=until, reason=reason)
    except DeadlineMoved:
        check_open(Pause.objects.get(pk=pause.pk))
        raise


@transaction.atomic(durable=True)
def _extend(pause: Pause, *, by: User, until: dt.datetime, reason: str) -> Pause:
    keyed.made(pause.shown_id)
    before = pause.deadline_at
    waits = unchanged(pause).filter(due_times.in_time())
    later = due_times.moved(pause, until)
    if not waits.change(**later, next_at=due_times.next_at({**pause.timing, **later})):
        raise DeadlineMoved(
            gettext(
                "The deadline was moved, or further people were asked, just now. Look again; "
                "nothing was changed."
            )
        )
    pause.refresh_from_db(fields=["deadline_at", "times", "next_at"])
    told = {
        "by": by.get_full_name() or by.get_username(),
        "reason": reason,
        "deadline_at": until.isoformat(),
    }
    event = {
        "what": "extended",
        "pause_id": pause.shown_id,
        "step": pause.step,
        "was": before.isoformat() if before else None,
        **told,
    }
    log.append(pause.run.thread_id, pause.run_id, [(EventKind.PAUSE_UPDATED, event)])
    return pause


def choices(pause: Pause, *, now: dt.datetime) -> list[dt.datetime]:
    """Later deadlines that a page offers: a while longer, and as far as it goes."""
    if (
        pause.deadline_at is None
        or pause.extendable_until is None
        or not now < pause.deadline_at < pause.extendable_until
    ):
        return []
    later = [pause.deadline_at + step for step in STEPS]
    return [*(at for at in later if at < pause.extendable_until), pause.extendable_until]


def naps(pause: Pause, *, now: dt.datetime) -> list[dt.timedelta]:
    """How long a page offers to hide a question: until before its deadline."""
    return [step for step in STEPS if pause.deadline_at is None or now + step < pause.deadline_at]


def may_answer(pause: Pause, user: User) -> bool:
    return bool(policy.ReviewContext(pause, user).seats)


def _find_open(pause_id: uuid.UUID, by: User) -> Pause:
    pause = visibility.find_pause(Pause.objects.answerable(), pause_id, by=by)
    check_open(pause)
    if not may_answer(pause, by):
        raise NotAnswerer(gettext("Only who may answer this question may do that."))
    return pause
