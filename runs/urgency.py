"""Which runs go first where more wait than workers can take: the priority of a run's message, and
the order in which the sweep sends.
"""

from __future__ import annotations

import enum
import uuid

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from checkpoints.database.people import User
from runs.models import Run, RunQuerySet
from runs.states import PENDING

SHARE = 10
"""New runs of one person that wait beside everybody else's; further ones wait behind those of
others (P12).
"""


class Urgency(enum.IntEnum):
    """Priority of a message in its queue: workers take the lowest number first.

    The numbers are the steps that kombu keeps apart in Redis (0, 3, 6, 9).
    """

    GOING_ON = 0
    """The run has begun: a person has just answered, its child runs have ended, or its worker was
    lost.
    """
    NEW = 3
    """The run waits for its first step."""
    CROWDED = 6
    """The run waits for its first step, and its owner has `SHARE` others that do."""


def of_new(owner: User) -> Urgency:
    """Give the urgency of a run that a person begins now.

    One query by an index, of at most `SHARE` rows.
    """
    waiting = (
        Run.objects.filter(status=PENDING, epoch=0, thread__owner=owner)
        .order_by()
        .values_list("pk", flat=True)[:SHARE]
    )
    return Urgency.CROWDED if len(waiting) == SHARE else Urgency.NEW


def in_order(overdue: RunQuerySet, *, most: int) -> list[tuple[uuid.UUID, Urgency]]:
    """Give the ids of runs that want a message, the most urgent first and of these the oldest
    first, at most `most` of each urgency.
    """
    begun = overdue.filter(epoch__gt=0).order_by("due_at").values_list("pk", flat=True)[:most]
    place = Window(RowNumber(), partition_by=F("thread__owner"), order_by="due_at")
    new = overdue.filter(epoch=0).annotate(place=place).order_by("due_at")
    fair = new.filter(place__lte=SHARE).values_list("pk", flat=True)[:most]
    rest = new.filter(place__gt=SHARE).values_list("pk", flat=True)[:most]
    return [
        *((pk, Urgency.GOING_ON) for pk in begun),
        *((pk, Urgency.NEW) for pk in fair),
        *((pk, Urgency.CROWDED) for pk in rest),
    ]
