from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import tests.planted
from tests.planted import Fault, decisions, doors, engine, states

ROOT = Path(__file__).resolve().parents[2]
FAULTS = [*decisions.FAULTS, *engine.FAULTS, *states.FAULTS, *doors.FAULTS]
NO_TESTS, PASSED = 5, 0
SECONDS = 900
"""That the files of one fault may take."""


def main(words: Collection[str]) -> int:
    chosen = [fault for fault in FAULTS if not words or any(word in fault.name for word in words)]
    missed = []
    with tempfile.TemporaryDirectory(
        prefix="waystation-planted-", ignore_cleanup_errors=True
    ) as name:
        copy = Path(name) / "copy"
        subprocess.run(["git", "clone", "-q", ROOT, copy], check=True)
        for path in _changed():  # what is not committed yet
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, copy / path)
        for fault in chosen:
            began = time.monotonic()
            noticed = _plant(fault, copy)
            print(
                f"{'noticed' if noticed else 'NOT NOTICED'}  {fault.breaks}: {fault.name} "
                f"({time.monotonic() - began:.0f} s)",
                flush=True,
            )
            missed += [] if noticed else [fault.name]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} noticed")
    return 1 if missed else 0


def _changed() -> Iterator[str]:
    command = ["git", "ls-files", "--modified", "--others", "--exclude-standard"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    yield from (path for path in said.splitlines() if (ROOT / path).is_file())


def _plant(fault: Fault, copy: Path) -> bool:
    """Whether one of its tests fails with it. Tests that do not end say nothing."""
    file = copy / fault.path
    whole = file.read_text()
    file.write_text(whole.replace(fault.was, fault.becomes))
    command = [sys.executable, "-m", "tests.run", "-q", "-x", "--no-header", *fault.noticed_by]
    try:
        done = subprocess.run(
            command,
            cwd=copy,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            timeout=SECONDS,
        )
        return done.returncode not in {PASSED, NO_TESTS}
    except subprocess.TimeoutExpired:
        return False
    finally:
        file.write_text(whole)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tests.planted",
        description=tests.planted.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", help="of the names of faults")
    parser.add_argument("--list", action="store_true", help="say what there is, and plant nothing")
    options = parser.parse_args()
    if options.list:
        sys.exit("\n".join(f"{fault.breaks}: {fault.name} ({fault.path})" for fault in FAULTS))
    sys.exit(main(options.words))
