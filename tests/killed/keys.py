"""Every address that makes something, on a server that is killed with `kill -9` at each statement
and each COMMIT; then the same key again.

    python -m tests.killed.keys --seconds 60 --from 0    # DATABASE_URL names the server

The addresses are those of the matrix, so a new one cannot be forgotten; what is sent where the
table's body does nothing is in `tests.killed.cases`. Each case has a database of its own, a copy of
the matrix's world, and a server that is a forked child of this process. What is there afterwards is
counted from outside, and compared with what one request that nobody disturbs leaves. Prints one
line of JSON: how many cases, and what was wrong.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import psycopg

from tests.databases import copies

if TYPE_CHECKING:
    from tests.killed.cases import Sent
    from tests.matrix.world import World

KEY = {"Idempotency-Key": "one"}
UNCOUNTED = {"hitl_idempotencykey", "hitl_presence", "django_session"}
END = 10_000
"""A number that no request comes to: its server is killed when its answer is ready."""
WORLD, CASE = "keys_world", "keys_case"
ENOUGH = 90
"""Statements after which a request that is still not at its end is a mistake of this program."""


@dataclass(frozen=True)
class Told:
    """What a server answered; nothing where it was killed before."""

    status: int = 0
    replayed: str = ""
    text: str = ""
    points: int = 0
    """Statements and COMMITs that it took."""
    commits: tuple[int, ...] = ()
    """Which of them were COMMITs."""


class Server:
    """Databases beside one another."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection = psycopg.connect(url, autocommit=True)

    def copy(self, template: str, name: str) -> None:
        self.connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        # by its files: copying them through the log takes longer, and nothing is to be durable
        self.connection.execute(
            f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY'
        )

    def rows(self, name: str) -> dict[str, int]:
        """Table → how many rows it has."""
        with psycopg.connect(self.url.replace("/postgres?", f"/{name}?")) as looking:
            tables = looking.execute(
                "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = "
                "'public'::regnamespace"
            ).fetchall()
            names = sorted({str(table) for (table,) in tables} - UNCOUNTED)
            counts = " UNION ALL ".join(
                f"SELECT '{table}', count(*) FROM \"{table}\"" for table in names
            )
            return dict(looking.execute(counts).fetchall())


