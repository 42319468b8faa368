"""What must hold in the database at every moment, as queries that find where it does not.

They read only.

Each is one statement, so it sees one moment of a database that others write to: no false alarm from
two reads at two times. What a constraint forbids is asked all the same: a constraint can be
dropped, or a dump restored without it.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator

from django.db.models import Model, QuerySet

from checkpoints import ids
from hitl.operations.invariants import (  # noqa: F401  # each registers its own
    answers,
    base,
    effects,
    given,
    waiting,
    work,
)
from hitl.operations.invariants.base import Invariant as Invariant
from hitl.operations.invariants.base import InvariantResult as InvariantResult

log = logging.getLogger(__name__)
SHOWN = 20
LATE = dt.timedelta(seconds=60)


def check(
    *, now: dt.datetime, late: dt.timedelta = LATE, deep: bool = False
) -> Iterator[InvariantResult]:
    """Look at all invariants, one after the other; without `deep` at those that the database can
    answer by itself.
    """
    for invariant in INVARIANTS:
        if deep or not invariant.deep:
            yield _look(invariant, now - late)


def _look(invariant: Invariant, before: dt.datetime) -> InvariantResult:
    """What breaks it.

    Rows that cannot even be read as what they should be break it too, and the other invariants are
    still asked.
    """
    try:
        return _found(invariant, before)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        log.exception("invariant %s could not be read to its end", invariant.code)
        return InvariantResult(
            invariant, 1, (f"damaged rows, which cannot be read: {type(error).__name__}",)
        )


def _found(invariant: Invariant, before: dt.datetime) -> InvariantResult:
    broken = invariant.broken(before)
    if isinstance(broken, QuerySet):
        rows = list(broken[: SHOWN + 1])
        count = len(rows) if len(rows) <= SHOWN else broken.count()
        return InvariantResult(invariant, count, tuple(_shown(row) for row in rows[:SHOWN]))
    shown: list[str] = []
    count = 0
    for row in broken:
        count += 1
        if count <= SHOWN:
            shown.append(_shown(row))
    return InvariantResult(invariant, count, tuple(shown))


def _shown(row: Model) -> str:
    return row.shown_id if isinstance(row, ids.HasShownId) else str(row.pk)


INVARIANTS: tuple[Invariant, ...] = tuple(
    sorted(base.registered, key=lambda invariant: int(invariant.promise.removeprefix("P")))
)
