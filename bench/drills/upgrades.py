"""`python -m bench.drills.upgrades COMMIT [COMMIT…]`: an upgrade under load from each of these
commits to this code, and the way back.

Each commit has a work tree, a database and processes of its own. What counts is told by rows, files
and what callers were answered, as one JSON line each; it ends with 1 where something was broken.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.drills.callers import WAY, Asked, Caller, Doors, Follower, over
from bench.drills.outside import (
    DECISIONS,
    ENDS,
    EVENTS,
    database,
    doctor,
    left,
    rows,
    said,
    servers,
    tracebacks,
    work_tree,
)
from tests.databases.copies import PEOPLE
from tests.servers.private import free_port
from tests.servers.stack import SlowStack, until

CALLERS = 3
WHILE = float(os.environ.get("BENCH_UPGRADE_SECONDS", "20"))
"""Seconds of load in each of the long stretches; the short ones are a third of it."""
APPS = ("hitl", "runs", "checkpoints")
"""In the order in which their migrations are taken back."""
KEPT = ("before-1", "before-2", "before-3")
"""Orders that ask before the upgrade, and are answered beside it, after it, and on the way back."""
ENDS_WITHIN = 30.0
"""Seconds that a process may take after SIGTERM."""
QUEUES = "steps,agents", "control,outbound"


def main(commits: list[str]) -> int:
    if not commits:
        sys.exit(__doc__)
    bad = 0
    with servers() as (folder, url, broker):
        for number, commit in enumerate(commits, start=1):
            with work_tree(commit, folder / f"code-{number}") as root:
                drill = Drill(
                    folder / f"drill-{number}",
                    root,
                    database(url, f"upgrade_{number}"),
                    f"{broker.rsplit('/', 1)[0]}/{number}",
                )
                line = drill.run()
            print(json.dumps({"from": commit, **line}), flush=True)
            bad += bool(line["breaches"])
    return 1 if bad else 0


class Drill:
    def __init__(self, folder: Path, root: Path, database: str, broker: str) -> None:
        folder.mkdir()
        self.database, self.breaches = database, list[str]()
        told = {"DATABASE_URL": database, "REDIS_URL": broker, "API_RATE": "1000000"}
        self.old, self.new = SlowStack(folder, told), SlowStack(folder, told)
        self.old.root = root
        self.doors = Doors([self.old])
        self.callers = [Caller(self.doors, number) for number in range(CALLERS)]
        self.follower = Follower(self.doors)
        self.threads: list[Caller | Follower] = [*self.callers, self.follower]
        self.kept = {key: Asked(key) for key in KEPT}
        self.line: dict[str, Any] = {}
        self.longest = 0.0

    def run(self) -> dict[str, Any]:
        try:
            self._steps()
        except Exception as error:  # noqa: BLE001  # the other commits are tried as well
            self.breaches.append(f"{type(error).__name__}: {str(error)[-1500:]}")
        finally:
            for stack in (self.old, self.new):
                stack.stop()
        self.line["longest_end"] = round(self.longest, 1)
        return {**self.line, "breaches": self.breaches}

    def _steps(self) -> None:
        self.old.manage("migrate", "-v", "0")
        self.old.load(PEOPLE)
        self.before = self._migrations()
        self._start_old()
        for asked in self.kept.values():
            self.doors.order("slow-asking", asked)
            self.doors.question(asked)
        for thread in self.threads:
            thread.start()
        time.sleep(WHILE / 3)
        self.line["doctor_before"] = self._doctor("database")
        began = time.monotonic()
        self.new.manage("start", "prepare")
        self.line["migrated_in"] = round(time.monotonic() - began, 1)
        time.sleep(WHILE / 3)  # old code on new tables
        self._start_new()
        self.doors.stacks.append(self.new)
        self.doors.answer(self.kept["before-1"], "approve")
        time.sleep(WHILE)
        self.line["doctor_beside"] = self._doctor("version")
        self._end(self.old)
        self.doors.stacks.remove(self.old)
        self.doors.answer(self.kept["before-2"], "approve")
        time.sleep(WHILE)
        self.line["doctor_after"] = self._doctor("version")
        self.breaches += over(self.threads)
        self._examine()
        self._invariants("invariants", self.new)
        self._back()

    def _start_old(self) -> None:
        self.old.port = free_port()
        self.old.web()
        self.old.worker("old", pool="threads", concurrency=4)
        self.old.beat()

    def _start_new(self) -> None:
        self.new.port = free_port()
        self.new.web()
        for number, queues in enumerate(QUEUES):
            self.new.worker(f"new{number}", queues=queues, pool="threads", concurrency=4)
        self.new.beat()

    def _end(self, stack: SlowStack) -> None:
        """As a deploy ends them: workers and beat, then the web server, each by SIGTERM."""
        for process in [*stack.processes[1:], stack.processes[0]]:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
            began = time.monotonic()
            try:
                process.wait(ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                self.breaches.append(f"{stack.root.name}: {process.args!r} does not end by SIGTERM")
                stack.kill(process)
            self.longest = max(self.longest, time.monotonic() - began)
        stack.processes.clear()

    def _doctor(self, subject: str) -> list[str]:
        return [words for about, words in doctor(self.new) if about == subject]

    def _invariants(self, name: str, stack: SlowStack) -> None:
        lines = said(stack, "invariants", "--deep")
        self.line[name] = lines[-1]
        self.breaches += [f"{name}: {line}" for line in lines if "BROKEN" in line]

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return rows(self.database, statement, *values)

    def _migrations(self) -> dict[str, str]:
        last = self._rows("SELECT app, max(name) FROM django_migrations GROUP BY app")
        return {str(app): str(name) for app, name in last if app in APPS}

    def _examine(self) -> None:
        """Rows and files against what callers were told."""
        with suppress(AssertionError):  # what is left is counted below
            until(lambda: not self._left(), seconds=60, what="the end of all runs", every=0.5)
        asked = [one for caller in self.callers for one in caller.asked]
        asked += [self.kept[key] for key in KEPT[:2]]
        made = Counter(title for (title,) in self._rows("SELECT title FROM runs_workorder"))
        ends = dict(self._rows(ENDS))
        recorded = {title: rest for title, *rest in self._rows(DECISIONS)}
        wrong = [f"{one.key}: {made[one.key]} orders" for one in asked if made[one.key] != 1]
        wrong += [
            f"{one.key}: its key named {one.order}, then {one.replayed}"
            for one in asked
            if one.replayed not in {"", one.order}
        ]
        for one in (one for one in asked if one.decision):
            if recorded.get(one.key) != [one.action]:
                wrong.append(f"{one.key}: told {one.action}, recorded {recorded.get(one.key)}")
            if ends.get(one.key) != WAY[one.action]:
                wrong.append(f"{one.key}: {one.action}, and it is {ends.get(one.key)}")
        for key, seen in self.follower.streams.items():
            there = [seq for (seq,) in self._rows(EVENTS, key)]
            if seen != there:
                wrong.append(f"{key}: told {seen[-5:]} of {len(seen)}, there are {len(there)}")
        done = Counter(self.new.noted("done", ""))
        wrong += [f"{key} was done {times} times" for key, times in done.items() if times > 1]
        wrong += [f"{key} is {status}" for key, status in self._left()]
        self.breaches += wrong + (told := self.doors.told).wrong[:5]
        self.line |= {
            "keys": len(asked),
            "decisions": sum(bool(one.decision) for one in asked),
            "steps_done": len(done),
            "streams": len(self.follower.streams),
            "events": sum(map(len, self.follower.streams.values())),
            "connections": self.follower.connections,
            "requests": told.statuses.total(),
            "server_errors": told.failed,
            "unreachable": told.statuses[0],
            "statuses": dict(sorted(told.statuses.items())),
            "tracebacks": tracebacks(self.new.folder),
        }

    def _left(self) -> list[tuple[Any, ...]]:
        return [row for row in left(self.database) if row[0] not in KEPT[2:]]

    def _back(self) -> None:
        """This code ends, its migrations are taken back, the older code goes on."""
        asked = [Asked(f"later-{number}") for number in range(3)] + [self.kept["before-3"]]
        for one in asked[:3]:
            self.doors.order("slow-asking", one)
            self.doors.question(one)
        self._end(self.new)
        back: dict[str, str] = {}
        for app in APPS:
            if self._migrations()[app] != self.before[app]:
                told = said(self.new, "migrate", app, self.before[app][:4])
                back[app] = " | ".join(told[3:])[-700:]
        self.line["back"] = back
        self.line["migrations"] = {"old": self.before, "now": self._migrations()}
        self._start_old()
        self.doors.stacks[:] = [self.old]
        for one in asked:
            self.doors.answer(one, "approve")
        fresh = Asked("afresh")
        self.doors.order("slow-asking", fresh)
        self.doors.answer(fresh, "approve")
        with suppress(AssertionError):
            until(lambda: not self._left(), seconds=30, what="the end of all runs", every=0.5)
        ends = dict(self._rows(ENDS))
        self.line["back_ended"] = {one.key: ends.get(one.key) for one in [*asked, fresh]}
        self.breaches += [
            f"on the way back {key} is {status}"
            for key, status in self.line["back_ended"].items()
            if status != "completed"
        ]
        self._end(self.old)
        self.new.manage("start", "prepare")
        self._invariants("invariants_again", self.new)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
