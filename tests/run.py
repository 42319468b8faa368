"""`make test`: private PostgreSQL and Redis, then all tests on PostgreSQL, and beside them those
that touch the database again on SQLite.

A missing server is installed (as root on Debian) or fails the run with a sentence; nothing is
skipped for want of one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from pathlib import Path

from tests.databases import kept
from tests.programs import warm
from tests.servers.private import faketime, find, postgresql, redis

ROOT = Path(__file__).resolve().parent.parent
NEEDED = {
    "postgresql": "postgres",
    "redis-server": "redis-server",
    "chromium-headless-shell": "chromium-headless-shell chromium",
    "git": "git",
    "prometheus": "promtool",
    "systemd": "systemd-analyze",
}
"""Debian's package → its program; of several, one is enough. Pages need less than half of the
processor's time in the first of the two browsers.
"""
PROCESSES = f"4*popen//python={sys.executable} -m tests.programs.forked"
"""With the one process for SQLite these are three more than CI has processors: while stories wait
for servers and time-outs, others work.
"""
SPREAD = ["--tx", PROCESSES, "--dist", "loadfile", "--no-loadscope-reorder"]
"""By file, in the order of tests/conftest.py and the lanes of tests/house/lanes.py."""
ON_BOTH = ["-m", "not stack and not one_database"]
SPOKEN_WITH = {"-s", "--pdb", "--trace"}
"""With these somebody wants to speak with the process, and with one at a time."""
ROOM = 8 * 1024**3
"""Bytes of memory that the tests' files may have: all of them write a quarter of it."""
NONE_CHOSEN = 5
"""What pytest ends with; all that was asked for may be nothing for one of the databases."""


def main(arguments: list[str]) -> int:
    os.chdir(ROOT)
    install_missing()
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="waystation-", dir=in_memory()))
        stack.callback(lambda: subprocess.run(["rm", "-rf", folder], check=False))
        folder.chmod(0o755)
        tables = kept.put(folder)
        environment = {
            # hundreds of processes start here
            **{key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
            "DATABASE_URL": stack.enter_context(postgresql(folder / "pg", like=tables)),
            "TEST_REDIS_URL": stack.enter_context(redis(folder)),
            "TEST_POSTGRESQL": "1",
            "WAYSTATION_DATA": str(folder / "data"),
            "WAYSTATION_MCP": "1",
            "WAYSTATION_LANGGRAPH": "1",
            "WAYSTATION_LANGGRAPH_ORIGINS": "https://ui.example",
        }
        if in_memory():
            environment["TMPDIR"] = str(folder)
        sqlite = {key: value for key, value in environment.items() if key != "TEST_POSTGRESQL"}
        sqlite["DATABASE_URL"] = f"sqlite:///{folder / 'data' / 'unused.sqlite3'}"
        one = is_one_file(arguments)
        if one:
            environment["SCREENSHOTS"] = "1"
        else:
            wait = warm.waiting_for_all(folder / "waiting", environment, arguments)
            told = stack.enter_context(wait)
            environment, sqlite = {**environment, **told}, {**sqlite, **told}
        commands = [*([] if one else SPREAD), *arguments], [*ON_BOTH, *arguments]
        if not SPOKEN_WITH & set(arguments):
            with ThreadPoolExecutor() as pool:
                beside = pool.submit(pytest, sqlite, commands[1], into=folder / "second")
                codes = [pytest(environment, commands[0]), beside.result()]
            print((folder / "second").read_text(), flush=True)
        else:
            codes = [pytest(environment, commands[0]), pytest(sqlite, commands[1])]
    return next((code for code in codes if code not in (0, NONE_CHOSEN)), min(codes))


def in_memory() -> Path | None:
    """A folder in memory, where this machine has room for all that the tests write: git and the
    databases write tens of thousands of files.
    """
    shared = Path("/dev/shm")  # a folder of our own is made in it
    try:
        room = os.statvfs(shared)
        [free] = re.findall(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    except (OSError, ValueError):
        return None
    enough = min(room.f_bavail * room.f_frsize, int(free) * 1024) >= ROOM
    return shared if enough and not room.f_flag & os.ST_NOEXEC else None


def is_one_file(arguments: list[str]) -> bool:
    """Whether these choose tests of a single file, with which one process is busy."""
    chosen = {word.split("::")[0] for word in arguments if not word.startswith("-")}
    files = [ROOT / word for word in chosen if os.path.exists(ROOT / word)]
    return len(files) == 1 and files[0].is_file()


def pytest(environment: dict[str, str], arguments: list[str], *, into: Path | None = None) -> int:
    database = "PostgreSQL" if "TEST_POSTGRESQL" in environment else "SQLite"
    with open(into, "w") if into else nullcontext(sys.stdout) as output:
        print(f"\n== on {database}", file=output, flush=True)
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *arguments],
            env=environment,
            check=False,
            stdin=subprocess.DEVNULL if into else None,
            stdout=output if into else None,
            stderr=subprocess.STDOUT if into else None,
        ).returncode


def install_missing() -> None:
    missing = [
        package for package, programs in NEEDED.items() if not any(map(find, programs.split()))
    ]
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
