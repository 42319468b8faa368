"""`make chaos`: many runs, everything is killed and restarted under them, twenty clients race for each answer; then the books are checked.

    make chaos ARGS="--runs 60 --pauses 3 --seed 7"

Private PostgreSQL, Redis, Daphne, Celery workers and beat. The schedule of faults and the answers follow from the seed; what meets
what, of course, does not. Prints its parameters first and one line of JSON last; exits with 1 on any breach.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import queue
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import django

from tests.run import answers, find, free_port, install_missing, wait_for
from tests.stack import ROOT, Stack

USERS = ("ana", "ben", "cleo", "dan")
PASSWORD = "a long password of the chaos run"
REDISPATCH = 5.0
"""Seconds after which a question that is still open is handed to the clients again: their answers met a server that was away."""
GRACE = 5.0
"""Seconds after a server is back in which its clients may still stumble over dead connections."""

T = TypeVar("T")
Server = subprocess.Popen[bytes]


# -- the servers, which can be killed and started again ------------------------------------------------------------------------------


@dataclass
class PostgreSQL:
    folder: Path
    as_user: list[str] = field(default_factory=list)
    process: Server | None = None

    @property
    def url(self) -> str:
        return f"postgresql://waystation@/postgres?host={self.folder}"

    def create(self) -> None:
        self.folder.mkdir()
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            subprocess.run(["chown", "postgres:postgres", self.folder], check=True)
            self.as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        initdb = Path(str(find("postgres"))).with_name("initdb")
        arguments: list[str | Path] = [
            initdb,
            "-D",
            self.folder / "db",
            "-U",
            "waystation",
            "-A",
            "trust",
            "-N",
            "-E",
            "UTF8",
            "--locale=C",
        ]
        subprocess.run([*self.as_user, *arguments], check=True, stdout=subprocess.DEVNULL)

    def start(self) -> None:
        # a killed server's pages are in the system's cache, so fsync=off loses nothing here; a power cut is another test
        settings = [
            "-c",
            "fsync=off",
            "-c",
            "listen_addresses=",
            "-c",
            f"unix_socket_directories={self.folder}",
            "-c",
            "max_connections=200",
        ]
        with (self.folder.parent / "postgresql.log").open("ab") as log:
            command = [*self.as_user, str(find("postgres")), "-D", str(self.folder / "db"), *settings]
            self.process = subprocess.Popen(command, stderr=log)
        wait_for(self._ready, "PostgreSQL", self.process, 60)

    def _ready(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """SIGQUIT: ends at once, without a checkpoint; the next start recovers from the log."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(30)


