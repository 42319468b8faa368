"""Where in its author's code a run failed, for operators."""

from __future__ import annotations

from django.db import models

from checkpoints.models.fields import SealedTextField


class StepTraceback(models.Model):
    """The traceback of the latest failure of a run's step; each run has one at most.

    Written by `runs.engine.tracebacks`. It quotes code and values, so it takes a right of its own
    to read it: `runs.view_steptraceback`.
    """

    run = models.OneToOneField("runs.Run", models.PROTECT, related_name="step_traceback")
    step = models.CharField(max_length=100)
    text = SealedTextField(help_text="Of a long one the two ends; secrets of the run are scrubbed.")
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.step} of {self.run_id}"
