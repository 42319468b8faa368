"""Make Django's settings from the address of a database: how long its sessions may wait, and how a
server that vanished is noticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

POSTGRESQL = "checkpoints.database.postgresql"
"""Django's backend, extended: it tries a connection before it gives it out."""
SHARE = 0.75
"""How long other sessions wait for the rows of a silent one: this share of the time after which the
server ends it.
"""
ALIVE = {
    "connect_timeout": "5",
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
"""Options of libpq: a client knows after some 20 seconds, not after two hours, that a server
vanished without a word.
"""
SEVERAL = {"connect_timeout": "2", "target_session_attrs": "read-write"}
"""The same where several servers are named, of which one is the primary.

libpq tries them in order, so each new connection waits for a first server that vanished, up to
`connect_timeout`. It takes no standby, which only reads.
"""
SERVERS_SIDE = {
    "tcp_keepalives_idle": 10,
    "tcp_keepalives_interval": 5,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 20000,
}
"""The same from the other side: with these the server checks that its client is still there."""
SQLITE = {
    "transaction_mode": "IMMEDIATE",  # with DEFERRED two writers fail at once
    "timeout": 20,
    "init_command": (
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA mmap_size=134217728;"
        "PRAGMA journal_size_limit=27103364; PRAGMA cache_size=2000"
    ),
}


@dataclass(frozen=True)
class Patience:
    """How long a session of PostgreSQL may take, in seconds; 0 is any time."""

    lock: float = 0
    """For a row that another session holds; never more than SHARE of `idle`.

    A silent host has several sessions, and some of them wait for the row that another of them
    holds. A wait that outlasted the holder would get the row next, in silence, and hold it for as
    long again, one session after the other.
    """
    statement: float = 0
    idle: float = 0
    """Of silence in an open transaction: then the session's host is taken for dead, and the rows
    that it holds are free for others.
    """


def database(url: str, *, pool: int, patience: Patience | None = None) -> dict[str, Any]:
    """Django's database settings for `sqlite:///path` or
    `postgresql://user:password@host:port/name?option=value`.

    `host` may also be given as an option, which is how a socket folder is named. Several hosts,
    with commas between them, are a primary and its standbys. `pool` is the size of psycopg's pool;
    0 is none, which is right for workers that fork.
    """
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": unquote(parts.path[1:]),
            "OPTIONS": dict(SQLITE),
        }
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(
            f"DATABASE_URL has the scheme {parts.scheme!r}: use sqlite or postgresql"
        )
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    hosts, ports = _places(parts)
    host = options.pop("host", hosts)
    prepared = _prepared(options)
    options = {**ALIVE, **(SEVERAL if "," in host else {}), **options, **prepared}
    # else a pooler gives each transaction another session: docs/how-to/deploy.md
    if prepared:
        options["options"] = " ".join(
            filter(None, [_session(patience or Patience()), options.get("options", "")])
        )
    if pool:
        options["pool"] = {
            "min_size": 1,
            "max_size": pool,
            "timeout": 10,
            # the pool tries again after 1, 2, 4, 8 … seconds, gives up after this many, and begins
            # anew with the next request: else it would notice minutes later that a server is back
            "reconnect_timeout": 3,
        }
    return {
        "ENGINE": POSTGRESQL,
        "NAME": unquote(parts.path[1:]),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": options.pop("port", ports),
        "CONN_MAX_AGE": 0,  # under ASGI each request has a thread of its own: kept connections leak
        "CONN_HEALTH_CHECKS": False,  # POSTGRESQL looks itself; without a pool none is kept
        "OPTIONS": options,
    }


def _places(parts: SplitResult) -> tuple[str, str]:
    """Give the hosts and the ports of an address, as libpq wants them: several with commas."""
    places = [urlsplit(f"//{place}") for place in parts.netloc.rpartition("@")[2].split(",")]
    try:
        ports = [str(place.port or "") for place in places]
    except ValueError as error:
        raise ImproperlyConfigured(f"DATABASE_URL has a port that is none: {error}") from error
    return ",".join(place.hostname or "" for place in places), ",".join(ports) if any(ports) else ""


def _prepared(options: dict[str, Any]) -> dict[str, Any]:
    """Have the server prepare a statement that came three times on a connection: planning costs
    more than running most of ours.

    `?prepare_threshold=none` in the URL switches it off, for a pooler that gives each transaction
    another server connection.
    """
    threshold = str(options.pop("prepare_threshold", "3"))
    if threshold == "none":
        return {}
    if not threshold.isdigit():
        raise ImproperlyConfigured(
            f"prepare_threshold={threshold!r} in DATABASE_URL: use a whole number, or none"
        )
    return {"server_side_binding": True, "prepare_threshold": int(threshold)}


def _session(patience: Patience) -> str:
    """Write the options that the server is told when a session begins; the URL's own `options` come
    later, and win.
    """
    lock = min(patience.lock, patience.idle * SHARE) if patience.idle else patience.lock
    milliseconds = {
        "lock_timeout": lock * 1000,
        "statement_timeout": patience.statement * 1000,
        "idle_in_transaction_session_timeout": patience.idle * 1000,
    }
    options = {
        **SERVERS_SIDE,
        **{name: int(value) for name, value in milliseconds.items() if value},
    }
    return " ".join(f"-c {name}={value}" for name, value in options.items())
