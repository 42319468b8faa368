"""`python -m bench.drills.embedded`: what befalls `make up` on somebody's machine. It is killed
between an answer and its commit, again and again; its clock is set back; the machine sleeps; its
folder is read-only.

What counts is told by rows of its file, lines that steps wrote, and what callers were answered, as
JSON lines; it ends with 1 where something was broken.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tests.databases import copies
from tests.databases.copies import PEOPLE, TOKENS
from tests.servers.private import wrong_clock
from tests.servers.stack import SlowStack, until

KILLS = int(os.environ.get("DRILL_KILLS", "20"))
ASLEEP = float(os.environ.get("DRILL_SECONDS", "60"))
TOKEN = TOKENS["ana"]
DEADLINE = 20
MORE = f"""
from runs import definitions
rules = {{"deadline": {{"after": "PT{DEADLINE}S", "outcome": "expire"}}}}
asking = {{"name": "ask", "step_type": "planning", "step_template_slug": "slow-tick",
          "pause_after": True, "pause_phase": "awaiting_plan_approval", "review": rules}}
definitions.edit_template("slow-deadline", steps=[asking], needs_repository=False)
"""
DECIDED = "SELECT count(*) FROM hitl_decision"
WITH_DEADLINES = "SELECT status FROM runs_pause WHERE deadline_at IS NOT NULL ORDER BY opened_at"


class Drill:
    def __init__(self, folder: Path) -> None:
        self.breaches: list[str] = []
        self.dice = random.Random(7)  # a drill that can be repeated
        self.stack = SlowStack(folder, {})
        copies.sqlite(folder / "data")
        self.stack.load(PEOPLE + MORE)
        self.process = self.stack.standalone()

    def say(self, case: str, value: Any, *, must: bool) -> None:
        print(json.dumps({"case": case, "value": value, "met": must}), flush=True)
        if not must:
            self.breaches.append(f"{case}: {str(value)[:300]}")

    def run(self) -> None:
        self.killed()
        self.set_back()
        self.asleep()
        self.read_only()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        file = self.stack.folder / "data" / "waystation.sqlite3"
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
            return connection.execute(statement).fetchall()

    def killed(self) -> None:
        took = self._answered_in()
        seen: Counter[str] = Counter()
        orders = []
        for number in range(KILLS):
            order = self.stack.begin("slow-asking", TOKEN)
            orders.append(order)
            self.stack.paused(order, TOKEN, "awaiting_plan_approval")
            before = self.rows(DECIDED)[0][0]
            told = self._ask(order, f"kill-{number}", kill=self.dice.uniform(0, 1.3 * took))
            kept = self.rows(DECIDED)[0][0] - before
            self.process = self.stack.standalone()
            again = self._ask(order, f"kill-{number}")
            seen[f"told {told}, {'recorded' if kept else 'not recorded'}, again {again}"] += 1
            if (told == "200" and not kept) or again != "200":
                self.breaches.append(f"{order}: told {told}, {kept} rows, again {again}")
        for order in orders:
            self.stack.ended(order, TOKEN)
        runs = [self.stack.order(order, TOKEN)["run_id"] for order in orders]
        noted = [self.stack.noted("done", run) for run in runs]
        doubled = [keys for keys in noted if len(keys) != len(set(keys))]
        twice = self.rows(
            "SELECT pause_id FROM hitl_decision GROUP BY pause_id HAVING count(*) > 1"
        )
        self.say(
            f"killed {KILLS} times within {1.3 * took * 1000:.0f} ms of an answer",
            {"seen": seen, "results twice": len(doubled), "questions decided twice": len(twice)},
            must=not twice and not doubled and self.rows(DECIDED)[0][0] == KILLS + 1,
        )

    def _answered_in(self) -> float:
        order = self.stack.begin("slow-asking", TOKEN)
        self.stack.paused(order, TOKEN, "awaiting_plan_approval")
        began = time.monotonic()
        self.stack.answer(order, TOKEN, "approve")
        return time.monotonic() - began

    def _ask(self, order: str, key: str, *, kill: float | None = None) -> str:
        """The status of an answer under a key; the server is killed so long after it was sent."""
        if kill is not None:
            timer = threading.Timer(kill, os.killpg, [self.process.pid, signal.SIGKILL])
            timer.start()
        try:
            status = self.stack.call(
                "POST",
                f"/api/v1/work-orders/{order}/resume",
                {"decision": "approve"},
                token=TOKEN,
                headers={"Idempotency-Key": key},
            )[0]
        except (OSError, ValueError):
            status = 0
        if kill is not None:
            timer.join()
            self.process.wait()
        return str(status or "nothing")

    def set_back(self) -> None:
        """An hour, between two starts, with a question that has a deadline and one without."""
        asked, late = (self.stack.begin(name, TOKEN) for name in ("slow-asking", "slow-deadline"))
        for order in (asked, late):
            self.stack.paused(order, TOKEN, "awaiting_plan_approval")
        self.stack.kill(self.process)
        wrong = wrong_clock("-1h")
        self.stack.environment.update(wrong)
        self.process = self.stack.standalone()
        self.stack.answer(asked, TOKEN, "approve")
        self.stack.ended(asked, TOKEN)
        early = self.rows(WITH_DEADLINES)[-1][0] != "open"
        self.stack.kill(self.process)
        for name in wrong:
            del self.stack.environment[name]
        self.process = self.stack.standalone()
        self.stack.ended(late, TOKEN, "failed")
        words = self.stack.manage("invariants", "--deep", check=False).splitlines()[-1]
        self.say(
            "clock set back an hour, and right again",
            {"answered and ended meanwhile": 1, "deadlines early": int(early), "after": words},
            must=not early,
        )

    def asleep(self) -> None:
        """All processes stand still for a minute, a step at work and a deadline in it."""
        order = self.stack.begin("slow-ticks", TOKEN)
        late = self.stack.begin("slow-deadline", TOKEN)
        self.stack.paused(late, TOKEN, "awaiting_plan_approval")
        run = self.stack.order(order, TOKEN)["run_id"]
        until(lambda: self.stack.noted("began", run), what="a step")
        pids = [self.process.pid, *_below(self.process.pid)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(ASLEEP)  # nothing but time passes
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        woke = time.monotonic()
        self.stack.ended(late, TOKEN, "failed")
        acted = time.monotonic() - woke
        self.stack.ended(order, TOKEN)
        done = self.stack.noted("done", run)
        self.say(
            f"asleep for {ASLEEP:g} s",
            {
                "deadline acted after waking, s": round(acted, 1),
                "all went on after, s": round(time.monotonic() - woke, 1),
                "steps done": len(done),
                "done twice": len(done) - len(set(done)),
                "begun": len(self.stack.noted("began", run)),
            },
            must=len(done) == len(set(done)),
        )

    def read_only(self) -> None:
        """The folder is mounted read-only: the start says so in one sentence."""
        self.stack.kill(self.process)
        data = self.stack.folder / "data"
        subprocess.run(["mount", "--bind", str(data), str(data)], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,ro,bind", str(data)], check=True)
            words = self.stack.manage("standalone", "--port", str(self.stack.port), check=False)
        finally:
            subprocess.run(["umount", str(data)], check=True)
        last = words.strip().splitlines()[-1] if words.strip() else ""
        self.say("folder read-only", last, must="cannot be" in last and "Traceback" not in words)
        self.process = self.stack.standalone()


def _below(pid: int) -> list[int]:
    """All processes that come from one."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # that thread has ended
            for child in (task / "children").read_text().split():
                found += [int(child), *_below(int(child))]
    return found


def main() -> int:
    with tempfile.TemporaryDirectory(
        prefix="waystation-drill-", ignore_cleanup_errors=True
    ) as name:
        os.environ["WAYSTATION_DATA"] = f"{name}/prepared"
        drill = Drill(Path(name))
        try:
            drill.run()
        finally:
            drill.stack.stop()
    print(json.dumps({"breaches": drill.breaches}), flush=True)
    return 1 if drill.breaches else 0


if __name__ == "__main__":
    sys.exit(main())
