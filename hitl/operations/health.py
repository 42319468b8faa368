"""Whether this installation can do its work: the parts of `/readyz`, each with words that name what
is wrong and nothing secret: no address, no user, no error text of a server's.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Min

from checkpoints.database import clock, outages
from hitl.operations import loads
from hitl.operations.found_once import FoundOnce
from hitl.operations.loads import ALWAYS, QueueLoad
from runs.models import Heartbeat, HeartbeatKind, Pause
from runs.models.heartbeats import LASTS, bound, silence

FRESH = 1.0
"""Seconds for which a look holds: so often it is looked at most, whoever asks."""
WITHIN = 3.0
"""Seconds after which a part that has not answered counts as one that does not."""
STATEMENT = 2500
"""Milliseconds that PostgreSQL may take for one statement of the look."""
REDIS = 1.0

WRITTEN = "waystation:health"
"""Name in Redis that is written to see whether it takes anything; it goes by itself."""
WRITTEN_LASTS = 60
REDIS_FULL = "Redis is full (maxmemory) and takes no messages."
REDIS_READ_ONLY = "Redis can only be read, as a replica: it takes no messages."
REDIS_REFUSES = "Redis answers, and refuses to be written to."

PARTS = ("database", "migrations", "redis", "workers", "beat", "work")
PROCESSES = (HeartbeatKind.WEB, HeartbeatKind.WORKER, HeartbeatKind.BEAT)


@dataclass(frozen=True)
class HealthPart:
    name: str
    ok: bool
    words: str


def parts(names: Iterable[str] = PARTS) -> list[HealthPart]:
    """How these parts are, within some seconds."""
    wanted = list(names)
    found: dict[str, HealthPart] = {}
    if set(wanted) - {"redis"}:
        told = _database.get(within=WITHIN) or _away(f"does not answer within {WITHIN:.0f} s")
        found |= {part.name: part for part in told}
    if "redis" in wanted:
        told = _redis.get(within=WITHIN) or [
            HealthPart("redis", False, f"Redis does not answer within {WITHIN:.0f} s.")
        ]
        found |= {part.name: part for part in told}
    return [found[name] for name in wanted]


def forget() -> None:
    """Have the next look be a new one."""
    _database.forget()
    _redis.forget()


def _away(what: str) -> list[HealthPart]:
    unknown = "Not known: the database cannot be asked."
    return [
        HealthPart("database", False, f"The database {what}."),
        *(HealthPart(name, False, unknown) for name in ("migrations", "workers", "beat", "work")),
    ]


def look_at_database() -> list[HealthPart]:
    """All that the database tells, in a fixed number of statements."""
    try:
        with impatient():
            lacking = missing_migrations()
            if lacking:
                return _unmigrated(lacking)
            heartbeats: list[Any] = list(Heartbeat.objects.with_now())
            now = now_of(heartbeats)
            standing = loads.read(lately(heartbeats, HeartbeatKind.WORKER), now=now)
            passed = Pause.objects.due(now=now).order_by().aggregate(at=Min("next_at"))["at"]
    except (DatabaseError, InterfaceError) as error:
        if outages.lacks_tables(error):
            return _unmigrated(["all"])
        return _away("cannot be reached" if outages.is_trouble(error) else "refuses to be read")
    return [
        HealthPart("database", True, "The database answers."),
        HealthPart("migrations", True, "The tables are those of this version."),
        _workers(heartbeats, {queue.name for queue in standing.queues if queue.waiting}),
        _beat(
            heartbeats,
            {
                "take back the runs of a worker that fell silent": standing.lost,
                "do what a deadline says": (now - passed).total_seconds() if passed else 0.0,
            },
        ),
        _work(standing.queues),
    ]


@contextmanager
def impatient() -> Iterator[None]:
    """Wait for no statement longer than STATEMENT meanwhile."""
    if connection.vendor != "postgresql":
        yield  # SQLite's readers wait for nobody, and a transaction there would
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {STATEMENT}")
        yield


def _unmigrated(lacking: list[str]) -> list[HealthPart]:
    words = "The tables are not those of this version: run `manage.py migrate`."
    if lacking != ["all"]:
        words += f" {len(lacking)} missing, first {lacking[0]}."
    return [
        HealthPart("database", True, "The database answers."),
        HealthPart("migrations", False, words),
        *(
            HealthPart(name, False, "Not known: the tables are older than this version.")
            for name in ("workers", "beat", "work")
        ),
    ]


@functools.cache
def _known_migrations() -> frozenset[tuple[str, str]]:
    """Those of the code, without the ones that others replace."""
    loader = MigrationLoader(None)
    replaced = {old for made in loader.disk_migrations.values() for old in made.replaces}
    return frozenset(loader.disk_migrations.keys() - replaced)


def missing_migrations() -> list[str]:
    """Migrations of this code that the database has not had, as `app.name`."""
    recorder = MigrationRecorder(connection)
    applied = set(recorder.migration_qs.values_list("app", "name"))
    return sorted(".".join(key) for key in _known_migrations() - applied)


def now_of(heartbeats: list[Any]) -> dt.datetime:
    """The database's time, as its rows were read with it."""
    return heartbeats[0].now if heartbeats else clock.now()


