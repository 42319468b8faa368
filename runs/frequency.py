"""How often a template's runs write checkpoints, and what then holds (S0-65). No queries here."""

from __future__ import annotations

from django.db import models


class Frequency(models.TextChoices):
    STEP = "step", "After every step"
    LOOPS = "loops", "After every loop"
    FAILURE = "failure", "On failure only"


WHEN = "When checkpoints are written; pauses, answers, child runs, failures and ends always are."
HOW_LONG = '{"days": …, "count": …}: how long, and how many per thread, checkpoints are kept; what is not named is as the settings say.'

PROMISES: dict[str, str] = {
    Frequency.STEP: (
        "Each step's result is kept at once. After a crash the run goes on at the step that was at work; no step that finished runs again."
    ),
    Frequency.LOOPS: (
        "Each loop of a step that repeats itself is kept at once. After a crash, single steps since the last checkpoint run again, under "
        "the same keys: what they recorded with context.once is not done again. Pauses, answers and ends are always kept."
    ),
    Frequency.FAILURE: (
        "Checkpoints are written where the run pauses, fails, hands over or ends. After a crash, all steps since the last one run again, "
        "under the same keys: what they recorded with context.once is not done again. Pauses, answers and ends are always kept."
    ),
}
