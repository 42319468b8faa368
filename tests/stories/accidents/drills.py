"""A drill of `bench`, run as `make` runs it; it and all that it starts begin warm."""

from __future__ import annotations

import os
from subprocess import CompletedProcess

from tests.programs.begun import Begun


def drill(module: str, *arguments: str, **told: str) -> CompletedProcess[str]:
    """What `python -m module` ended with, and what it said; `told` by its environment."""
    environment = {**os.environ, **told}
    return Begun("-m", module, *arguments, environment=environment, begins_more=True).ended()
