"""What has to be done before a process of the product may begin: `manage.py start`.

Any number of processes on any number of hosts do it at the same moment, as after a deploy: one
migrates, the others wait for it and find nothing left to do.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections
from django.db.migrations.executor import MigrationExecutor

from checkpoints.database import locks
from runs.models import installation

Say = Callable[[str], None]

QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")
PROCESSES: dict[str, tuple[str, ...]] = {
    "web": ("daphne", "-b", "{host}", "-p", "{port}", "project.asgi:application"),
    "control": (  # no step takes its threads, however long: what is due is looked at in time
        *("celery", "-A", "project", "worker", "--pool=threads", "--concurrency=4"),
        *("--queues=control,outbound", "--hostname={name}@%h", *QUIET),
    ),
    "worker": (
        *("celery", "-A", "project", "worker", "--pool=threads", "--concurrency={concurrency}"),
        *("--queues=steps", "--hostname={name}@%h", *QUIET),
    ),
    "agents": (
        *("celery", "-A", "project", "worker", "--queues=agents", "--hostname={name}@%h", *QUIET),
    ),
    "beat": (
        *("celery", "-A", "project", "beat"),
        *("--scheduler=celery.beat:Scheduler", "--max-interval=1"),
    ),
}
"""Process → its command, as `Procfile` has it."""
OWN = {"web": {"DATABASE_POOL": "8"}}
"""What a process is told where its environment says nothing."""

LOCK = 0x5761_7973_7461_7469
"""Of PostgreSQL's advisory locks: whoever holds it migrates ("Waystati")."""
GIVES_WAY = 0.2
"""Seconds for which a migration waits for a lock; PostgreSQL looks for deadlocks after one."""
HELD = ("55P03", "40P01")
"""What PostgreSQL says of a lock that did not come in time, and of a deadlock."""
LOOK = 0.5
"""Seconds between two looks for what others do: nothing tells."""
AGAIN = 10.0
"""Seconds after which is said again what is waited for."""
COLLECTED = ".collected"
"""File beside the collected static files that names what they are of."""


class NotReady(Exception):
    """What is waited for has not come in time. The message says what, and nothing was changed."""


def wait_for_database(say: Say, *, seconds: float) -> None:
    """Wait until the database answers, and see that it takes all texts. Raises NotReady."""
    ends = time.monotonic() + seconds
    told = _Repeated(say)
    while True:
        try:
            connection.ensure_connection()
            return _check_encoding()
        except OperationalError as error:
            words = " ".join(str(error).split())[:300]
            if time.monotonic() > ends:
                raise NotReady(
                    f"The database did not answer within {seconds:.0f} s: {words}"
                ) from error
            told(f"Waiting for the database: {words}")
        connection.close()
        time.sleep(LOOK)


def _check_encoding() -> None:
    """Every text of every language has its place, or nothing is begun. Raises NotReady."""
    if connection.vendor != "postgresql":
        return
    encoding = connection.connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise NotReady(
            f"The database's encoding is {encoding}, and has to be UTF8: make an empty one with "
            "createdb --encoding=UTF8 --template=template0, and name it in DATABASE_URL."
        )


def migrate_once(say: Say, *, seconds: float) -> bool:
    """Bring the tables to this version, unless another process does or has; whether this one did.

    Tables of a newer version are left alone: old processes start again while a deploy is under way.
    Raises NotReady where another one migrates for longer than so many seconds.
    """
    if not is_behind():
        return False
    with alone(say, seconds=seconds):
        if not is_behind():
            say("Another process has migrated the database.")
            return False
        say("Migrating the database.")
        _migrate(say, seconds=seconds)
        return True


