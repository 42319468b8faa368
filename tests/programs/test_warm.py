"""What begins in the middle is as what begins at its beginning."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import warm

TELLS = """
import os, sys
print(sys.argv[1:], os.environ["GIVEN"], os.environ.get("HOME"), os.getcwd(), oct(os.umask(0)))
print(os.getsid(0) == os.getpid(), sys.stdin.read(), sorted(os.listdir("/proc/self/fd")))
print(sorted(name for name in sys.modules if name.split(".")[0] in {"project", "runs", "hitl"}))
print("trouble", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(TELLS)
    return tmp_path / "program.py"


def begin(path: Path, *words: str, into: Path) -> warm.Process:
    with open(into, "wb") as output, open(into.with_suffix(".err"), "wb") as errors:
        return warm.start(
            [str(path), *words],
            environment={"GIVEN": "here", **warm.OWN},
            output=output.fileno(),
            errors=errors.fileno(),
            umask=0o27,
        )


def test_a_program_sees_and_says_what_it_would_from_a_cold_start(program, tmp_path):
    process = begin(program, "3", "more", into=tmp_path / "warm")
    assert process.wait(60) == 3 == process.poll()
    with open(tmp_path / "cold", "wb") as output:
        subprocess.run(
            [sys.executable, program, "3", "more"],
            cwd=warm.ROOT,
            env={"GIVEN": "here", **warm.OWN},
            stdout=output,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            umask=0o27,
        )
    assert (tmp_path / "warm").read_text() == (tmp_path / "cold").read_text()
    assert (tmp_path / "warm.err").read_text() == "trouble\n"


def test_it_is_killed_and_waited_for_as_a_child(tmp_path):
    (tmp_path / "program.py").write_text("import time; time.sleep(600)")
    process = begin(tmp_path / "program.py", into=tmp_path / "out")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait(10) == -9


def test_what_python_reads_at_its_start_is_not_told_too_late():
    assert warm.may_be({**os.environ, **warm.OWN, "WAYSTATION_DATA": "elsewhere"})
    for name in ("PYTHONPATH", "PYTHONHASHSEED", "LD_PRELOAD", "FAKETIME", "LC_ALL"):
        assert not warm.may_be({**os.environ, **warm.OWN, name: "other"}), name
