"""A drill of `bench`, run as `make` runs it."""

from __future__ import annotations

import subprocess
import sys

from tests.servers.stack import ROOT


def drill(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What `python -m module` ended with, and what it said."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
