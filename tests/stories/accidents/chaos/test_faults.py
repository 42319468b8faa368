"""Each fault of `make chaos` once, on one small world: hosts fall silent, sessions end, commits
stay unanswered, a standby takes over,
disks are full. All that was promised holds, and everything goes on by itself."""

from __future__ import annotations

import json

import pytest

from bench.chaos.maker import known
from tests.stories.accidents.drills import drill

pytestmark = pytest.mark.stack
WANTED = [
    "silence",
    "silent_web",
    "silent_beat",
    "sessions",
    "commit",
    "disk",
    "wal",
    "standby",
    "misdeeds",
]


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    faults = [name for name in WANTED if known()[name].possible() is None]
    arguments = [
        "--faults",
        ",".join(faults),
        "--times",
        "1",
        "--seed",
        "11",
        "--every",
        "0.5",
        "--lease",
        "9",
    ]
    arguments += [
        "--live",
        "6",
        "--clients",
        "4",
        "--pauses",
        "2",
        "--timeout",
        "600",
        "--keep",
        str(tmp_path_factory.mktemp("logs")),
    ]
    done = drill("bench.chaos", *arguments)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, found["breaches"]) == (0, []), found
    return found


def test_nothing_is_lost_doubled_stuck_or_early_whatever_breaks(summary):
    """S14-1, 4, 6, 10: rows stayed locked by silent hosts, runs ended with `step_error` when a
    session died, keys made two orders.
    """
    assert [summary[kind] for kind in ("lost", "doubled", "stuck", "early", "late", "wrong")] == [
        0
    ] * 6
    assert summary["keys"] == summary["orders"] > 0
    assert summary["invariants"] == "clean"


@pytest.mark.parametrize("name", WANTED)
def test_the_fault_was_made_and_everything_went_on(summary, name):
    if name not in summary["faults"]:
        pytest.skip(known()[name].possible() or name)
    made = summary["faults"][name]
    assert made["times"] > 0, made
    # where beat is silent, what follows its lease is watched too: a new beat and a worker start
    assert made["slowest_others"] <= 9 or name not in {"silence", "silent_web"}
    assert made["slowest_affected"] <= 60


def test_sessions_are_ended_inside_every_call_of_the_sdk(summary):
    """A call that is added to the class and struck by nobody is a breach of its own; what a step
    answers is struck as well.
    """
    struck = set(summary["faults"]["sessions"]["kinds"])
    assert {"log", "once", "keep", "emit", "Ask"} <= struck, struck
