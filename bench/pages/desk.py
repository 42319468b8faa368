"""A team at work: many have the inbox open while others ask and answer, and fifty look at one order
whose agent takes five steps a second. What a POST takes meanwhile, how late the last of them is
shown a change, what each costs the one web server.

`make bench ARGS="desk DESK_PEOPLE=5 DESK_SECONDS=3"` has fewer people for a shorter time. Clients,
PostgreSQL and server share this machine's processors.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from django.contrib.auth.models import Group, User
from django.test import Client

from bench.workload import as_shipped, figure, percentile
from checkpoints.models import Event
from hitl.models import ApiToken
from runs import services
from runs.engine.advance import advance
from tests.servers.stack import ROOT, Stack

PEOPLE = int(os.environ.get("DESK_PEOPLE", "200"))
SECONDS = float(os.environ.get("DESK_SECONDS", "20"))
OPEN = 60
"""Questions that wait throughout; the one that waits longest is answered next."""
CASES = ((1, 4), (20, 4), (50, 4), (200, 4), (200, 10))
"""People with the inbox open, and changes a second."""
HARDEST = CASES[-1]
ON_AN_ORDER, BESIDE_IT = 50, 4
"""People with its page open, and changes of other questions a second."""
POSTERS = 4
"""By turns one asks and one answers: who asked a question does not answer it."""
INBOX_BARS = {"post": 60.0, "late": 1000.0, "cpu": 0.4}
ORDER_BARS = {"post": 80.0, "late": 1000.0}
"""Milliseconds."""


class Change(NamedTuple):
    name: str
    """As onlookers call it: `new pse_…` or `gone pse_…`."""
    took: float
    """Seconds that its POST took."""
    at: float
    """When that was answered."""


class Desk:
    """Asks and answers as other engines and people's programs do, so no worker is needed."""

    def __init__(self, stack: Stack, tokens: list[str]) -> None:
        self.stack, self.tokens = stack, tokens
        self.open: deque[str] = deque()

    def ask(self, token: str) -> Change:
        body = {"run_id": uuid.uuid4().hex, "team": "desk", "question": "May it be sent?"}
        change, wait = self._post("/api/v1/workflows/wait", body, token)
        self.open.append(wait["pause_id"])
        return change._replace(name=f"new {wait['pause_id']}")

    def answer(self, token: str) -> Change:
        pause = self.open.popleft()
        path = f"/api/v1/pauses/{pause}/decisions"
        change, _ = self._post(path, {"decision": "approve"}, token)
        return change._replace(name=f"gone {pause}")

    def _post(self, path: str, body: dict[str, Any], token: str) -> tuple[Change, dict[str, Any]]:
        began = time.time()
        status, answer = self.stack.call("POST", path, body, token=token)
        assert status == 201, answer
        return Change("", time.time() - began, time.time()), answer

    @contextmanager
    def at_work(self, rate: float) -> Iterator[list[Change]]:
        """For SECONDS so many changes a second; they are in the list when the block has ended."""
        changes: list[Change] = []
        ends = time.monotonic() + SECONDS

        def post(number: int, token: str) -> None:
            due = time.monotonic() + number / rate
            while max(due, time.monotonic()) < ends:
                time.sleep(max(0.0, due - time.monotonic()))  # so many a second
                changes.append(self.answer(token) if number % 2 else self.ask(token))
                due += POSTERS / rate

        with ThreadPoolExecutor(POSTERS) as pool:
            posters = [pool.submit(post, *poster) for poster in enumerate(self.tokens)]
            yield changes
            for poster in posters:
                poster.result()


def measure() -> Iterator[dict[str, Any]]:
    team = Group.objects.create(name="desk")
    people = [_member(f"onlooker{number}", team) for number in range(PEOPLE)]
    posters = [_member(f"poster{number}", team) for number in range(POSTERS)]
    sessions = [_session(person) for person in people]
    with as_shipped() as stack:
        stack.web()
        desk = Desk(stack, [ApiToken.make(poster, name="desk")[1] for poster in posters])
        for _ in range(OPEN):
            desk.ask(desk.tokens[0])
        for case in sorted({(min(count, PEOPLE), rate) for count, rate in CASES}):
            bars = INBOX_BARS if case == HARDEST else {}
            yield from _inboxes(desk, sessions[: case[0]], case[1], bars)
        yield from _order(desk, sessions[:ON_AN_ORDER], team, posters[0])


