"""Anchors: once a day, how far each ledger has come, as a row and a line in the log of the process.

A line that leaves the server (a log host, a mail, paper) is what a ledger that was written anew
does not fit: `manage.py verify_ledger --against`. The database holds them too, for whoever looks
from inside.
"""

from __future__ import annotations

import datetime as dt
import logging

from django.db.models import F, OuterRef, Q, Subquery, Value
from django.db.models.functions import Coalesce

from checkpoints.database.rounds import RoundItem
from hitl.models import Anchor, Decision, Ledger

logger = logging.getLogger(__name__)


def drop_due(*, now: dt.datetime) -> list[Anchor]:
    """Write today's anchor of each ledger that has grown since its last one, but for those that
    have one of today; gives the new ones.

    Harmless when two do it at once: of two rows of a day one is kept.
    """
    day = now.astimezone(dt.UTC).date()
    last = Anchor.objects.filter(ledger=OuterRef("pk")).order_by("-day")
    grown = Ledger.objects.annotate(
        anchored=Coalesce(Subquery(last.values("position")[:1]), Value(0)),
        last_day=Subquery(last.values("day")[:1]),
        last_digest=Coalesce(Subquery(last.values("digest")[:1]), Value("")),
    ).filter(length__gt=F("anchored"))
    made: list[Anchor] = []
    for ledger in grown.filter(Q(last_day__isnull=True) | Q(last_day__lt=day)).order_by("pk"):
        with RoundItem(logger, f"the ledger {ledger.pk}"):
            anchor = _drop(ledger, ledger.last_digest, day)
            made += [anchor] if anchor else []
    return made


def _drop(ledger: Ledger, before: str, day: dt.date) -> Anchor | None:
    """Write the anchor of a ledger behind the one that has the digest `before`; None where another
    process did.
    """
    newest = (
        Decision.objects.filter(ledger=ledger.pk, position__lte=ledger.length)
        .order_by("-position")
        .first()
    )
    if newest is None:
        return None
    anchor = Anchor(
        ledger=ledger, day=day, position=newest.position, tip=newest.digest, previous=before
    )
    anchor.digest = anchor.compute_digest()
    Anchor.objects.bulk_create([anchor], ignore_conflicts=True)
    kept = Anchor.objects.get(ledger=ledger, day=day)
    if kept.digest != anchor.digest:
        return None
    logger.info("ledger anchor: %s", kept)
    return kept
