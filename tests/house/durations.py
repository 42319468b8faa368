"""How long each file of tests took, kept in `tests/.artifacts` for the order of the next run."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from contextlib import suppress
from functools import cache
from math import inf
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
WHOLE = 200
"""Of fewer files nothing is kept: a few, beside nothing else, take another time."""
LARGEST = "stories/accidents/test_clocks.py"
"""None of its processes, whose clocks are wrong from their start, is the fork of one that shares
its memory.
"""
ROUGHLY = {
    "stories/accidents/chaos/test_faults.py": 158,
    "stories/accidents/test_soak.py": 126,
    "stories/browser/cards/test_keys.py": 124,
    "matrix/test_accessible.py": 91,
    "stories/accidents/test_broker.py": 81,
    "stories/accidents/test_bodies.py": 80,
    "project/test_installing.py": 75,
    "stories/accidents/test_database_stopped.py": 61,
    "stories/accidents/test_queues.py": 60,
    "stories/browser/cards/test_pane_accidents.py": 59,
    "stories/live/test_langgraph.py": 59,
    "stories/accidents/chaos/test_hosts.py": 59,
    "stories/live/test_langgraph_protocol.py": 58,
    "stories/browser/cards/test_card.py": 52,
    "stories/accidents/test_embedded.py": 52,
    "stories/browser/test_order.py": 51,
    "documents/test_examples.py": 49,
    "extensions/langgraph/graphs/test_step.py": 46,
    "matrix/test_permissions.py": 42,
    "stories/browser/test_inbox.py": 41,
    "stories/browser/test_thread.py": 40,
    "matrix/desk/test_desk.py": 40,
    "stories/accidents/test_clocks.py": 36,
    "checkpoints/backends/test_contract.py": 36,
    "stories/accidents/test_killed_keys.py": 35,
    "runs/accidents/test_crash_children.py": 34,
    "runs/accidents/test_crash_points.py": 33,
    "matrix/test_document.py": 32,
    "stories/browser/test_reviewers_hour.py": 32,
    "stories/accidents/test_upgrade.py": 32,
    "documents/test_pages.py": 30,
    "stories/accidents/test_accidents.py": 29,
    "stories/browser/test_coding.py": 28,
    "stories/live/test_run_stream.py": 27,
    "hitl/testing/test_crashes.py": 27,
    "extensions/repo_tidy/test_own_words.py": 27,
    "hitl/operations/test_embedding.py": 25,
}
"""Seconds of the longest, for a clone in which nothing is known yet: last, they leave processors
idle.
"""
_took: defaultdict[str, float] = defaultdict(float)


def _kept() -> Path:
    database = "postgresql" if "TEST_POSTGRESQL" in os.environ else "sqlite"
    return TESTS / ".artifacts" / f"durations.{database}.json"


def seconds(file: str) -> float:
    """That a file below `tests` took, or will take. One that came since the last whole run may take
    any time.
    """
    known = _known()
    return known.get(file, inf) if known else ROUGHLY.get(file, 0)


@cache
def _known() -> dict[str, float]:
    with suppress(OSError, ValueError):
        found: dict[str, float] = json.loads(_kept().read_text())
        return found
    return {}


def note(test: str, took: float) -> None:
    _took[test.split("::")[0].removeprefix("tests/")] += took


def keep() -> None:
    if len(_took) < WHOLE:
        return
    _kept().parent.mkdir(exist_ok=True)
    unfinished = _kept().with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps({file: round(took, 1) for file, took in _took.items()}))
    unfinished.replace(_kept())
