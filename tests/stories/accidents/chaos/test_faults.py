"""Each fault of `make chaos` once, and everything killed under it, on one small world: hosts fall
silent, sessions end, commits stay unanswered, a standby takes over, disks are full. All that was
promised holds, and everything goes on by itself.
"""

from __future__ import annotations

import pytest

from bench.chaos.__main__ import main
from bench.chaos.maker import known
from tests.stories.accidents.drills import drill, summary_of

pytestmark = pytest.mark.stack
WANTED = {
    "crashes": 4,
    "silent_web": 1,
    "silent_beat": 1,
    "sessions": 1,
    "commit": 1,
    "disk": 1,
    "wal": 1,
    "standby": 1,
    "misdeeds": 1,
}
SMALL = (
    "--times 1 --seed 11 --every 0.5 --lease 9 --live 6 --pace 4 --clients 4 --racers 2 --pauses 2 "
    "--timeout 600"
)


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    names = [name for name in WANTED if known()[name].possible() is None]
    turns = ",".join(name for name in names for _ in range(WANTED[name]))
    logs = str(tmp_path_factory.mktemp("logs"))
    done = drill("bench.chaos", "--faults", turns, *SMALL.split(), "--keep", logs)
    found = summary_of(done)
    assert (done.returncode, found["breaches"]) == (0, []), found
    return found


def test_nothing_is_lost_doubled_stuck_or_early_whatever_breaks(summary):
    """P1-P4, S4-5, F8, F11-F13: clients at four doors, deadlines. S14-1, 4, 6, 10: rows stayed
    locked by silent hosts, runs ended with `step_error` when a session died, keys made two orders.
    """
    assert [summary[kind] for kind in ("lost", "doubled", "stuck", "early", "late", "wrong")] == [
        0
    ] * 6
    assert summary["keys"] == summary["orders"] > 0
    assert summary["children"] >= 2 * summary["ended"]["orders"]["completed"] > 0
    assert set(summary["answers_at"]) == {"rest", "page", "socket", "command"}
    assert summary["results"] + summary["cut_off"] == summary["effects"] <= summary["attempts"]
    assert summary["invariants"] == "clean"


@pytest.mark.parametrize("name", WANTED)
def test_the_fault_was_made_and_everything_went_on(summary, name):
    if name not in summary["faults"]:
        pytest.skip(known()[name].possible() or name)
    made = summary["faults"][name]
    assert made["times"] > 0, made
    # where beat is silent, what follows its lease is watched too: a new beat and a worker start
    assert made["slowest_others"] <= 9 or name != "silent_web"
    assert made["slowest_affected"] <= 60


def test_all_that_runs_is_killed_or_stands_still(summary):
    kinds = {"kill worker", "restart redis", "restart postgresql", "freeze worker"}
    assert set(summary["faults"]["crashes"]["kinds"]) == kinds


def test_sessions_are_ended_inside_every_call_of_the_sdk(summary):
    """A call that is added to the class and struck by nobody is a breach of its own; what a step
    answers is struck as well.
    """
    struck = set(summary["faults"]["sessions"]["kinds"])
    assert {"log", "once", "keep", "emit", "Ask"} <= struck, struck


def test_a_fault_that_there_is_not_is_named_with_those_that_there_are(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--faults", "crashes,rain"])
    said = capsys.readouterr().err
    assert "no such fault: rain. There are" in said
    assert "crashes" in said.split("There are")[1]
