"""`make adversary`: games with seeds of their own on a private PostgreSQL, for as long as it is
told.

    make adversary ARGS="--minutes 60"

Prints one line of JSON last (games, moves, effects, decisions, breaches, moves by door); exits with
1 on a breach, whose shortest story comes before it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.run import ROOT, install_missing
from tests.servers.private import postgresql, redis


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="make adversary ARGS=…",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=60, help="how long new games begin (60)")
    options = parser.parse_args(arguments)
    os.chdir(ROOT)
    install_missing()
    with tempfile.TemporaryDirectory(
        prefix="waystation-adversary-", ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        folder.chmod(0o755)
        with postgresql(folder / "pg") as url, redis(folder) as broker:
            environment = {
                **os.environ,
                "DATABASE_URL": url,
                "TEST_REDIS_URL": broker,
                "TEST_POSTGRESQL": "1",
                "WAYSTATION_DATA": str(folder / "data"),
                "ADVERSARY_MINUTES": str(options.minutes),
                "ADVERSARY_SUMMARY": str(folder / "summary"),
            }
            words = [
                "-q",
                "-n",
                "0",
                "-p",
                "no:cacheprovider",
                "tests/adversary/test_machine.py",
                "-k",
                "reviewers",
                "--show-capture=no",
            ]
            ended = subprocess.run(
                [sys.executable, "-m", "pytest", *words], env=environment, check=False
            ).returncode
        summary = folder / "summary"
        print(summary.read_text() if summary.exists() else "{}", flush=True)
    return int(ended != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
