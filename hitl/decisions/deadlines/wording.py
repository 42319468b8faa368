"""What a question's rules do at its deadline, in words: for pages, and for whoever asks why a run
does not go on.
"""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext

from runs.definitions import due_times
from runs.models import Pause
from runs.workflows.sequence import APPROVE


def outcome_of(pause: Pause) -> str:
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
            to = steps.get(pause.answers[APPROVE], "")
            return gettext("it counts as approved, by nobody: %(goes_on)s.") % {
                "goes_on": _goes_on(to, whole)
            }
        case "escalate":
            return gettext("%(names)s may answer too, and get as long again.") % {
                "names": next_people(pause)
            }
        case "expire":
            return gettext(
                "it expires: %(whole)s ends without an answer. The question can then be reopened."
            ) % {"whole": whole}
        case action:
            to = steps.get(pause.answers[action], "")
            return gettext("the run goes on without an answer: %(goes_on)s.") % {
                "goes_on": _goes_on(to, whole)
            }


def _goes_on(to: str, whole: str) -> str:
    if to:
        return gettext("%(step)s runs next") % {"step": to}
    return gettext("%(whole)s is complete") % {"whole": whole}


def escalation_of(pause: Pause) -> list[dict[str, Any]]:
    stages: list[dict[str, Any]] = pause.review.get("escalation", [])
    return stages


def next_people(pause: Pause) -> str:
    """Who comes with the next stage."""
    stage = next(iter(escalation_of(pause)[pause.stage :]), {})
    return ", ".join([*stage.get("users", []), *stage.get("groups", [])])
