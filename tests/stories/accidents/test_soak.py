"""Two minutes of `make soak`: steady load, retention at work, and nothing grows."""

from __future__ import annotations

import json

import pytest

from bench.soak.__main__ import compare, main
from tests.stories.accidents.drills import drill, summary_of

pytestmark = pytest.mark.stack


def test_memory_descriptors_rows_and_keys_stay_flat_while_work_comes_and_what_is_old_goes():
    """Issue 20: an hour of it is `make soak`."""
    done = drill("bench.soak", "--minutes", "2", "--rate", "0.2")
    summary = summary_of(done)
    lines = [json.loads(line) for line in done.stdout.splitlines()[:-1]]
    assert done.returncode == 0, (summary, [line for line in lines if line["flat"] is False])
    assert summary["invariants"] is True
    assert summary["orders"] > 20
    assert summary["answers"] > 0
    gauges = {line["gauge"]: line["flat"] for line in lines}
    assert {"MB of web", "descriptors of worker", "connections", "dead rows", "Redis: keys"} <= {
        gauge for gauge, flat in gauges.items() if flat
    }
    # what is old goes: each order of ten steps wrote eleven, and each that asked three
    kept = next(line for line in lines if line["gauge"].endswith("checkpoints_checkpoint"))
    assert kept["second_half"] < 9


def test_a_run_in_which_nothing_old_can_have_gone_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--minutes", "0.8"])
    assert "--minutes: 2 at least" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("gauge", "first", "second", "flat"),
    [
        ("MB of worker", 200, 215, True),
        ("MB of worker", 200, 260, False),
        ("descriptors of web", 40, 60, False),
        ("rows of checkpoints_event", 2000, 2600, False),
        ("rows per order of checkpoints_checkpoint", 4, 5, False),
        ("Redis: keys", 12, 90, False),
        ("MB of all tables", 10, 20, None),
    ],
)
def test_what_grew_is_told_from_what_only_moved(gauge, first, second, flat):
    assert compare(gauge, first, second)["flat"] is flat