@contextmanager
def killed_at(number: int) -> Iterator[Callable[[], tuple[int, tuple[int, ...]]]]:
    """This process is killed before its statement of that number, or after that COMMIT, whose
    answer it never hears.
    """
    from django.db import connection

    backend, sent, commits = cast(Any, connection), 0, []
    commit = backend._commit

    def count() -> None:
        nonlocal sent
        sent += 1
        if sent == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def execute(run: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        count()
        return run(sql, params, many, context)

    def committed() -> None:
        count()  # before it is sent
        commit()
        commits.append(sent + 1)
        count()

    backend._commit = committed
    with connection.execute_wrapper(execute):
        yield lambda: (sent, tuple(commits))


def in_a_child(name: str, ask: Callable[[], Told], *, times: int = 1) -> list[Told]:
    """What a server of its own, on that database, answers each time it is asked."""
    from django.db import connection

    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            connection.settings_dict["NAME"] = name
            answers = [
                [told.status, told.replayed, told.text[:4000], told.points, told.commits]
                for told in (ask() for _ in range(times))
            ]
            os.write(writes, json.dumps(answers).encode())
        except BaseException:  # noqa: BLE001  # a forked child may not go on as its parent
            failed = [599, "", traceback.format_exc()[-2000:], 0, []]
            os.write(writes, json.dumps([failed] * times).encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    if not text:
        return [Told()] * times
    return [
        Told(status, replayed, body, points, tuple(commits))
        for status, replayed, body, points, commits in json.loads(text)
    ]


class Killing:
    def __init__(self, server: Server, world: World, sent: Mapping[str, Sent]) -> None:
        self.server, self.world, self.sent = server, world, sent
        self.paths = list(sent)
        self.cases, self.killed, self.next = 0, 0, 0
        self.wrong: list[str] = []

    def post(self, path: str, *, at: int = 0) -> Told:
        wanted = self.sent[path]
        client = wanted.client(self.world)
        with killed_at(at) as sent:
            answer = client.post(
                wanted.url,
                wanted.raw,
                content_type="application/json",
                headers={**KEY, **wanted.headers},
            )
            points, commits = sent()
        if at == END:
            os.kill(os.getpid(), signal.SIGKILL)
        return Told(
            answer.status_code,
            answer.get("Idempotent-Replayed", ""),
            answer.content.decode(errors="replace"),
            points,
            commits,
        )

    def undisturbed(self, path: str) -> tuple[Told, dict[str, int]]:
        """In this process: queries and serializers that a first request makes, no child makes
        again.
        """
        from django.db import connection

        self.server.copy(WORLD, CASE)
        connection.settings_dict["NAME"] = CASE
        told = self.post(path)
        connection.close()
        if not 200 <= told.status < 300:
            self.wrong.append(f"{path}: undisturbed it is {told.status}, {told.text[-300:]}")
        return told, self.server.rows(CASE)

    def case(self, path: str, at: int, usual: Told, left: dict[str, int]) -> None:
        """One server killed at one point; then the same request twice more."""
        self.server.copy(WORLD, CASE)
        [first] = in_a_child(CASE, lambda: self.post(path, at=at))
        self.cases += 1
        self.killed += first.status == 0
        again, third = in_a_child(CASE, lambda: self.post(path), times=2)
        where = f"{path} killed at {'its answer' if at == END else f'{at} of {usual.points}'}"
        found = self.server.rows(CASE)
        if found != left:
            more = {
                table: found[table] - count
                for table, count in left.items()
                if found[table] != count
            }
            self.wrong.append(f"{where}: it left {more} more than one request does")
        for told in (again, third):
            if not (200 <= told.status < 300 or "idempotency_answer_not_kept" in told.text):
                self.wrong.append(
                    f"{where}: the same key is then answered {told.status}, {told.text[:300]}"
                )
        if 200 <= again.status < 300 and not third.replayed and again.points:
            self.wrong.append(f"{where}: the third request does not say that it is one sent again")

    def run(self, seconds: float, first: int, *, brief: bool) -> None:
        """Case after case from number `first` of all, until the time is over; `brief` takes one of
        each address.
        """
        ends, number = time.monotonic() + seconds, 0
        for place, path in enumerate(self.paths):
            usual: Told | None = None
            left: dict[str, int] = {}
            for at in self.points(path, place, brief=brief):
                number += 1
                if number <= first:
                    continue
                if time.monotonic() > ends:
                    return
                self.next = number
                if usual is None:
                    usual, left = self.undisturbed(path)
                if at == END or at <= usual.points:
                    self.case(path, self.exact(at, usual), usual, left)
        self.next = 0  # from the beginning

    def points(self, path: str, place: int, *, brief: bool) -> list[int]:
        """The places of a request; negative ones count COMMITs: -1 right after the first, -2 right
        before it.
        """
        return [[-1, -2, END][place % 3]] if brief else [*range(1, ENOUGH), END]

    def exact(self, at: int, usual: Told) -> int:
        if at > 0:
            return at
        return END if not usual.commits else usual.commits[0] + 1 + at


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.killed.keys")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--from", dest="first", type=int, default=0, help="leave out so many cases")
    parser.add_argument("--brief", action="store_true", help="one case of each address")
    options = parser.parse_args(arguments)
    server = Server(os.environ["DATABASE_URL"])
    server.copy(copies.postgresql_tables(), WORLD)
    os.environ["DATABASE_URL"] = server.url.replace("/postgres?", f"/{WORLD}?")
    world, sent = make_world()
    killing = Killing(server, world, sent)
    killing.run(options.seconds, options.first, brief=options.brief)
    done = {
        "addresses": killing.paths,
        "cases": killing.cases,
        "killed": killing.killed,
        "next": killing.next,
        "wrong": killing.wrong[:20],
    }
    print(json.dumps(done), flush=True)
    return 1 if killing.wrong else 0


def make_world() -> tuple[World, dict[str, Sent]]:
    import django

    django.setup()
    from django.conf import settings
    from django.db import connection

    from hitl.http import replay
    from tests.killed import cases
    from tests.killed.cases import Sent
    from tests.matrix import world as worlds
    from tests.matrix.addresses import ADDRESSES, REST
    from tests.matrix.walk import fill

    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, "testserver"]
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # not slowly here
    # nobody waits here for the answer of a server that is known to be dead
    replay.ANSWERING = dt.timedelta(0)
    worlds.load_templates()
    world = worlds.build()
    # what a first request imports, no child imports again
    world.client(worlds.BY_NAME["owner"]).get("/api/v1/work-orders")
    sent = {
        path: Sent(fill(world, path, address.done)[0], dict(address.body))
        for path, address in ADDRESSES.items()
        if path.startswith(REST) and address.done
    }
    sent |= cases.of(world)
    connection.close()
    gc.freeze()  # what stands is not copied, in each child, by looking for garbage
    return world, sent


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
