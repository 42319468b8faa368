"""A primary and its standbys, where the address of the database names several servers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, InterfaceError, connection
from django.db.utils import ConnectionHandler

from hitl.operations.doctor.finding import Finding, fine, warning, wrong

GUIDE = "docs/how-to/deploy.md, “A primary and a standby”"
ASK = (
    "SELECT pg_is_in_recovery(), pg_postmaster_start_time()::text,"
    " current_setting('synchronous_standby_names'),"
    # the part of a WAL file's name that says how often a standby was promoted before
    " CASE WHEN pg_is_in_recovery() THEN ''"
    " ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END"
)


@dataclass(frozen=True)
class Server:
    """What one of the named servers says of itself."""

    name: str
    standby: bool
    since: str
    """When it was started; two names of one server have the same."""
    waits_for: str
    """Its `synchronous_standby_names`."""
    timeline: str
    """Grows with each promotion; "" of a standby."""


def standbys() -> Iterator[Finding]:
    """Look at each server of an address that names several."""
    if connection.vendor != "postgresql":
        return
    places = _places(connection.settings_dict)
    if len(places) < 2:
        return
    with ThreadPoolExecutor(len(places)) as pool:
        found = list(pool.map(_ask, places))
    silent = [_named(*place) for place, server in zip(places, found, strict=True) if server is None]
    servers = {server.since: server for server in found if server}.values()
    primaries = sorted(
        (server for server in servers if not server.standby), key=lambda server: server.timeline
    )
    followers = [server.name for server in servers if server.standby]
    for name in silent:
        yield warning(
            "standby",
            f"{name} of DATABASE_URL does not answer; each new connection waits for it, where it "
            "is named before the primary.",
            "Start it as a standby, or take it out of DATABASE_URL.",
        )
    if len(primaries) > 1:
        *old, newest = (server.name for server in primaries)
        yield wrong(
            "standby",
            f"{', '.join(old)} and {newest} both take writes: {newest} was promoted last, and what "
            "is written elsewhere is lost to it. Which of them a process has, chance decides.",
            f"Stop {', '.join(old)} at once, and let it come back as a standby of {newest} "
            f"(pg_rewind): {GUIDE}.",
        )
    elif primaries and not followers:
        yield warning(
            "standby",
            f"{primaries[0].name} takes writes, and nobody follows it.",
            f"Start a standby, or name one server only: {GUIDE}.",
        )
    elif primaries and not primaries[0].waits_for:
        yield warning(
            "standby",
            f"{primaries[0].name} waits for no standby: when it is lost, decisions that were "
            "acknowledged just before are lost with it.",
            f"Set synchronous_standby_names, if that may not be: {GUIDE}.",
        )
    elif primaries:
        yield fine("standby", f"{primaries[0].name} takes writes, {', '.join(followers)} follows.")


def _places(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Host and port of each server; the port is "" where it is the usual one."""
    hosts = str(settings["HOST"] or "").split(",")
    ports = str(settings["PORT"] or "").split(",")
    return list(zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True))


def _named(host: str, port: str) -> str:
    return f"{host}:{port}" if port else host


def _ask(place: tuple[str, str]) -> Server | None:
    """None where it does not answer, or does not let us in."""
    host, port = place
    settings = dict(connection.settings_dict)
    options = {key: value for key, value in settings["OPTIONS"].items() if key != "pool"}
    session = ConnectionHandler(
        {
            "default": {
                **settings,
                "ENGINE": "django.db.backends.postgresql",
                "HOST": host,
                "PORT": port,
                "OPTIONS": {**options, "target_session_attrs": "any"},
            }
        }
    )["default"]
    try:
        with session.cursor() as cursor:
            cursor.execute(ASK)
            return Server(_named(host, port), *cursor.fetchone())
    except (DatabaseError, InterfaceError):
        return None
    finally:
        session.close()
