"""Bodies that no row refers to: what a crash or a rollback left in a store beside the database, or
what was dropped while it was away.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from itertools import islice

from django.db.models import QuerySet

from checkpoints.contract import configured
from checkpoints.contract.base import BodyStore
from checkpoints.database import clock
from checkpoints.models import Checkpoint
from checkpoints.state import codec
from checkpoints.store import bodies

AT_ONCE = 500


def drop(*, older_than: float, dry_run: bool = False) -> int:
    """Forget them, and give their number.

    Bodies of the last `older_than` seconds are left: their commit may be under way.

    A body has the key of the row that it was written for, so one look at the keys settles nearly
    all of them. Only the rest, whose row is gone or refers to another body, is looked for in the
    rows' texts, which no index serves.
    """
    number = 0
    for store in configured.readable():
        if isinstance(store, BodyStore):
            for thread_id, key in list(
                _strays(store, before=int((clock.now().timestamp() - older_than) * 1000))
            ):
                number += 1
                if not dry_run:
                    store.drop_bodies(thread_id, [key])
    return number


def _strays(store: BodyStore, *, before: int) -> Iterator[tuple[uuid.UUID, uuid.UUID]]:
    # a UUIDv7 begins with milliseconds
    old = (place for place in store.bodies() if place[1].int >> 80 < before)
    while some := list(islice(old, AT_ONCE)):
        wanted = {str(bodies.reference(store, *place)): place for place in some}
        own = Checkpoint.objects.filter(pk__in=[key for _, key in some])
        strays = {text for text in _texts(own) if text in wanted}
        if rest := [text for text in wanted if text not in strays]:
            strays |= set(
                _texts(Checkpoint.objects.filter(body__in=[codec.Text(text) for text in rest]))
            )
        yield from (place for text, place in wanted.items() if text not in strays)


def _texts(rows: QuerySet[Checkpoint]) -> list[str]:
    return [
        codec.encode(body) for body in rows.values_list("body", flat=True) if bodies.elsewhere(body)
    ]
