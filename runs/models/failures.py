"""Where in its author's code a run failed, for operators."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

from django.db import models

from checkpoints.models.fields import SealedTextField

FRAME = re.compile(r'^\s*File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
OURS = tuple(
    f"{Path(__file__).resolve().parents[2] / app}/"
    for app in ("checkpoints", "runs", "hitl", "project")
)
LIBRARIES = tuple(f"{sysconfig.get_path(kind)}/" for kind in ("stdlib", "purelib", "platlib"))
"""A failure is told where the author wrote, and not where we or a library raise it."""


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

    @property
    def place(self) -> str:
        """The innermost line that the author wrote, as `file, line n, in function`; "" where the
        traceback names none.
        """
        every = FRAME.findall(self.text)
        frames = [frame for frame in every if not frame[0].startswith((*OURS, *LIBRARIES, "<"))]
        return "{}, line {}, in {}".format(*frames[-1]) if frames else ""