def _migrate(say: Say, *, seconds: float) -> None:
    """Migrate, and give way to whoever works meanwhile.

    A migration that waits for a table holds up all who come after it, and may wait for those that
    wait for it; PostgreSQL ends one of them then, after a second. So it waits shorter than that,
    lets go of all it has, and tries again.
    """
    ends, told = time.monotonic() + seconds, _Repeated(say)
    while True:
        try:
            with locks.impatient(GIVES_WAY):
                call_command("migrate", interactive=False, verbosity=0)
            return
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", "") not in HELD or time.monotonic() > ends:
                raise
            told("Waiting: a table that is to be changed is in use.")
        time.sleep(LOOK)


def is_behind() -> bool:
    """Whether this code has migrations that the database has not had."""
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


@contextmanager
def alone(say: Say, *, seconds: float) -> Iterator[None]:
    """Nobody else migrates this database meanwhile, on whichever host.

    The lock ends with its holder: a session of PostgreSQL's, or on SQLite a file that is held.
    """
    ends, told = time.monotonic() + seconds, _Repeated(say)
    take = _session if connection.vendor == "postgresql" else _file
    with take() as try_to_lock:
        while not try_to_lock():
            if time.monotonic() > ends:
                raise NotReady(
                    f"Another process has been migrating the database for {seconds:.0f} s."
                )
            told("Waiting: another process migrates the database.")
            time.sleep(LOOK)
        yield


@contextmanager
def _session() -> Iterator[Callable[[], bool]]:
    # of its own: what migrates may close and open its connection
    own = connections.create_connection(DEFAULT_DB_ALIAS)

    def try_to_lock() -> bool:
        with own.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
            (got,) = cursor.fetchone()
            return bool(got)

    try:
        yield try_to_lock
    finally:
        own.close()
        getattr(own, "close_pool", lambda: None)()


@contextmanager
def _file() -> Iterator[Callable[[], bool]]:
    with open(settings.WAYSTATION_DATA / "migrate.lock", "a+") as file:

        def try_to_lock() -> bool:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        yield try_to_lock


def collect_once(say: Say) -> bool:
    """Collect static files, where those of this version are not there yet; whether this process
    did.

    An image brings them along, in a folder that cannot be written.
    """
    folder = Path(settings.STATIC_ROOT)
    mark, wanted = folder / COLLECTED, f"{installation.version()} {installation.commit()}"
    if _read(mark) == wanted and (folder / "staticfiles.json").exists():
        return False
    if not os.access(folder, os.W_OK):
        say(f"{folder} cannot be written, so its static files stay as they are.")
        return False
    with open(folder / f"{COLLECTED}.lock", "a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _read(mark) == wanted:
            return False
        say("Collecting static files.")
        with _collecting():
            call_command("collectstatic", interactive=False, verbosity=0)
        mark.write_text(wanted)
        for made in (mark, *folder.rglob("*.gz")):
            made.chmod(0o644)  # as the files are that Django makes: others serve them
    return True


@contextmanager
def _collecting() -> Iterator[None]:
    """With the storage that makes names with digests, which settings choose once there are some."""
    before = settings.STORAGES
    backend = "whitenoise.storage.CompressedManifestStaticFilesStorage"
    settings.STORAGES = {**before, "staticfiles": {"BACKEND": backend}}
    try:
        yield
    finally:
        settings.STORAGES = before


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def become(role: str, **told: object) -> None:
    """Become a process of the product: the same process, so that signals reach it."""
    connections.close_all()
    command = [sys.executable, "-m", *(word.format(**told) for word in PROCESSES[role])]
    environment = {**OWN.get(role, {}), **os.environ}
    sys.stdout.flush()
    os.execve(sys.executable, command, environment)  # noqa: S606  # no shell


class _Repeated:
    """Says what is waited for at first, where it changes, and every AGAIN seconds."""

    def __init__(self, say: Say) -> None:
        self._say, self._words, self._at = say, "", 0.0

    def __call__(self, words: str) -> None:
        now = time.monotonic()
        if words != self._words or now - self._at > AGAIN:
            self._say(words)
            self._words, self._at = words, now
