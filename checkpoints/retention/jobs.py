"""Work in small pieces that one process at a time does, whichever finds it due: who holds it, and
how far it has come.

Every transaction of the holder begins with `RoundClaim.hold`, so one that was frozen past its claim
writes nothing more.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from django.db.models import F, Q

from checkpoints.database import clock
from checkpoints.models import Chore

BUSY = dt.timedelta(seconds=60)
"""A holder that has shown no sign of life for so long is gone."""


class ClaimLost(Exception):
    """Another process has taken the chore over; the open transaction must end in a rollback."""


@dataclass
class RoundClaim:
    name: str
    epoch: int
    place: dict[str, Any] = field(default_factory=dict)
    """How far the chore has come; `hold` and `release` write it down."""

    def hold(self) -> None:
        """Begin a transaction of the chore with this. Raises ClaimLost."""
        if not Chore.objects.filter(pk=self.name, epoch=self.epoch).update(
            busy_until=clock.now() + BUSY, place=self.place
        ):
            raise ClaimLost(f"another process is at {self.name} now")

    def release(self, *, due_at: dt.datetime) -> None:
        """Let it go; it is due again then."""
        Chore.objects.filter(pk=self.name, epoch=self.epoch).update(
            busy_until=clock.now(), due_at=due_at, place=self.place
        )


def begin_round(name: str, *, apart: float) -> bool:
    """Whether to begin a round: none of this name began in the last `apart` seconds, by the
    database's clock. Of two who ask one may.
    """
    # the latter: a database whose clock was set back
    free = Q(due_at__lte=clock.FromNow()) | Q(due_at__gt=clock.FromNow(apart))
    next_at = clock.FromNow(apart)
    if Chore.objects.filter(free, pk=name).update(due_at=next_at):
        return True
    if Chore.objects.filter(pk=name).exists():
        return False
    Chore.objects.bulk_create([Chore(name=name, due_at=next_at)], ignore_conflicts=True)
    return True  # two who meet at the very first round both begin one, which does no harm


def claim(name: str, *, now: dt.datetime, early: bool = False) -> RoundClaim | None:
    """Take a chore that is due (or that is not, with `early`); None where it is not, or somebody
    else is at it.
    """
    chore = Chore.objects.filter(pk=name).first()
    if chore is None:
        Chore.objects.bulk_create(
            [Chore(name=name, busy_until=now, due_at=now)], ignore_conflicts=True
        )
        chore = Chore.objects.get(pk=name)
    if chore.busy_until > now or (chore.due_at > now and not early):
        return None
    free = Chore.objects.filter(pk=name, epoch=chore.epoch, busy_until=chore.busy_until)
    if not free.update(epoch=F("epoch") + 1, busy_until=clock.now() + BUSY):
        return None
    return RoundClaim(name, chore.epoch + 1, chore.place)
