"""Private PostgreSQL and Redis servers, which can be killed and started again."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

Server = subprocess.Popen[bytes]


def find(program: str) -> str | None:
    """A program on PATH, or in the folder where Debian keeps PostgreSQL's."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    return shutil.which(program) or (str(places[-1]) if places else None)


def faketime() -> Path | None:
    """The library that gives a process a wall clock of its own, where Debian keeps it."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def wrong_clock(by: str) -> dict[str, str]:
    """The environment of a process whose wall clock is off by so much, such as `+25s` or `-1h`; its
    monotonic clock is right.
    """
    patch = Path(__file__).resolve().parent / "wrong_clock"
    return {
        "LD_PRELOAD": str(faketime()),
        "FAKETIME": by,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # its mend of an old library's waits ends each wait of today's at once: threads that wait
        # for Python's lock went round and round
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "PYTHONPATH": str(patch),
    }


PORTS = range(20_000, 32_768)
"""Below those that Linux gives to whoever connects or asks for any port: such a one could be
another's before its server starts, or while a server that was killed starts again.
"""


def free_port() -> int:
    """A port of the loopback on which nobody listens."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port := secrets.choice(PORTS)))
            return port


def children_of(pid: int) -> list[int]:
    """Oldest first."""
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def processor_seconds(pid: int) -> float:
    """What a process and those that it has begun have had of processors, however many others want
    them: a bar in these holds on a busy machine, too.
    """
    user, system = Path(f"/proc/{pid}/stat").read_text().split()[13:15]
    own = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return own + sum(map(processor_seconds, children_of(pid)))


def answers(port: int, address: str = "127.0.0.1") -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0


def wait_for(ready: Callable[[], bool], name: str, process: Server, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None or time.monotonic() > end:
            sys.exit(f"{name} did not start.")
        time.sleep(0.05)  # nothing tells when a server is up


QUICK = {
    "checkpoint_timeout": "1h",
    "from_collapse_limit": "1",
    "full_page_writes": "off",
    "jit": "off",
    "join_collapse_limit": "1",
    "max_wal_senders": "0",
    "max_wal_size": "96MB",
    "min_wal_size": "32MB",
    "plan_cache_mode": "force_generic_plan",
    "synchronous_commit": "off",
    "wal_level": "minimal",
}
"""Settings of a server that nobody follows, and whose files go with it.

Tables of tests hold few rows: to look for the best order of ten of them takes longer than to read
them in the order in which the statement names them, and a plan that is made for values costs more
than it gains.
"""


@dataclass
class PostgreSQL:
    """A server on a unix socket in `folder`, which it makes.

    `durable` is for measuring: real commits.
    """

    folder: Path
    durable: bool = False
    more: dict[str, str] = field(default_factory=dict)
    """Further settings of the server's."""
    as_user: list[str] = field(default_factory=list)
    address: str = ""
    """Where it listens as well, at 5432, for everybody."""
    under: list[str] = field(default_factory=list)
    """Words before its command."""
    process: Server | None = None

    @property
    def url(self) -> str:
        return f"postgresql://waystation@/postgres?host={self.folder}"

    @property
    def socket(self) -> Path:
        return self.folder / ".s.PGSQL.5432"

    def create(self, like: Path | None = None) -> None:
        """Make its files, or take those of a server that has ended."""
        self._settle()
        if like is not None:
            copy(like, self.folder / "db")
        else:
            self._initialize()
        if self.address:
            with (self.folder / "db/pg_hba.conf").open("a") as rules:
                rules.writelines(
                    f"host {what} all 0.0.0.0/0 trust\n" for what in ("all", "replication")
                )

    def _initialize(self) -> None:
        initdb = Path(str(find("postgres"))).with_name("initdb")
        options = ["-U", "waystation", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"]
        subprocess.run(
            [*self.as_user, initdb, "-D", self.folder / "db", *options],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def copy(self, other: PostgreSQL, *options: str) -> None:
        """Be a hot standby of the other one, which runs; to be started."""
        self._settle()
        whence = [
            "-h",
            other.address or str(other.folder),
            "-U",
            "waystation",
            "-D",
            str(self.folder / "db"),
            "-R",
            "-c",
            "fast",
        ]
        command = [*self.under, *self.as_user, str(find("pg_basebackup")), *whence, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def _settle(self) -> None:
        self.folder.mkdir()
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(self.folder, "postgres", "postgres")
            self.as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]

    def start(self) -> None:
        settings = {
            # a killed server's pages are in the system's cache; a power cut is another test
            "fsync": "on" if self.durable else "off",
            "listen_addresses": self.address,
            "unix_socket_directories": str(self.folder),
            "max_connections": "300",
            **self.more,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder.parent / "postgresql.log").open("ab") as log:
            command = [
                *self.under,
                *self.as_user,
                str(find("postgres")),
                "-D",
                str(self.folder / "db"),
                *options,
            ]
            self.process = subprocess.Popen(command, stderr=log)
        wait_for(self._ready, "PostgreSQL", self.process, 60)

    def _ready(self) -> bool:
        import psycopg  # here: `make test` begins by installing what is missing

        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """Fast: without waiting for those still connected."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """It ends at once, without a checkpoint; the next start recovers from the log."""
        self._end(signal.SIGQUIT)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)


REDIS_DATABASES = 64
"""For every stack of each of pytest's processes one of its own."""


@dataclass
class Redis:
    """A server on a free port, of the loopback if not said otherwise. It keeps nothing."""

    folder: Path
    port: int = field(default_factory=free_port)
    address: str = "127.0.0.1"
    under: list[str] = field(default_factory=list)
    """Words before its command."""
    process: Server | None = None

    @property
    def url(self) -> str:
        return f"redis://{self.address}:{self.port}/0"

    def start(self) -> None:
        words = [
            *self.under,
            "redis-server",
            "--port",
            str(self.port),
            "--bind",
            self.address,
            "--protected-mode",
            "no",
            "--save",
            "",
            "--appendonly",
            "no",
            "--databases",
            str(REDIS_DATABASES),
        ]
        self.process = subprocess.Popen(
            [*words, "--dir", str(self.folder)], stdout=subprocess.DEVNULL
        )
        wait_for(lambda: answers(self.port, self.address), "Redis", self.process)

    def kill(self) -> None:
        """With all messages in it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(20)


def copy(whence: Path, where: Path) -> None:
    """A folder with its owners and modes: PostgreSQL looks at them."""
    subprocess.run(["cp", "-a", str(whence), str(where)], check=True)


@contextmanager
def postgresql(folder: Path, *, durable: bool = False, like: Path | None = None) -> Iterator[str]:
    """A server for a while, `like` one that has ended; gives its DATABASE_URL."""
    server = PostgreSQL(folder, durable, {} if durable else QUICK)
    server.create(like)
    try:
        server.start()
        yield server.url
    finally:
        server.stop()


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """A server for a while; gives its URL."""
    server = Redis(folder)
    try:
        server.start()
        yield server.url
    finally:
        server.kill()
