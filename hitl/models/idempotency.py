"""The rows of idempotency keys: found while they hold, forgotten by their age, erased with what
their answers speak of.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

from django.conf import settings

from checkpoints.database import clock
from checkpoints.database.people import User
from hitl.models.decisions import IdempotencyKey

BATCH = 1000
"""Keys that are forgotten in one statement."""


def find(person: User, key: str) -> IdempotencyKey | None:
    """The row of a key that is used up."""
    row = IdempotencyKey.objects.filter(user=person, key=key).first()
    if row is not None and row.made_at < clock.now() - _age():
        IdempotencyKey.objects.filter(pk=row.pk).delete()
        return None
    return row


def _age() -> dt.timedelta:
    return dt.timedelta(hours=settings.WAYSTATION_IDEMPOTENCY_HOURS)


def drop_old(*, now: dt.datetime) -> None:
    """Forget keys after their time, with the answers under them."""
    old = (
        IdempotencyKey.objects.filter(made_at__lt=now - _age())
        .order_by("made_at")
        .values_list("pk", flat=True)
    )
    while pks := list(old[:BATCH]):
        IdempotencyKey.objects.filter(pk__in=pks).delete()


def erase(shown_ids: Collection[str]) -> None:
    """Erase the answers that speak of any of these; their keys stay used up.

    Call inside a transaction.
    """
    wanted = set(shown_ids)
    named = IdempotencyKey.objects.values_list("pk", "made", "about").iterator()
    going = [pk for pk, made, about in named if wanted & {*made.split(), *about.split()}]
    gone = {
        "kept": IdempotencyKey.Kept.ERASED,
        "status": 410,
        "body": b"",
        "content_type": "",
        "made": "",
        "about": "",
    }
    for first in range(0, len(going), BATCH):
        IdempotencyKey.objects.filter(pk__in=going[first : first + BATCH]).update(**gone)
