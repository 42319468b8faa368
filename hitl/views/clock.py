"""What a card says about time: when a question is due, what its rules do then, and what its reader
can do about it.
"""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from django.utils.translation import gettext, ngettext

from checkpoints.store.prepared_queries import Prepared
from hitl.decisions.deadlines import changes
from hitl.decisions.reviewers.policy import ReviewContext
from hitl.models import Snooze
from runs.definitions import due_times
from runs.models import Pause
from runs.workflows.sequence import APPROVE

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
        "words": _outcome(pause),
        "problem": pause.times.get("problem", ""),
        "reminder": next((at for at in due_times.reminders(pause) if at > now), None),
        "stage_at": next(iter(due_times.stages(pause)[pause.stage :]), None)
        if pause.stage < len(_stages(pause))
        else None,
        "stage_names": _names(pause),
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


def _outcome(pause: Pause) -> str:
    """What the deadline does, to follow "If nobody answers by then,"."""
    whole = (
        gettext("this child run")
        if pause.run.parent_id
        else gettext("the work order")
        if pause.run.work_order_id
        else gettext("the run")
    )
    steps = {step["name"]: step["title"] for step in pause.run.frozen.steps}
    match due_times.outcome_of(pause):
        case "":
            return ""
        case "cancel":
            return gettext("%(whole)s is cancelled.") % {"whole": whole}
        case "approve":
            to = steps.get(pause.ways[APPROVE], "")
            return gettext("it counts as approved, by nobody: %(goes_on)s.") % {
                "goes_on": _goes_on(to, whole)
            }
        case "escalate":
            return gettext("%(names)s may answer too, and get as long again.") % {
                "names": _names(pause)
            }
        case "expire":
            return gettext(
                "it expires: %(whole)s ends without an answer. The question can then be reopened."
            ) % {"whole": whole}
        case action:
            to = steps.get(pause.ways[action], "")
            return gettext("the run goes on without an answer: %(goes_on)s.") % {
                "goes_on": _goes_on(to, whole)
            }


def _goes_on(to: str, whole: str) -> str:
    if to:
        return gettext("%(step)s runs next") % {"step": to}
    return gettext("%(whole)s is complete") % {"whole": whole}


def _stages(pause: Pause) -> list[dict[str, Any]]:
    stages: list[dict[str, Any]] = pause.review.get("escalation", [])
    return stages


def _names(pause: Pause) -> str:
    """Who comes with the next stage."""
    stage = next(iter(_stages(pause)[pause.stage :]), {})
    return ", ".join([*stage.get("users", []), *stage.get("groups", [])])
