"""`make test`: private PostgreSQL and Redis, then all tests on PostgreSQL, then those that touch
the database again on SQLite.

A missing server is installed (as root on Debian) or fails the run with a sentence; nothing is
skipped for want of one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.servers.private import faketime, find, postgresql, redis

ROOT = Path(__file__).resolve().parent.parent
NEEDED = {
    "postgresql": "postgres",
    "redis-server": "redis-server",
    "chromium": "chromium",
    "git": "git",
}
SPREAD = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
"""By file, in the order of tests/conftest.py."""


def main(arguments: list[str]) -> int:
    os.chdir(ROOT)
    install_missing()
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="waystation-", ignore_cleanup_errors=True)
            )
        )
        folder.chmod(0o755)
        environment = {
            # hundreds of processes start here
            **{key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
            "DATABASE_URL": stack.enter_context(postgresql(folder / "pg")),
            "TEST_REDIS_URL": stack.enter_context(redis(folder)),
            "TEST_POSTGRESQL": "1",
            "WAYSTATION_DATA": str(folder / "data"),
        }
        first = pytest(environment, [*SPREAD, *arguments])
        sqlite = {key: value for key, value in environment.items() if key != "TEST_POSTGRESQL"}
        sqlite["DATABASE_URL"] = f"sqlite:///{folder / 'data' / 'unused.sqlite3'}"
        second = pytest(sqlite, [*SPREAD, "-m", "not stack and not one_database", *arguments])
    return first or second


def pytest(environment: dict[str, str], arguments: list[str]) -> int:
    database = "PostgreSQL" if "TEST_POSTGRESQL" in environment else "SQLite"
    print(f"\n== on {database}", flush=True)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments], env=environment, check=False
    ).returncode


def install_missing() -> None:
    missing = [package for package, program in NEEDED.items() if not find(program)]
    missing += [] if faketime() else ["libfaketime"]
    if not missing:
        return
    words = f"apt-get install --no-install-recommends {' '.join(missing)}"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        sys.exit(f"The tests need {', '.join(missing)}. On Debian, as root: {words}")
    print(f"Installing {', '.join(missing)}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-qq"], [*words.split(), "-y", "-qq"]):
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
