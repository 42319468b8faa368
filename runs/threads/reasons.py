"""Reasons for which a run does not go on: their codes, and what is said of one."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db import models
from django.utils.translation import gettext_lazy

from runs.models import Pause, Run, WorkOrder
from runs.states import PENDING, RUNNING


class Code(models.TextChoices):
    """What a run waits for. Programs go by the names, people by the labels."""

    AT_WORK = "at_work", gettext_lazy("A worker is on it")
    WORKER_LOST = "worker_lost", gettext_lazy("Its worker was lost")
    QUEUED = "queued", gettext_lazy("It waits for a worker")
    NO_WORKER = "no_worker", gettext_lazy("No worker takes its queue")
    NO_SWEEP = "no_sweep", gettext_lazy("Lost messages are not sent again")
    STUCK = "stuck", gettext_lazy("It is stuck")
    TIMER = "timer", gettext_lazy("It sleeps")
    RETRY = "retry", gettext_lazy("Its step is tried again")
    UNDO = "undo", gettext_lazy("An answer can still be taken back")
    LATER = "later", gettext_lazy("It was put off")
    PLACE = "place", gettext_lazy("It waits for a place under a limit")
    HELD = "held", gettext_lazy("It is held because of its code")
    PERSON = "person", gettext_lazy("It waits for an answer")
    OUTSIDE = "outside", gettext_lazy("It waits for an answer from outside")
    STOPPED = "stopped", gettext_lazy("It was told to stop here")
    SUSPENDED = "suspended", gettext_lazy("It is suspended")
    CHILDREN = "children", gettext_lazy("It waits for child runs")
    COMPLETED = "completed", gettext_lazy("It is complete")
    FAILED = "failed", gettext_lazy("It failed")
    CANCELLED = "cancelled", gettext_lazy("It was cancelled")
    EXPIRED = "expired", gettext_lazy("Nobody answered in time")
    NOT_BEGUN = "not_begun", gettext_lazy("Nothing has begun")
    TURN = "turn", gettext_lazy("A message waits for its turn")


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why one run stands where it stands."""

    code: Code
    words: str
    run: Run | None = None
    details: Sequence[str] = ()
    since: dt.datetime | None = None
    sent_at: dt.datetime | None = None
    """When its message went to the broker last, as far as rows say: as it became due, or by the
    last look of beat's."""
    until: dt.datetime | None = None
    """When it ends, or something else happens, if that is known."""
    then: str = ""
    """What happens at that time."""
    advice: str = ""
    """What can be done, and by whom."""
    pause: Pause | None = None
    holders: Sequence[WorkOrder] = ()
    """Orders that hold the places it waits for, as far as the reader may see them."""
    other_holders: int = 0
    key: str = field(init=False, default="")
    """Changes with what people read of it."""

    @property
    def may_be_sent_again(self) -> bool:
        """Whether a worker could take it up if its message came, or came again."""
        lost = {Code.WORKER_LOST, Code.QUEUED, Code.NO_SWEEP, Code.STUCK}
        return self.code in lost and self.run is not None and self.run.status in {PENDING, RUNNING}

    @property
    def moves(self) -> bool:
        """Whether a worker has it, or will at any moment."""
        return self.code in {Code.AT_WORK, Code.QUEUED}

    def __post_init__(self) -> None:
        # a lease is renewed every few seconds, which is no news
        until = None if self.code == Code.AT_WORK else self.until
        read = (self.code, self.words, *self.details, until, *(order.pk for order in self.holders))
        digest = hashlib.blake2b(repr((read, self.other_holders)).encode(), digest_size=6)
        object.__setattr__(self, "key", f"{self.code}-{digest.hexdigest()}")
