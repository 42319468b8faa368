"""A drill of `bench`, run as `make` runs it, from where the libraries are loaded."""

from __future__ import annotations

import os
from subprocess import CompletedProcess
from tempfile import TemporaryFile

from tests.programs import warm
from tests.servers.stack import UMASK


def drill(module: str, *arguments: str, **told: str) -> CompletedProcess[str]:
    """What `python -m module` ended with, and what it said; `told` by its environment."""
    with TemporaryFile() as output, TemporaryFile() as errors:
        ended = warm.start(
            ["-m", module, *arguments],
            environment={**os.environ, **warm.OWN, **told},
            output=output.fileno(),
            errors=errors.fileno(),
            umask=UMASK,
        ).wait()
        for said in (output, errors):
            said.seek(0)
        return CompletedProcess(module, ended, output.read().decode(), errors.read().decode())
