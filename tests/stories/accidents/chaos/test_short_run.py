"""A short `make chaos`: everything dies and comes back under a few runs, and the books are right
afterwards.
"""

from __future__ import annotations

import json

import pytest

from tests.stories.accidents.drills import drill

pytestmark = pytest.mark.stack


def test_a_few_runs_and_their_children_survive_that_everything_under_them_is_killed(tmp_path):
    """P1-P4, S4-5, F8, F11-F13: workers killed and frozen, Redis and PostgreSQL restarted, twenty
    clients at four doors, and deadlines.
    """
    arguments = [
        "--faults",
        "crashes",
        "--runs",
        "8",
        "--pauses",
        "3",
        "--seed",
        "7",
        "--every",
        "4",
        "--lease",
        "3",
    ]
    arguments += ["--timeout", "150", "--keep", str(tmp_path)]
    done = drill("bench.chaos", *arguments)
    assert done.stdout, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, summary["breaches"]) == (0, []), summary
    assert summary["orders"] == 8
    assert summary["children"] >= 2 * summary["ended"]["orders"]["completed"] > 0
    assert summary["keys"] == 8
    assert (summary["lost"], summary["doubled"], summary["stuck"], summary["early"]) == (0, 0, 0, 0)
    assert summary["faults"]["crashes"]["times"] > 0
    assert set(summary["answers_at"]) == {"rest", "page", "socket", "command"}
    assert summary["results"] + summary["cut_off"] == summary["effects"] <= summary["attempts"]


def test_a_fault_that_there_is_not_is_named_with_those_that_there_are():
    done = drill("bench.chaos", "--faults", "crashes,rain")
    assert done.returncode == 2
    assert "no such fault: rain. There are" in done.stderr
    assert "crashes" in done.stderr.split("There are")[1]
