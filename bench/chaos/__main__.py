"""`make chaos`: many runs, everything is killed and restarted under them, twenty clients race for each answer; then the books are checked.

    make chaos ARGS="--runs 60 --pauses 3 --seed 7"

Private PostgreSQL, Redis, Daphne, Celery workers and beat. The schedule of faults and the answers follow from the seed; what meets
what, of course, does not. Prints its parameters first and one line of JSON last; exits with 1 on any breach.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.run import install_missing
from tests.servers import PostgreSQL, Redis
from tests.stack import Stack


def main(arguments: list[str]) -> int:
    options = read(arguments)
    print("chaos:", " ".join(f"--{name.replace('_', '-')} {value}" for name, value in vars(options).items()), flush=True)
    install_missing()
    with tempfile.TemporaryDirectory(prefix="waystation-chaos-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        with servers(folder) as (postgresql, redis):
            stack = prepare(folder, postgresql, redis)
            from bench.chaos.race import Race  # it knows the models, so Django is ready before

            try:
                summary = Race(stack, options).run(postgresql, redis)
            finally:
                stack.stop()
            if options.keep:
                subprocess.run(["cp", *folder.glob("*.log"), options.keep], check=False)
    print(json.dumps(summary), flush=True)
    return 1 if summary["breaches"] else 0


def read(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos ARGS=…", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="work orders (1000)")
    parser.add_argument("--pauses", type=int, default=3, help="questions in each, every second one asked by a child run (3)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the answers and the faults (drawn)")
    parser.add_argument("--clients", type=int, default=20, help="how many race for each answer (20)")
    parser.add_argument("--workers", type=int, default=2, help="Celery workers, two processes each (2)")
    parser.add_argument("--every", type=float, default=6, help="seconds between two faults, on average (6)")
    parser.add_argument("--timeout", type=float, default=5400, help="seconds after which runs that have not ended are a breach (5400)")
    parser.add_argument("--keep", default="", help="a folder for the logs")
    return parser.parse_args(arguments)


@contextmanager
def servers(folder: Path) -> Iterator[tuple[PostgreSQL, Redis]]:
    postgresql, redis = PostgreSQL(folder / "pg"), Redis(folder)
    postgresql.create()
    try:
        postgresql.start()
        redis.start()
        yield postgresql, redis
    finally:
        for server in (postgresql, redis):
            server.kill()


def prepare(folder: Path, postgresql: PostgreSQL, redis: Redis) -> Stack:
    """The product's processes to be, and Django in this one, which looks at the same database."""
    import django

    (folder / "effects").touch()
    environment = {
        "DATABASE_URL": postgresql.url,
        "REDIS_URL": redis.url,
        "CHAOS_LEDGER": str(folder / "effects"),  # each effect adds a line: what the world outside has seen
        "DJANGO_SETTINGS_MODULE": "bench.chaos.settings",
        "API_RATE": "1000000",
        "WAYSTATION_LOST_ATTEMPTS": "50",  # here it is the same few workers that die again and again
        "LOG_LEVEL": "WARNING",
    }
    stack = Stack(folder, environment)
    os.environ.update(stack.environment)
    django.setup()
    return stack


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
