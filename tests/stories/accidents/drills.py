"""A drill of `bench`, run as `make` runs it; it and all that it starts begin warm."""

from __future__ import annotations

import json
import os
from subprocess import CompletedProcess
from typing import Any

from tests.programs.begun import Begun


def drill(module: str, *arguments: str, **told: str) -> CompletedProcess[str]:
    """What `python -m module` ended with, and what it said; `told` by its environment."""
    environment = {**os.environ, **told}
    return Begun("-m", module, *arguments, environment=environment, begins_more=True).ended()


def summary_of(done: CompletedProcess[str]) -> dict[str, Any]:
    """The line of JSON that a drill ends with. What fell before says why."""
    assert done.stdout.endswith("}\n"), done.stdout + done.stderr
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return summary
