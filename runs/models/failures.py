"""Where in its author's code a run failed, for operators."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from typing import NamedTuple

from django.db import models

from checkpoints.models.fields import SealedTextField

FRAME = re.compile(r'^\s*File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
OURS = tuple(
    f"{Path(__file__).resolve().parents[2] / app}/"
    for app in ("checkpoints", "runs", "hitl", "project")
)
LIBRARIES = tuple(f"{sysconfig.get_path(kind)}/" for kind in ("stdlib", "purelib", "platlib"))
"""A failure is told where the author wrote, and not where we or a library raise it."""


class Frame(NamedTuple):
    file: str
    line: str
    function: str


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
        return f"{self.step}: {self.run_id}"

    @property
    def frame(self) -> Frame | None:
        """The innermost line that the author wrote; None where the traceback names none."""
        every = (Frame(*found) for found in FRAME.findall(self.text))
        frames = [frame for frame in every if not frame.file.startswith((*OURS, *LIBRARIES, "<"))]
        return frames[-1] if frames else None

    @property
    def place(self) -> str:
        """That line as `file, line n, in function`; "" where there is none."""
        return "{}, line {}, in {}".format(*self.frame) if self.frame else ""
