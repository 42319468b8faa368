"""`make chaos`: many runs, everything is killed and restarted under them, twenty clients race for
each answer; then the books are checked.

    make chaos ARGS="--runs 60 --pauses 3 --seed 7"
    make chaos ARGS="--faults silence,sessions --minutes 5"

Private PostgreSQL, Redis, Daphne, Celery workers and beat. The schedule of faults and the answers
follow from the seed; what meets what, of course, does not. Prints its parameters first and one line
of JSON last; exits with 1 on any breach.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.chaos import EFFECTS, ONCE, tables
from bench.chaos.hosts import faults as among_hosts
from bench.chaos.hosts import network
from bench.chaos.hosts.servers import Servers, outside
from bench.chaos.maker import known
from bench.chaos.namespaces import Scattered
from bench.chaos.wire import Wire
from tests.run import install_missing
from tests.servers.private import PostgreSQL, Redis
from tests.servers.stack import Stack

DRAIN = 180.0
"""Seconds after the last fault within which all runs end."""


def main(arguments: list[str]) -> int:
    options = read(arguments)
    print(
        "chaos:",
        " ".join(
            f"--{name.replace('_', '-')} {_shown(value)}" for name, value in vars(options).items()
        ),
        flush=True,
    )
    install_missing()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends as well
    if options.hosts:
        reason = "asked for" if options.proxies else network.why_not()
        options.proxies = bool(reason)
        if reason:
            print(f"hosts: proxies stand in for network namespaces: {reason}", flush=True)
        else:
            print("hosts: each is a network namespace", flush=True)
            network.leave()
    elif network.why_not() is None:
        network.leave()  # so that nobody else's network changes with its cables
    with tempfile.TemporaryDirectory(
        prefix="waystation-chaos-", ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        folder.chmod(0o755)
        with servers(folder, options) as (postgresql, redis, places):
            wire = Wire()
            url = (
                outside(wire, places)
                if places
                else wire.link("outside", postgresql.socket, postgresql=True).url
            )
            stack = prepare(folder, url, redis, lease=options.lease)
            # they know the models, so Django is ready before
            from bench.chaos.hosts.world import Hosts
            from bench.chaos.race import Race
            from bench.chaos.world import World

            more = {
                "workers": options.workers,
                "lease": options.lease,
                "dice": random.Random(options.seed),
            }
            world = (
                Hosts(stack, postgresql, redis, wire, places=places, **more)
                if places
                else World(stack, postgresql, redis, wire, **more)
            )
            try:
                summary = Race(world, options).run()
            finally:
                world.stop()
                if options.keep:
                    subprocess.run(["cp", *folder.glob("*.log"), options.keep], check=False)
    if options.hosts:
        summary["hosts"] = "proxies" if options.proxies else "namespaces"
    if options.table:
        print(table(summary), flush=True)
    print(json.dumps(summary), flush=True)
    return 1 if summary["breaches"] else 0


def read(arguments: list[str]) -> argparse.Namespace:
    listed = "\n".join(
        f"  {name:9} {' '.join((fault.__doc__ or '').split())}" for name, fault in known().items()
    )
    parser = argparse.ArgumentParser(
        prog="make chaos ARGS=…",
        description=__doc__,
        epilog=f"faults:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--faults",
        type=_names,
        default=None,
        help="which, by name, with commas (all that can be made here)",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=0,
        help="ask for orders and make faults for so long, instead of --runs",
    )
    parser.add_argument(
        "--times",
        type=int,
        default=0,
        help="make each fault so often, instead of --runs and --minutes",
    )
    parser.add_argument("--runs", type=int, default=1000, help="work orders (1000)")
    parser.add_argument(
        "--live",
        type=int,
        default=16,
        help="work orders under way at once, with --minutes and --times (16)",
    )
    parser.add_argument(
        "--pace",
        type=float,
        default=0,
        help="seconds between two orders at least, with --minutes and --times (0)",
    )
    parser.add_argument(
        "--pauses",
        type=int,
        default=3,
        help="questions in each, every second one asked by a child run (3)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=random.randrange(10**6),
        help="of the answers and the faults (drawn)",
    )
    parser.add_argument(
        "--clients",
        type=int,
        default=0,
        help="how many race for each answer (20; 8 with --minutes and --times)",
    )
    parser.add_argument(
        "--racers", type=int, default=0, help="how many of them race for the same answer (all)"
    )
    parser.add_argument(
        "--workers", type=int, default=2, help="Celery workers, two processes each (2)"
    )
    parser.add_argument(
        "--every", type=float, default=6, help="seconds between two faults, on average (6)"
    )
    parser.add_argument(
        "--lease",
        type=float,
        default=9,
        help="seconds after which a worker that says nothing is lost (9)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=0,
        help="seconds after which runs that have not ended are a breach",
    )
    parser.add_argument(
        "--table", action="store_true", help="print the rows of docs/explanation/reliability.md too"
    )
    parser.add_argument(
        "--hosts",
        action="store_true",
        help="databases and Redis are hosts, too, and networks break (make hosts)",
    )
    parser.add_argument(
        "--proxies", action="store_true", help="with --hosts: no network namespaces"
    )
    parser.add_argument("--keep", default="", help="a folder for the logs")
    options = parser.parse_args(arguments)
    bounded = options.minutes or options.times
    options.timeout = options.timeout or (
        60 * options.minutes + 60 * options.times * 6 + DRAIN if bounded else 5400
    )
    options.clients = options.clients or (8 if bounded else 20)
    options.racers = options.racers or options.clients
    if options.faults is None and options.hosts:
        options.faults = list(among_hosts.ALL)
    if not options.hosts and any(known()[name].only_hosts for name in options.faults or []):
        parser.error("some of these faults want --hosts")
    options.faults = _possible(parser, options.faults)
    return options


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := set(names) - set(known()):
        raise argparse.ArgumentTypeError(
            f"no such fault: {', '.join(sorted(unknown))}. There are {', '.join(known())}."
        )
    return names


def _possible(parser: argparse.ArgumentParser, wanted: list[str] | None) -> list[str]:
    """The faults to make: one that was asked for and cannot be made is an error, else it is left
    out, aloud.
    """
    usual = [name for name, fault in known().items() if not fault.only_hosts]
    reasons = {name: reason for name in wanted or usual if (reason := known()[name].possible())}
    sentences = [f"{name} cannot be made here: {reason}" for name, reason in reasons.items()]
    if wanted and sentences:
        parser.error("; ".join(sentences))
    for words in sentences:
        print(words, flush=True)
    return [name for name in wanted or usual if name not in reasons]


def _shown(value: object) -> object:
    return ",".join(value) if isinstance(value, list) else value


def table(summary: dict[str, Any]) -> str:
    """Rows of Markdown, one for each fault; what was lost, doubled or stuck is counted over all of
    them together.
    """
    rows = [
        (
            "| fault | how many | lost | doubled | stuck | early | slowest: others | slowest: "
            "affected |"
        ),
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    counts = " | ".join(str(summary[kind]) for kind in ("lost", "doubled", "stuck", "early"))
    for name, made in summary["faults"].items():
        rows.append(
            f"| {name} | {made['times']} | {counts} | {made['slowest_others']} s | "
            f"{made['slowest_affected']} s |"
        )
    return "\n".join(rows)


@contextmanager
def servers(
    folder: Path, options: argparse.Namespace
) -> Iterator[tuple[PostgreSQL, Redis, Servers | None]]:
    if options.hosts:
        places = Servers(folder, namespaces=not options.proxies)
        try:
            places.start()
            yield places.postgresql, places.redis, places
        finally:
            places.stop()
        return
    postgresql, redis = PostgreSQL(folder / "pg"), Redis(folder)
    try:
        tables.create(postgresql, folder)
        redis.start()
        yield postgresql, redis, None
    finally:
        for server in (postgresql, redis):
            server.kill()


def prepare(folder: Path, database: str, redis: Redis, *, lease: float) -> Stack:
    """The product's processes to be, and Django in this one, which looks at the same database."""
    import django

    for name in (EFFECTS, ONCE):
        (folder / name).touch()
    environment = {
        "DATABASE_URL": database,
        "REDIS_URL": redis.url,
        # where each effect adds a line to a file: what the world outside has seen
        "CHAOS_LEDGERS": str(folder),
        "DJANGO_SETTINGS_MODULE": "bench.chaos.settings",
        "API_RATE": "1000000",
        # here it is the same few workers that die again and again
        "WAYSTATION_LOST_ATTEMPTS": "50",
        "WAYSTATION_LEASE_SECONDS": f"{lease:g}",
        "LOG_LEVEL": "WARNING",
    }
    stack = Scattered(folder, environment)
    os.environ.update(stack.environment)
    django.setup()
    return stack


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
