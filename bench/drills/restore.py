"""`python -m bench.drills.restore`: docs/how-to/backup.md to the letter, but for the empty Redis: a
dump taken under load is restored beside the Redis, the data folder and the store of states that
went on for a while after it.

What counts is told by rows, files and what callers were answered, as JSON lines; it ends with 1
where something was broken.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.drills import outside
from bench.drills.callers import Asked, Caller, Doors, over
from bench.drills.outside import DECISIONS, ENDS, OPEN, RUNS, rows, said, waiting
from checkpoints import ids
from tests.databases.copies import PEOPLE
from tests.servers.private import find, free_port
from tests.servers.stack import SlowStack, until

WHILE = float(os.environ.get("BENCH_RESTORE_SECONDS", "20"))
LATE = ("not_picked_up", "not_taken_back")
"""What a dump older than a minute breaks until workers look."""
MAILED = """
from runs import definitions
from runs.models import Template
steps = Template.objects.filter(slug="slow-asking").order_by("-version").first().steps
steps[0]["review"] = {"risk": "low", "link_answers": True, "reviewers": {"users": ["ben", "ana"]}}
definitions.edit_template("slow-mailed", steps=steps, needs_repository=False)
User.objects.filter(username="ben").update(email="ben@example.org")
"""


def main() -> int:
    with outside.servers() as (folder, url, broker):
        drill = Restore(folder / "drill", url, broker)
        try:
            drill.run()
        except Exception as error:  # noqa: BLE001  # a breach among others
            drill.breaches.append(f"{type(error).__name__}: {str(error)[-1500:]}")
        finally:
            drill.stack.stop()
    print(json.dumps({"breaches": drill.breaches}), flush=True)
    return 1 if drill.breaches else 0


class Restore:
    def __init__(self, folder: Path, server: str, broker: str) -> None:
        folder.mkdir()
        self.server, self.broker, self.states = server, broker, folder / "states"
        self.breaches: list[str] = []
        self.stack = SlowStack(
            folder,
            {
                "DATABASE_URL": outside.database(server, "live"),
                "REDIS_URL": broker,
                "API_RATE": "1000000",
                "CHECKPOINTS_URL": f"file://{self.states}",
            },
        )
        self.doors = Doors([self.stack])

    def say(self, case: str, value: Any, *, must: bool | None = None) -> None:
        print(json.dumps({"case": case, "value": value, "met": must}), flush=True)
        if must is False:
            self.breaches.append(f"{case}: {str(value)[:300]}")

    @property
    def url(self) -> str:
        return self.stack.environment["DATABASE_URL"]

    def run(self) -> None:
        self.stack.manage("migrate", "-v", "0")
        self.stack.load(PEOPLE + MAILED)
        self._start()
        callers = [Caller(self.doors, number) for number in range(3)]
        mailed, effect, claimed = self._asking("slow-mailed", "slow-once", "slow-asking")
        for caller in callers:
            caller.start()
        time.sleep(WHILE / 2)
        began, dump = time.monotonic(), self.stack.folder / "waystation.dump"
        subprocess.run([str(find("pg_dump")), "-Fc", "-d", self.url, "-f", str(dump)], check=True)
        self.say("seconds of the dump", round(time.monotonic() - began, 2))
        early = {one.key for caller in callers for one in caller.asked}

        self.doors.answer(effect, "approve")
        status, _ = self.doors.call("POST", f"/api/v1/pauses/{claimed.pause}/claim", {})
        self.say("claim after the dump", status)
        (late,) = self._asking("slow-mailed", number=7)
        time.sleep(WHILE)
        self.breaches += over(callers)
        until(lambda: len(outside.mailed_links(self.stack)) > 1, what="the second mail")
        links = outside.mailed_links(self.stack)
        after = [one for c in callers for one in c.asked if one.key not in early]
        self._end(self.stack.processes[1:])
        stale = [Asked(f"stale-{number}") for number in range(5)]
        for one in stale:  # whose messages nobody takes before the restore
            self.doors.order("slow-asking", one)
        self._end(self.stack.processes)
        self.say("stale messages in Redis", waiting(self.broker))

        self.stack.environment["DATABASE_URL"] = restored = outside.database(
            self.server, "restored"
        )
        command = [str(find("pg_restore")), "-O", "-d", restored, str(dump)]
        subprocess.run(command, check=True)
        ledger = Counter(self.stack.noted("done", ""))
        self.stack.manage("start", "prepare")
        self._invariants("invariants after the restore", but=LATE)
        self._said("verify_checkpoints", must="all as they were written")
        self._doctor("doctor before the start")
        self._start()
        time.sleep(WHILE / 2)
        self._doctor("doctor after the start")
        self._links_open(links)
        status, _ = self.doors.call("POST", f"/api/v1/pauses/{claimed.pause}/claim", {})
        self.say("the claim again", status, must=status in {200, 201})
        self._keys([*after, late, *stale])
        for one in (mailed, effect, claimed):
            self.doors.answer(one, "approve")
        # those of callers whose answers the dump has not, and of the keys that were sent again
        until(lambda: self._busy() == 0, what="the questions", every=0.5)
        for one in self._open():
            self.doors.answer(one, "approve")
        with suppress(AssertionError):
            until(lambda: not outside.left(self.url), what="the end of all runs", every=0.5)
        self.say("runs that do not end", outside.left(self.url), must=not outside.left(self.url))
        self._examine(ledger, effect)
        self._invariants("invariants at the end")
        self._bodies()

    def _start(self) -> None:
        self.stack.port = free_port()
        self.stack.web()
        self.stack.worker("worker", pool="threads", concurrency=4)
        self.stack.beat()

    def _end(self, processes: list[Any]) -> None:
        for process in list(processes):
            if process.poll() is None:
                os.kill(process.pid, signal.SIGTERM)
                process.wait(30)
            self.stack.processes.remove(process)

    def _asking(self, *templates: str, number: int = 0) -> list[Asked]:
        asked = [Asked(f"{name}-{number}") for name in templates]
        for name, one in zip(templates, asked, strict=True):
            self.doors.order(name, one)
            self.doors.question(one)
        return asked

    def _said(self, *words: str, must: str = "") -> str:
        told = " | ".join(said(self.stack, *words)[-4:])[-600:]
        self.say(" ".join(words), told, must=must in told if must else None)
        return told

    def _invariants(self, case: str, *, but: tuple[str, ...] = ()) -> None:
        lines = said(self.stack, "invariants", "--deep")
        broken = [line for line in lines if "BROKEN" in line]
        more = [line for line in broken if not any(code in line for code in but)]
        self.say(case, [lines[-1], *broken], must=not more)

    def _doctor(self, case: str) -> list[str]:
        found = [
            f"{about}: {words}" for about, words in outside.doctor(self.stack) if about in TIMES
        ]
        self.say(case, found, must="older than it was" in str(found))
        return found

    def _links_open(self, links: list[str]) -> None:
        for case, link in zip(("before", "after"), (links[0], links[-1]), strict=True):
            status, page = self.stack.call("GET", link)
            words = " ".join(re.sub(r"<[^>]+>", " ", str(page).partition("<main")[2]).split())
            self.say(f"the link mailed {case} the dump", [status, words[:300]], must=status < 500)

    def _keys(self, asked: list[Asked]) -> None:
        for one in asked:
            template = "slow-mailed" if one.key.startswith("slow-mailed") else "slow-asking"
            for _ in range(2):
                self.doors.order(template, one)
        made = Counter(title for (title,) in rows(self.url, "SELECT title FROM runs_workorder"))
        wrong = [one.key for one in asked if made[one.key] != 1]
        self.say("keys from after the dump, sent again twice", len(asked))
        self.say("… that made none or two orders", wrong, must=not wrong)

    def _open(self) -> list[Asked]:
        """Orders of callers that ask, as the dump has them or sent again since."""
        there = [Asked(title) for (title,) in rows(self.url, OPEN)]
        for one in there:
            self.doors.order("slow-mailed" if "mailed" in one.key else "slow-asking", one)
        return there

    def _busy(self) -> int:
        return sum(status in {"pending", "running"} for _, status in rows(self.url, ENDS))

    def _examine(self, ledger: Counter[str], effect: Asked) -> None:
        now = Counter(self.stack.noted("done", ""))
        since = now - ledger
        twice = [key for key, times in since.items() if times > 1]
        self.say("steps since the restore", since.total())
        self.say("… of which under a key of before", len(set(since) & set(ledger)))
        self.say("… done twice since", twice, must=not twice)
        once = Counter(self.stack.noted("once", ""))
        self.say("effects under once, done again after the restore", dict(once))
        runs = Counter(title for (title,) in rows(self.url, RUNS))
        answers = Counter(title for title, _ in rows(self.url, DECISIONS))
        more = [key for key, times in runs.items() if times > 1]
        more += [key for key, times in answers.items() if times > 1]
        self.say("orders with two runs or two decisions", more, must=not more)
        told = self.doors.told
        self.say("answers", dict(sorted(told.statuses.items())), must=not told.failed)
        self.breaches += told.wrong[:3]
        parts = outside.tracebacks(self.stack.folder)
        steps = [name for name in waiting(self.broker) if name.startswith("steps")]
        self.say("queues of steps with messages that nobody took", steps, must=not steps)
        self.say("tracebacks in logs", parts, must=not parts)

    def _bodies(self) -> None:
        """The store beside the database: newer bodies are there, and one is taken away."""
        self._said("drop_stray_bodies", "--dry-run", "--older-than", "0")
        ((key,),) = rows(
            self.url,
            "SELECT id FROM checkpoints_checkpoint WHERE body LIKE '{\"elsewhere\"%%' "
            "ORDER BY id DESC LIMIT %s",
            1,
        )
        (path,) = self.states.rglob(f"{key.hex}.body")
        path.unlink()
        self._said("verify_checkpoints", must="1 damaged")
        told = self._doctor("doctor with a body missing and others newer")
        named = ids.show("ckpt", key) in str(told)
        self.say("doctor names the checkpoint whose body is missing", named, must=named)


TIMES = {"time", "states"}


if __name__ == "__main__":
    sys.exit(main())
