"""How often a template's runs write checkpoints, and what then holds. No queries here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy, gettext_noop


class Frequency(models.TextChoices):
    STEP = "step", gettext_lazy("After every step")
    NODES = "nodes", gettext_lazy("After every step, not after each of its loops")
    LOOPS = "loops", gettext_lazy("After every loop")
    FAILURE = "failure", gettext_lazy("On failure only")
    OFF = "off", gettext_lazy("Off: nothing to resume from")


WHEN = (
    "When checkpoints are written; pauses, answers, child runs, failures and ends always are. "
    "Off: only the beginning and the end."
)
HOW_LONG = (
    '{"days": …, "count": …}: how long, and how many per thread, checkpoints are kept; what is '
    "not named is as the settings say."
)

PROMISES: dict[str, str] = {
    Frequency.STEP: gettext_noop(
        "Progress is saved after every step. After a crash, no finished step runs again."
    ),
    Frequency.NODES: gettext_noop(
        "Progress is saved after every step, and not between loops. After a crash "
        "the loops of the step that was at work run "
        "again, under the same keys: what they recorded with context.once is not done again. "
        "Pauses, answers and ends are always kept."
    ),
    Frequency.LOOPS: gettext_noop(
        "Each loop of a step that repeats itself is kept at once. After a crash, single steps "
        "since the last checkpoint run again, under "
        "the same keys: what they recorded with context.once is not done again. Pauses, answers "
        "and ends are always kept."
    ),
    Frequency.FAILURE: gettext_noop(
        "Checkpoints are written where the run pauses, fails, hands over or ends. After a crash, "
        "all steps since the last one run again, "
        "under the same keys: what they recorded with context.once is not done again. Pauses, "
        "answers and ends are always kept."
    ),
    Frequency.OFF: gettext_noop(
        "Only the beginning and the end are kept, and where another worker takes the run over. "
        "After a crash, all steps since then run "
        "again, under the same keys: what they recorded with context.once is not done again. A "
        "run that failed cannot be resumed or "
        "forked: the work is begun anew. So no step may ask, start child runs or change code."
    ),
}


def needs_checkpoints(step: Mapping[str, Any], *, asks: bool) -> str:
    """Why a frozen step cannot do without checkpoints; "" where it can.

    `asks` says that its function may ask by itself.
    """
    reasons = {
        "pauses for a person": step["pause_after"]
        or step.get("interrupt_before")
        or step.get("interrupt_after")
        or asks,
        "starts child runs": step.get("sub_steps"),
        "leads to another one where it fails": step.get("on_failure"),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")
