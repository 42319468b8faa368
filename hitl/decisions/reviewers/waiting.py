"""Which questions wait for a person, or were asked of them: what the rules of `policy` say of one
question, as a query of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeGuard

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Exists, OuterRef, Q

from checkpoints.database import clock
from checkpoints.database.people import User
from hitl.decisions.reviewers.seats import Seat, seats_of
from hitl.models import Vote, is_service
from runs.models import Pause, PauseQuerySet

Person = User | AbstractBaseUser | AnonymousUser


def waiting_for(user: Person) -> PauseQuerySet:
    """The open questions that a person may let go on, the longest-waiting ones among them: the
    inbox, its badge and every other count.

    A question that somebody else has claimed stays in it: claims pass.
    """
    if not may_be_asked(user):
        return Pause.objects.none()
    return waiting_at(user, seats_of(user, now=clock.now()))


def may_be_asked(user: Person) -> TypeGuard[User]:
    """Whether questions may wait for whoever that is at all."""
    return isinstance(user, User) and user.is_active and not is_service(user)


def waiting_at(user: User, seats: Sequence[Seat]) -> PauseQuerySet:
    """What waits for a person with these seats, by index scans each: the questions of one's
    threads, those whose rules name one, and the same for whom one stands in for.
    """
    parts = [part for seat in seats for part in _parts(user, seat)]
    if len(parts) == 1:
        return parts[0]
    keys = parts[0].values("pk").union(*(part.values("pk") for part in parts[1:]))
    return Pause.objects.open().filter(pk__in=keys)


def _parts(user: User, seat: Seat) -> Iterator[PauseQuerySet]:
    waiting = Pause.objects.open()
    if seat.only is not None:
        waiting = waiting.filter(pk=seat.only)
    yield _able(waiting.filter(_open_to_all(), _part_in(seat)), user, seat.user)
    if seat.named:
        asked = waiting.naming(seat.user.get_username(), seat.groups, in_turn=True)
        yield _able(asked, user, seat.user)


def _open_to_all() -> Q:
    return Q(panel=None) | Q(panel__open_to_all=True)


def _part_in(seat: Seat) -> Q:
    """Of the threads that somebody takes part in, as `Thread.objects.visible_to` has them.

    Who stands in for a superuser does not see all that that one sees. The teams are read first:
    from their keys PostgreSQL knows how many threads are theirs, and from a subquery it does not.
    """
    if seat.user.is_superuser and seat.since is None:
        return Q()
    if not seat.user.is_active and not seat.user.is_superuser:
        return Q(pk__in=[])
    return Q(run__thread__owner=seat.user.pk) | Q(run__thread__team__in=list(seat.teams))


def _able(pauses: PauseQuerySet, user: User, seat: User) -> PauseQuerySet:
    """Without what its rules forbid to approve, and what was voted on."""
    both = [user.pk, seat.pk]
    asked = Q(run__thread__owner__in=both) | Q(
        run__started_by__in=both, run__started_by__isnull=False
    )
    voted = Vote.objects.filter(Q(voter=user.pk) | Q(seat=seat.pk), pause=OuterRef("pk"))
    return pauses.filter(Q(panel=None) | ((Q(panel__self_approval=True) | ~asked) & ~Exists(voted)))


def asked_of(user: User) -> PauseQuerySet:
    """The questions, open or not, that a person was asked without taking part in their threads.

    Whom the rules name: from the stage on at which they do. Who stands in for somebody: what was
    open in that time, while it lasts.
    """
    condition = Q(pk__in=[])
    for seat in seats_of(user, now=clock.now()):
        theirs = Pause.objects.naming(seat.user.get_username(), seat.groups).values("pk")
        if seat.since is None:
            condition |= Q(pk__in=theirs if seat.named else [])
            continue
        in_time = Q(closed_at=None) | Q(closed_at__gte=seat.since)
        if seat.only is not None:
            in_time &= Q(pk=seat.only)
        condition |= in_time & (Q(pk__in=theirs) | (_open_to_all() & _part_in(seat)))
    return Pause.objects.filter(condition)