@dataclass
class Redis:
    folder: Path
    port: int = field(default_factory=free_port)
    process: Server | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        arguments = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen([*arguments, "--dir", str(self.folder)], stdout=subprocess.DEVNULL)
        wait_for(lambda: answers(self.port), "Redis", self.process)

    def kill(self) -> None:
        """With all messages in it: the product must not need one of them."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)


# -- the fault maker -----------------------------------------------------------------------------------------------------------------


class Faults(threading.Thread):
    """Every few seconds something dies or stands still."""

    KINDS = ("kill worker", "restart redis", "kill worker", "restart postgresql", "freeze worker", "kill worker")

    def __init__(self, stack: Stack, postgresql: PostgreSQL, redis: Redis, *, workers: int, every: float, dice: random.Random) -> None:
        super().__init__(name="faults", daemon=True)
        self.stack, self.postgresql, self.redis, self.every, self.dice = stack, postgresql, redis, every, dice
        self.workers = {f"w{number}": stack.worker(f"w{number}") for number in range(workers)}
        self.beat = stack.beat()
        self.ended = threading.Event()
        self.made: Counter[str] = Counter()
        self.outages: list[list[float]] = []
        self.problems: list[str] = []

    def run(self) -> None:
        kinds = list(self.KINDS)
        while not self.ended.wait(self.every * self.dice.uniform(0.5, 1.5)):
            kind = kinds.pop(0) if kinds else self.dice.choice(self.KINDS)
            try:
                self.make(kind)
            except Exception as error:  # noqa: BLE001  # a thread's error would be lost; the summary names it
                self.problems.append(f"{kind}: {error!r}")
                return
            self.made[kind] += 1
            self.revive()

    def make(self, kind: str) -> None:
        name = self.dice.choice(sorted(self.workers))
        match kind:
            case "kill worker":
                self.stack.kill(self.workers[name])
                self.workers[name] = self.stack.worker(name)
            case "freeze worker":  # past its lease of three seconds: another takes its runs, and it comes back
                os.killpg(self.workers[name].pid, signal.SIGSTOP)
                self.ended.wait(4)
                os.killpg(self.workers[name].pid, signal.SIGCONT)
            case "restart redis":
                self.away(self.redis)
            case "restart postgresql":
                self.away(self.postgresql)

    def away(self, server: PostgreSQL | Redis) -> None:
        self.outages.append([time.monotonic(), float("inf")])
        server.kill()
        self.ended.wait(self.dice.uniform(0, 1))
        server.start()
        self.outages[-1][1] = time.monotonic() + GRACE

    def revive(self) -> None:
        """What a supervisor does in production, and counts."""
        for name, process in self.workers.items():
            if process.poll() is not None:
                self.made["worker ended by itself"] += 1
                self.workers[name] = self.stack.worker(name)
        if self.beat.poll() is not None:
            self.made["beat ended by itself"] += 1
            self.beat = self.stack.beat()

    def stop(self) -> None:
        self.ended.set()
        self.join(60)
        self.revive()

    def was_away(self, began: float, ended: float) -> bool:
        return any(began <= until and ended >= since for since, until in self.outages)

    def since(self, moment: float) -> float:
        """Seconds since the servers were last back."""
        return moment - max((until - GRACE for _, until in self.outages if until - GRACE < moment), default=0)


# -- the clients ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    pause: str
    order: str
    revision: int


@dataclass(frozen=True)
class Answer:
    """What a client was told."""

    question: Question
    action: str
    user: str
    door: str
    verdict: str
    """taken, refused, unreachable, or a status that it should not have been."""
    began: float
    ended: float


class Client(threading.Thread):
    """Answers every question it is told of, as fast as it can."""

    door = ""
    actions: tuple[str, ...] = ("approve", "revise", "cancel")

    def __init__(self, stack: Stack, user: str, dice: random.Random, heard: list[Answer]) -> None:
        super().__init__(daemon=True)
        self.stack, self.user, self.dice, self.heard = stack, user, dice, heard
        self.inbox: queue.SimpleQueue[Question | None] = queue.SimpleQueue()

    def run(self) -> None:
        while (question := self.inbox.get()) is not None:
            action = self.dice.choices(self.actions, [80, 16, 4][: len(self.actions)])[0]
            if action == "revise" and question.revision > 2:
                action = "approve"
            began = time.monotonic()
            try:
                verdict = self.give(question, action)
            except (OSError, http.client.HTTPException):
                verdict = "unreachable"
            self.heard.append(Answer(question, action, self.user, self.door, verdict, began, time.monotonic()))

    def give(self, question: Question, action: str) -> str:
        raise NotImplementedError

    def request(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> tuple[int, http.client.HTTPMessage, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.stack.port, timeout=30)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode(errors="replace")
        finally:
            connection.close()


class RestClient(Client):
    door = "rest"
    token = ""

    def give(self, question: Question, action: str) -> str:
        body = json.dumps({"decision": action, "feedback": "again", "revision": question.revision})
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        status, _, _ = self.request("POST", f"/api/v1/pauses/{question.pause}/decisions", body, headers)
        return {201: "taken", 409: "refused"}.get(status, str(status))


class PageClient(Client):
    """A browser without JavaScript."""

    door = "page"

    def log_in(self) -> None:
        _, headers, page = self.request("GET", "/login", None, {})
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert found, page[:500]
        form = {"username": self.user, "password": PASSWORD, "csrfmiddlewaretoken": found[1]}
        sent = {"Cookie": self._cookies(headers), "Content-Type": "application/x-www-form-urlencoded"}
        status, headers, page = self.request("POST", "/login", urlencode(form), sent)
        assert status == 302, (status, page[:500])
        self.cookies = self._cookies(headers)
        self.csrf = SimpleCookie(self.cookies)["csrftoken"].value

    def _cookies(self, headers: http.client.HTTPMessage) -> str:
        cookies: SimpleCookie = SimpleCookie()
        for header in headers.get_all("Set-Cookie") or []:
            cookies.load(header)
        return "; ".join(f"{name}={morsel.value}" for name, morsel in cookies.items())

    def give(self, question: Question, action: str) -> str:
        form = {"action": action, "feedback": "again", "revision": str(question.revision), "csrfmiddlewaretoken": self.csrf}
        headers = {"Cookie": self.cookies, "Content-Type": "application/x-www-form-urlencoded"}
        status, answer, _ = self.request("POST", f"/pauses/{question.pause}/decide", urlencode(form), headers)
        if status == 302:
            return "taken" if "/login" not in (answer["Location"] or "") else "302 to the login"
        return {409: "refused"}.get(status, str(status))


class ShellClient(Client):
    door = "command"
    actions = ("approve", "revise")  # its cancel also ends an order that asks nothing just then, which no decision would explain

    def open(self) -> None:
        arguments = [sys.executable, "-m", "bench.chaos_shell"]
        with (self.stack.folder / "shell.log").open("ab") as log:
            self.shell = subprocess.Popen(
                arguments, cwd=ROOT, env=self.stack.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def give(self, question: Question, action: str) -> str:
        assert self.shell.stdin
        assert self.shell.stdout
        print(self.user, action, question.order, question.revision, file=self.shell.stdin, flush=True)
        return (self.shell.stdout.readline().split() or ["the shell ended"])[0]


# -- one chaos run -------------------------------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    options = read(arguments)
    print("chaos:", " ".join(f"--{name.replace('_', '-')} {value}" for name, value in vars(options).items()), flush=True)
    install_missing()
    with tempfile.TemporaryDirectory(prefix="waystation-chaos-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        with servers(folder) as (postgresql, redis):
            (folder / "effects").touch()
            environment = {
                "DATABASE_URL": postgresql.url,
                "REDIS_URL": redis.url,
                "CHAOS_LEDGER": str(folder / "effects"),  # each effect adds a line: what the world outside has seen
                "DJANGO_SETTINGS_MODULE": "bench.chaos_settings",
                "API_RATE": "1000000/min",
                "WAYSTATION_LOST_ATTEMPTS": "50",  # here it is the same few workers that die again and again
                "LOG_LEVEL": "WARNING",
            }
            stack = Stack(folder, environment)
            os.environ.update(stack.environment)
            django.setup()
            try:
                summary = Chaos(stack, postgresql, redis, options).run()
            finally:
                stack.stop()
            if summary["breaches"] and options.keep:
                subprocess.run(["cp", "-r", *folder.glob("*.log"), options.keep], check=False)
    print(json.dumps(summary), flush=True)
    return 1 if summary["breaches"] else 0


def read(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos ARGS=…", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="work orders (1000)")
    parser.add_argument("--pauses", type=int, default=3, help="questions in each (3)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the answers and the faults (drawn)")
    parser.add_argument("--clients", type=int, default=20, help="how many race for each answer (20)")
    parser.add_argument("--workers", type=int, default=2, help="Celery workers, two processes each (2)")
    parser.add_argument("--every", type=float, default=6, help="seconds between two faults, on average (6)")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds after which runs that have not ended are a breach (3600)")
    parser.add_argument("--keep", default="", help="a folder for the logs of a run with breaches")
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


class Chaos:
    def __init__(self, stack: Stack, postgresql: PostgreSQL, redis: Redis, options: argparse.Namespace) -> None:
        self.stack, self.postgresql, self.redis, self.options = stack, postgresql, redis, options
        self.dice = random.Random(options.seed)
        self.heard: list[Answer] = []
        self.breaches: list[str] = []

    def run(self) -> dict[str, Any]:
        began = time.monotonic()
        tokens = self.settle()
        self.stack.web()
        faults = Faults(
            self.stack,
            self.postgresql,
            self.redis,
            workers=self.options.workers,
            every=self.options.every,
            dice=random.Random(self.dice.random()),
        )
        clients = self.clients(tokens)
        faults.start()
        asked_again = self.submit(tokens["ana"])
        self.race(clients, deadline=began + self.options.timeout)
        faults.stop()
        for client in clients:
            client.inbox.put(None)
        for client in clients:
            client.join(60)
            if isinstance(client, ShellClient):
                client.shell.kill()
                client.shell.communicate()
        self.breaches += faults.problems
        counts = {**self.check_orders(), **self.check_answers(faults), "invariants": self.check_invariants()}
        return {
            "ok": not self.breaches,
            "seconds": round(time.monotonic() - began),
            **{name: getattr(self.options, name) for name in ("runs", "pauses", "seed", "clients")},
            "submitted_again": asked_again,
            "faults": dict(faults.made),
            **counts,
            "breaches": self.breaches[:20],
        }

    def settle(self) -> dict[str, str]:
        """Tables, people, the template; gives the people's tokens."""
        from django.contrib.auth.models import Group, User

        from bench import chaos_steps
        from hitl.models import ApiToken

        self.stack.manage("migrate", "-v0")
        chaos_steps.load(self.options.pauses)
        team = Group.objects.create(name="chaos")
        tokens = {}
        for name in USERS:
            user = User.objects.create_user(name, password=PASSWORD)
            user.groups.add(team)
            tokens[name] = ApiToken.make(user, name="chaos")[1]
        return tokens

    def clients(self, tokens: dict[str, str]) -> list[Client]:
        """Of ten clients six speak REST, three use the page and one the shell."""
        found: list[Client] = []
        doors: list[type[Client]] = [RestClient, PageClient, RestClient, ShellClient, RestClient, PageClient, RestClient, RestClient]
        doors += [PageClient, RestClient]
        for number in range(self.options.clients):
            user = USERS[number % len(USERS)]
            client = doors[number % len(doors)](self.stack, user, random.Random(self.dice.random()), self.heard)
            match client:
                case RestClient():
                    client.token = tokens[user]
                case PageClient():
                    client.log_in()
                case ShellClient():
                    client.open()
            client.start()
            found.append(client)
        return found

    def submit(self, token: str) -> int:
        """Ask for all orders. One that got no answer is asked for again, so there may be some more than wanted; all are watched."""
        again = 0
        for number in range(self.options.runs):
            body = {"template": "chaos", "title": f"order {number}", "team": "chaos"}
            while True:
                try:
                    status, answer = self.stack.call("POST", "/api/v1/work-orders", body, token=token)
                except (OSError, http.client.HTTPException):
                    status, answer = 0, ""
                if status == 201:
                    break
                if status not in {0, 500, 503}:
                    self.breaches.append(f"submit: {status} {str(answer)[:200]}")
                again += 1
                time.sleep(0.2)
        return again

    def race(self, clients: list[Client], *, deadline: float) -> None:
        """Hand every open question to all clients, until no order is left to end."""
        from runs.models import Pause, Run
        from runs.states import LIVE

        handed: dict[str, float] = {}
        while time.monotonic() < deadline:
            busy = sum(client.inbox.qsize() for client in clients)
            if busy < 10 * len(clients):
                found = patiently(
                    lambda: list(Pause.objects.open().select_related("run__work_order").order_by("id")[:200])  # oldest first
                )
                now = time.monotonic()
                new = [pause for pause in found if handed.get(pause.shown_id, 0) < now - REDISPATCH][:10]
                for pause in new:
                    handed[pause.shown_id] = now
                    assert pause.run.work_order is not None
                    question = Question(pause.shown_id, pause.run.work_order.shown_id, pause.revision)
                    for client in clients:
                        client.inbox.put(question)
                if not found and not patiently(lambda: Run.objects.filter(status__in=LIVE).exists()):
                    return
            time.sleep(0.05)
        left = patiently(lambda: Counter(Run.objects.filter(status__in=LIVE).values_list("status", flat=True)))
        self.breaches.append(f"not at an end after {self.options.timeout:g} s: {dict(left)}")

    # -- the books -------------------------------------------------------------------------------------------------------------------

    def check_orders(self) -> dict[str, Any]:
        """Each order did exactly what its recorded answers say, and the world outside saw each of its effects."""
        from runs.models import WorkOrder

        effects = Counter((self.stack.folder / "effects").read_text().split())
        seen: set[str] = set()
        statuses: Counter[str] = Counter()
        results = 0
        for order in WorkOrder.objects.shown().prefetch_related("runs__pauses__decisions").iterator(chunk_size=200):
            run = order.latest_run
            assert run is not None
            statuses[run.status] += 1
            expected, status = self.expected(run)
            if run.status != status:
                self.breach(order, f"is {run.status}, its answers say {status}; {run.error}")
            found = self.results(order)
            if found != expected:
                self.breach(order, f"results {found}, expected {expected}")
            if missing := [key for key in found if not effects[key]]:
                self.breach(order, f"results without effect: {missing}")
            results += len(found)
            seen.update(found)
            self.check_log(order)
        if sum(statuses.values()) < self.options.runs:
            self.breaches.append(f"{sum(statuses.values())} orders, {self.options.runs} were acknowledged")
        if unknown := set(effects) - seen:
            self.breaches.append(f"{len(unknown)} effects without a result, such as {sorted(unknown)[:3]}")
        return {
            "orders": sum(statuses.values()),
            "ended": dict(statuses),
            "results": results,
            "effects": len(effects),
            "attempts": effects.total(),
        }

    def expected(self, run: Any) -> tuple[list[str], str]:
        """The results that a run must have after its decisions, and how it must have ended."""
        by_step: defaultdict[str, list[str]] = defaultdict(list)
        for pause in sorted(run.pauses.all(), key=lambda pause: pause.opened_at):
            decisions = list(pause.decisions.all())
            if len(decisions) != 1:
                return [], f"broken: {pause.shown_id} has {len(decisions)} decisions"
            by_step[pause.step].append(decisions[0].action)
        keys = []
        for number in range(1, self.options.pauses + 1):
            for loop, action in enumerate(by_step[f"s{number}"], start=1):
                keys.append(f"{run.shown_id}/s{number}/{loop}")
                if action == "cancel":
                    return keys, "cancelled"
        return [*keys, f"{run.shown_id}/finish/1"], "completed"

    def results(self, order: Any) -> list[str]:
        from checkpoints import store

        found: list[str] = store.load(order.thread.head).get("results", [])
        return found

    def check_log(self, order: Any) -> None:
        from checkpoints.models import Event

        events = list(Event.objects.filter(thread=order.thread_id).order_by("seq").values_list("seq", "kind"))
        if [seq for seq, _ in events] != list(range(1, order.thread.last_seq + 1)):
            self.breach(order, "has gaps in its log")
        kinds = Counter(kind for _, kind in events)
        if sum(kinds[kind] for kind in ("run_completed", "run_failed", "run_cancelled")) != 1:
            self.breach(order, f"ended {kinds}")
        if kinds["approval_requested"] != kinds["approval_received"]:
            self.breach(order, f"asked and was answered {kinds}")

    def check_answers(self, faults: Faults) -> dict[str, Any]:
        """What a client was told is true: an answer that was taken is the recorded one, and nothing else went wrong."""
        from checkpoints import ids
        from hitl.models import Decision

        recorded = {
            ids.show("pse", decision.pause_id): (decision.action, decision.decided_by.username, str(decision.via))
            for decision in Decision.objects.select_related("decided_by").iterator(chunk_size=500)
        }
        by_command = Counter(
            (ids.show("wo", order), action, user)
            for order, action, user in Decision.objects.filter(via="command").values_list(
                "pause__run__work_order", "action", "decided_by__username"
            )
        )
        verdicts: Counter[str] = Counter()
        taken: set[str] = set()
        stumbles = 0
        for answer in self.heard:
            told = (answer.action, answer.user, answer.door)
            if answer.verdict in {"unreachable", "500", "503"} and faults.was_away(answer.began, answer.ended):
                stumbles += 1
                continue
            verdicts[answer.verdict] += 1
            if answer.verdict not in {"taken", "refused"}:
                self.breaches.append(f"{answer.door} {answer.action}: {answer.verdict}, {faults.since(answer.began):.1f} s after an outage")
            elif answer.verdict == "taken" and answer.door == "command":  # it names the order, so it may have met the next question
                by_command[(answer.question.order, answer.action, answer.user)] -= 1
            elif answer.verdict == "taken":
                if answer.question.pause in taken:
                    self.breaches.append(f"{answer.question.pause} was taken twice")
                taken.add(answer.question.pause)
                if recorded.get(answer.question.pause) != told:
                    self.breaches.append(f"{answer} was acknowledged, recorded is {recorded.get(answer.question.pause)}")
        if false := [key for key, left in by_command.items() if left < 0]:
            self.breaches.append(f"acknowledged at the shell, but not recorded: {false[:3]}")
        return {
            "decisions": len(recorded),
            "answers": dict(verdicts),
            "errors_while_a_server_was_away": stumbles,
            "recorded_without_acknowledgement": len(recorded) - verdicts["taken"],
        }

    def check_invariants(self) -> str:
        from django.core.management import get_commands

        if "invariants" not in get_commands():
            return "no such command"
        arguments = [sys.executable, "manage.py", "invariants", "--deep"]
        done = subprocess.run(arguments, cwd=ROOT, env=self.stack.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            self.breaches.append(f"invariants: {(done.stdout + done.stderr)[-1500:]}")
        return "clean" if not done.returncode else "broken"

    def breach(self, order: Any, words: str) -> None:
        self.breaches.append(f"{order.shown_id} {words}")


def patiently(look: Callable[[], T]) -> T:
    """Ask the database until it is there."""
    from django.db import DatabaseError, InterfaceError, connection

    while True:
        try:
            return look()
        except (DatabaseError, InterfaceError):
            connection.close()
            time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