def lately(heartbeats: Iterable[Any], kind: HeartbeatKind) -> list[Any]:
    """Those of a kind that were seen lately."""
    return [
        row
        for row in heartbeats
        if row.kind == kind and (row.now - row.seen_at).total_seconds() <= LASTS
    ]


def unmanned(heartbeats: Iterable[Any], waiting: Iterable[str]) -> list[str]:
    """Queues that a worker should take messages from, and none does."""
    manned = {name for row in lately(heartbeats, HeartbeatKind.WORKER) for name in row.queues}
    return sorted({*ALWAYS, *waiting} - manned)


def _workers(heartbeats: list[Any], waiting: set[str]) -> HealthPart:
    there = lately(heartbeats, HeartbeatKind.WORKER)
    if not there:
        return HealthPart("workers", False, f"No worker was seen in the last {LASTS:.0f} s.")
    if lacking := unmanned(heartbeats, waiting):
        return HealthPart(
            "workers",
            False,
            f"No worker that takes {_joined(lacking)} was seen in the last {LASTS:.0f} s.",
        )
    return HealthPart("workers", True, f"Workers seen lately: {len(there)}.")


def _beat(heartbeats: list[Any], since: dict[str, float]) -> HealthPart:
    """Whether beat's look is carried out, and what it orders: `since` says for how long each part
    of that is due.
    """
    looked = next((row for row in heartbeats if row.kind == HeartbeatKind.LOOK), None)
    age = None if looked is None else (looked.now - looked.seen_at).total_seconds()
    if age is not None and age <= silence():
        what, longest = max(since.items(), key=lambda item: item[1])
        if longest > bound():
            words = f"Beat's look is carried out, and its rounds are behind: to {what} is due"
            return HealthPart("beat", False, f"{words} since {longest:.0f} s.")
        return HealthPart("beat", True, f"Beat's look is carried out: {max(0.0, age):.0f} s ago.")
    when = "was never carried out" if age is None else f"was last carried out {age:.0f} s ago"
    cause = (
        "a beat is there, but no worker does what it asks for"
        if lately(heartbeats, HeartbeatKind.BEAT)
        else "no beat was seen"
    )
    return HealthPart("beat", False, f"Beat's look {when}: {cause}.")


def _work(queues: list[QueueLoad]) -> HealthPart:
    stuck = [queue for queue in queues if queue.is_stuck]
    if not stuck:
        free = ", ".join(
            f"{queue.name} {queue.free}"
            for queue in queues
            if queue.workers and queue.free is not None
        )
        return HealthPart(
            "work",
            True,
            f"No due run waits for longer than {bound():.0f} s."
            f"{f' Free places of workers: {free}.' if free else ''}",
        )
    return HealthPart("work", False, " ".join(stuck_words(queue) for queue in stuck))


def stuck_words(queue: QueueLoad) -> str:
    """What is wrong with a queue whose due runs nobody takes."""
    if queue.free is None:
        places = "How many places its workers have free is not known."
    elif queue.free:
        places = f"By their rows its workers have {queue.free} places free."
    else:
        places = "All places of its workers are taken."
    return (
        f"Nothing takes the queue {queue.name}: {queue.waiting} due, and the first has waited for "
        f"{queue.seconds:.0f} s. {places}"
    )


def _joined(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def look_at_redis() -> list[HealthPart]:
    url = getattr(settings, "REDIS_URL", "")
    if not url:
        return [HealthPart("redis", True, "Not used: all is one process.")]
    try:
        with redis.Redis.from_url(
            url, socket_timeout=REDIS, socket_connect_timeout=REDIS
        ) as server:
            server.set(WRITTEN, "1", ex=WRITTEN_LASTS)
    except redis.AuthenticationError:
        return [HealthPart("redis", False, "Redis refuses the password.")]
    except redis.OutOfMemoryError:
        return [HealthPart("redis", False, REDIS_FULL)]
    except redis.ReadOnlyError:
        return [HealthPart("redis", False, REDIS_READ_ONLY)]
    except redis.ResponseError:
        return [HealthPart("redis", False, REDIS_REFUSES)]
    except (redis.RedisError, OSError):
        return [HealthPart("redis", False, "Redis cannot be reached.")]
    return [HealthPart("redis", True, "Redis takes messages.")]


_database = FoundOnce(look_at_database, fresh=FRESH)
_redis = FoundOnce(look_at_redis, fresh=FRESH)
