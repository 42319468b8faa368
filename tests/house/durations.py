"""How long each file of tests took, kept in `tests/.artifacts` for the order of the next run."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
WHOLE = 200
"""Of fewer files nothing is kept: a few, beside nothing else, take another time."""
_took: defaultdict[str, float] = defaultdict(float)


def _kept() -> Path:
    database = "postgresql" if "TEST_POSTGRESQL" in os.environ else "sqlite"
    return TESTS / ".artifacts" / f"durations.{database}.json"


def known() -> dict[str, float]:
    """Seconds by file below `tests`; empty where no whole run is known."""
    with suppress(OSError, ValueError):
        found: dict[str, float] = json.loads(_kept().read_text())
        return found
    return {}


def note(test: str, seconds: float) -> None:
    _took[test.split("::")[0].removeprefix("tests/")] += seconds


def keep() -> None:
    if len(_took) < WHOLE:
        return
    _kept().parent.mkdir(exist_ok=True)
    unfinished = _kept().with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps({file: round(took, 1) for file, took in _took.items()}))
    unfinished.replace(_kept())
