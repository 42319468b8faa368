"""`make test`: private PostgreSQL and Redis, then all tests on PostgreSQL, then those that touch the database again on SQLite.

A missing server is installed (as root on Debian) or fails the run with a sentence; nothing is skipped for want of one.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED = {"postgresql": "postgres", "redis-server": "redis-server", "chromium": "chromium", "git": "git"}
SPREAD = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
"""By file, in the order of tests/conftest.py."""


def main(arguments: list[str]) -> int:
    os.chdir(ROOT)
    install_missing()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="waystation-", ignore_cleanup_errors=True)))
        folder.chmod(0o755)
        environment = {
            **os.environ,
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
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *arguments], env=environment, check=False).returncode


def install_missing() -> None:
    missing = [package for package, program in NEEDED.items() if not find(program)]
    if not missing:
        return
    words = f"apt-get install --no-install-recommends {' '.join(missing)}"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        sys.exit(f"The tests need {', '.join(missing)}. On Debian, as root: {words}")
    print(f"Installing {', '.join(missing)}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-qq"], [*words.split(), "-y", "-qq"]):
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def find(program: str) -> str | None:
    """A program on PATH, or in the folder where Debian keeps PostgreSQL's."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    return shutil.which(program) or (str(places[-1]) if places else None)


@contextmanager
def postgresql(folder: Path, *, durable: bool = False) -> Iterator[str]:
    """A private server on a unix socket in `folder`; gives its DATABASE_URL. `durable` is for measuring: real commits."""
    server = find("postgres")
    assert server is not None
    as_user: list[str] = []
    folder.mkdir()
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(folder, "postgres", "postgres")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    initdb = Path(server).with_name("initdb")
    subprocess.run(
        [*as_user, initdb, "-D", folder / "db", "-U", "waystation", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    # fsync=off: the files are thrown away after the run; what a power cut does is not tested here
    settings = [
        "-c",
        f"fsync={'on' if durable else 'off'}",
        "-c",
        "listen_addresses=",
        "-c",
        f"unix_socket_directories={folder}",
        "-c",
        "max_connections=300",
    ]
    with (folder.parent / "postgresql.log").open("wb") as log:
        process = subprocess.Popen([*as_user, server, "-D", folder / "db", *settings], stderr=log)
    try:
        wait_for(lambda: (folder / ".s.PGSQL.5432").exists(), "PostgreSQL", process)
        yield f"postgresql://waystation@/postgres?host={folder}"
    finally:
        process.send_signal(signal.SIGINT)  # fast: without waiting for those still connected
        process.wait(20)


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """A private server on a free port of the loopback; gives its URL."""
    port = free_port()
    process = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder],
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: answers(port), "Redis", process)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(20)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(ready: object, name: str, process: subprocess.Popen[bytes], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not (callable(ready) and ready()):
        if process.poll() is not None or time.monotonic() > end:
            sys.exit(f"{name} did not start.")
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
