"""What a card says about time: when a question is due, what its rules do then, and what its reader
can do about it.
"""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from django.utils.translation import ngettext

from checkpoints.store.prepared_queries import Prepared
from hitl.decisions.deadlines import changes, wording
from hitl.decisions.reviewers.policy import ReviewContext
from hitl.models import Snooze
from runs.definitions import due_times

_naps = Prepared(
    lambda pause, person, now: Snooze.objects.filter(pause=pause, person=person, until__gt=now),
    uuid.UUID,
    int,
    dt.datetime,
)


def shown_to(standing: ReviewContext) -> dict[str, Any]:
    """The context of `_deadline.html`."""
    pause, now, mine = standing.pause, standing.now, bool(standing.seats)
    return {
        "pause": pause,
        "words": wording.outcome_of(pause),
        "problem": pause.times.get("problem", ""),
        "reminder": next((at for at in due_times.reminders(pause) if at > now), None),
        "stage_at": next(iter(due_times.stages(pause)[pause.stage :]), None)
        if pause.stage < len(wording.escalation_of(pause))
        else None,
        "stage_names": wording.next_people(pause),
        "later": changes.choices(pause, now=now) if mine else [],
        "naps": [_nap(length) for length in changes.naps(pause, now=now)] if mine else [],
        "nap": _nap_of(standing),
    }


def _nap_of(standing: ReviewContext) -> Snooze | None:
    pause = standing.pause
    if not getattr(pause, "has_snoozes", True):  # as its page read it
        return None
    return next(iter(_naps.get(pause.pk, standing.by.pk, standing.now)), None)


def _nap(length: dt.timedelta) -> dict[str, Any]:
    hours = length // dt.timedelta(hours=1)
    if hours % 24 == 0:
        count = hours // 24
        words = ngettext("for %(count)s day", "for %(count)s days", count)
    else:
        count = hours
        words = ngettext("for %(count)s hour", "for %(count)s hours", count)
    return {"hours": hours, "words": words % {"count": count}}