def _inboxes(
    desk: Desk, sessions: list[str], rate: int, bars: Mapping[str, float]
) -> Iterator[dict[str, Any]]:
    name = f"{len(sessions)} inboxes, {rate} changes a second"
    page = {"page": "inbox", "sockets": ["/ws/inbox?page"], "fetches": "/?live"}
    with _onlookers(desk.stack, sessions, page) as onlookers:
        busy = _busy(desk.stack)
        with desk.at_work(rate) as changes:
            pass
        seen = _told(onlookers, [change.name for change in changes])
        busy = _busy(desk.stack) - busy
    committed = {change.name: change.at for change in changes}
    yield from _report(name, len(sessions), changes, committed, seen, busy, bars)


def _order(desk: Desk, sessions: list[str], team: Group, by: User) -> Iterator[dict[str, Any]]:
    name = f"{len(sessions)} on one order, 5 steps a second"
    bars = ORDER_BARS if len(sessions) == ON_AN_ORDER else {}
    order = services.submit("bench-stroll", by=by, team=team)
    events = Event.objects.filter(thread=order.thread)
    after = max(events.values_list("seq", flat=True))
    page = {
        "page": "order",
        "sockets": [f"/ws/threads/{order.thread.shown_id}/stream?after={after}&page", "/ws/inbox"],
        "fetches": f"/work-orders/{order.shown_id}/?live=work",
    }
    with _onlookers(desk.stack, sessions, page) as onlookers:
        busy = _busy(desk.stack)
        with desk.at_work(BESIDE_IT) as changes:
            assert order.latest_run_id
            advance(order.latest_run_id, budget=SECONDS)
        written = events.filter(seq__gt=after).values_list("seq", "at")
        committed = {str(seq): at.timestamp() for seq, at in written}
        seen = _told(onlookers, list(committed))
        busy = _busy(desk.stack) - busy
    yield from _report(name, len(sessions), changes, committed, seen, busy, bars)


def _report(
    name: str,
    people: int,
    changes: list[Change],
    committed: Mapping[str, float],
    seen: dict[str, Any],
    busy: float,
    bars: Mapping[str, float],
) -> Iterator[dict[str, Any]]:
    """Args:
    changes: what was posted meanwhile.
    committed: what people were to be shown, with when it was there.
    busy: seconds of a processor that the server took.
    """
    posts = [change.took * 1000 for change in changes]
    answers = sum(change.name.startswith("gone") for change in changes)
    late = [max(0.0, at - committed[what]) * 1000 for what, at in seen["last"].items()]
    each = people * len(committed)
    yield {
        **figure(f"{name}: reached", len(changes) / SECONDS, "changes a second"),
        "answers": round(answers / SECONDS, 2),
        "shown": len(committed),
    }
    yield figure(f"{name}: POST, p50", percentile(posts, 0.5), "ms")
    yield figure(f"{name}: POST, p95", percentile(posts, 0.95), "ms", bar=bars.get("post"))
    if late:
        yield {
            **figure(f"{name}: the last is shown it, worst", max(late), "ms", bar=bars.get("late")),
            "p50": round(percentile(late, 0.5), 1),
            "p95": round(percentile(late, 0.95), 1),
        }
    yield figure(
        f"{name}: processor of the server, each change and person",
        busy * 1000 / each,
        "ms",
        bar=bars.get("cpu"),
    )
    yield {
        **figure(f"{name}: sent, each change and person", seen["bytes"] / each, "bytes"),
        "fetches": round(seen["fetches"] / each, 3),
    }
    yield {
        **figure(f"{name}: missed or doubled", seen["missed"] + seen["doubled"], "changes", bar=0),
        **{what: seen[what] for what in ("missed", "doubled", "failed", "closed")},
    }


def _member(name: str, team: Group) -> User:
    user = User.objects.create(username=name)
    user.groups.add(team)
    return user


def _session(user: User) -> str:
    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value


@contextmanager
def _onlookers(
    stack: Stack, sessions: list[str], page: dict[str, Any]
) -> Iterator[subprocess.Popen[str]]:
    """A process of theirs, with all pages open."""
    command = [sys.executable, "-m", "bench.clients.onlookers"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        opened = _told(process, {"port": stack.port, "sessions": sessions, **page})
        assert opened == {"open": len(sessions)}, opened
        yield process
    finally:
        process.kill()
        process.wait()


def _told(process: subprocess.Popen[str], words: Any) -> dict[str, Any]:
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps(words) + "\n")
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


def _busy(stack: Stack) -> float:
    """Seconds that the web server's threads have had of a processor."""
    stat = Path(f"/proc/{stack.processes[-1].pid}/stat").read_text()
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
