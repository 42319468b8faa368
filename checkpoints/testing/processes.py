"""Kill and resume, in processes of their own.

A store that does not survive its process shows that it says so.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from checkpoints.contract.base import CheckpointStore
from checkpoints.testing import driver
from checkpoints.testing.hooks import RUN, Hooks

ONCE = ["plan", "ask", "work", "work", "work", "finish"]
RACERS = 4
STORMS = 4
PATIENCE = 180
"""Seconds for a process to do its part, on a machine that does much else."""


class Processes(Hooks):
    def test_killed_after_every_checkpoint_the_next_process_goes_on_and_no_step_runs_twice(
        self, store: CheckpointStore, tmp_path: Path
    ) -> None:
        """Kill -9 comes at each boundary of the workflow; thread and run stay the same."""
        thread, ledger = self.new_thread(), tmp_path / "ledger"
        if not store.durable:
            return self._does_not_survive_and_says_so(store, thread, ledger)
        for _ in ("plan", "ask"):
            assert self._run(thread, ledger, die_after=1) == -signal.SIGKILL
        assert self._run(thread, ledger) == "pending_input"
        self._do(thread, "answer", prompt=driver.PROMPT, response="approve")
        for _ in range(driver.LOOPS + 1):
            assert self._run(thread, ledger, die_after=1) == -signal.SIGKILL
        assert self._run(thread, ledger) == "completed"
        assert ledger.read_text().split() == ONCE
        self._looks_complete(thread)
        return None

    def test_a_person_answers_between_three_processes(
        self, store: CheckpointStore, tmp_path: Path
    ) -> None:
        """Process 1 pauses and ends; process 2 takes the answer, and no other question's; process 3
        goes on to the end. What is complete is kept; retention drops it later.
        """
        thread, ledger = self.new_thread(), tmp_path / "ledger"
        if not store.durable:
            return self._does_not_survive_and_says_so(store, thread, ledger)
        assert self._run(thread, ledger) == "pending_input"
        assert self._run(thread, ledger) == "pending_input"  # nobody answered: nothing happens
        assert "refused" in self._do(thread, "answer", prompt="another", response="approve")
        self._do(thread, "answer", prompt=driver.PROMPT, response="approve")
        assert "refused" in self._do(thread, "answer", prompt=driver.PROMPT, response="too late")
        assert self._run(thread, ledger) == "completed"
        assert ledger.read_text().split() == ONCE
        self._looks_complete(thread)
        return None

    def test_a_recreated_application_goes_on_with_what_the_first_one_wrote(
        self, tmp_path: Path
    ) -> None:
        """Two instances of the adapter have nothing else in common."""
        thread, ledger = self.new_thread(), tmp_path / "ledger"
        first = self.make()
        assert driver.run(first, thread, RUN, ledger, die_after=0) == "pending_input"
        asked = first.latest(thread)
        del first
        second = self.make()
        if not second.durable:
            assert second.latest(thread) is None
            return
        assert second.latest(thread) == asked
        driver.answer(second, thread, driver.PROMPT, "approve")
        assert driver.run(self.make(), thread, RUN, ledger, die_after=0) == "completed"
        assert ledger.read_text().split() == ONCE
        self._looks_complete(thread)

    def test_of_processes_on_one_parent_exactly_one_becomes_the_head(
        self, store: CheckpointStore, tmp_path: Path
    ) -> None:
        thread = self.new_thread()
        if not store.durable:
            return self._does_not_survive_and_says_so(store, thread, tmp_path / "ledger")
        at = time.time() + 4
        racers = [self._start(thread, "race", at=at) for _ in range(RACERS)]
        answers = [json.loads(racer.communicate(timeout=PATIENCE)[0]) for racer in racers]
        assert sorted(answers) == ["moved"] * (RACERS - 1) + ["won"]
        assert len(store.history(thread)) == 1
        return None

    def test_killed_in_the_middle_of_writing_what_was_kept_is_whole(
        self, store: CheckpointStore, tmp_path: Path
    ) -> None:
        """kill -9 at any moment: what a writer was told is kept, is; what is there, loads; the next
        one goes on from it.
        """
        thread = self.new_thread()
        if not store.durable:
            return self._does_not_survive_and_says_so(store, thread, tmp_path / "ledger")
        seen = 0
        for number in range(STORMS):
            writer = self._start(thread, "write")
            assert writer.stdout is not None
            last = int(writer.stdout.readline())
            time.sleep(0.03 + 0.05 * number)  # each is killed at another point of its work
            writer.kill()
            last = max([last, *(int(line) for line in writer.communicate()[0].split("\n")[:-1])])
            head = store.latest(thread)
            assert head is not None
            state = store.load(thread, head.id)
            assert seen < last <= state["n"] <= last + 1  # one more may be kept than it could say
            seen = state["n"]
        history = store.history(thread, limit=10**6)
        assert [store.load(thread, kept.id)["n"] for kept in history[:50]] == list(
            range(seen, max(0, seen - 50), -1)
        )
        assert len(history) == seen
        assert [kept.parent_id for kept in history] == [*(kept.id for kept in history[1:]), None]
        return None

    def _looks_complete(self, thread: uuid.UUID) -> None:
        store = self.make()
        history = store.history(thread)
        assert [kept.entry.status for kept in history] == [
            "completed",
            *["active"] * 4,
            "pending_input",
            "active",
        ]
        assert {kept.run_id for kept in history} == {RUN}
        assert store.load(thread, history[0].id) == {
            "task": "Push PR #42",
            "done": ONCE,
            "plan": "push PR #42",
            "prompt": None,
            "answers": ["approve"],
            "loops": driver.LOOPS,
            "result": "done after ['approve']",
        }

    def _does_not_survive_and_says_so(
        self, store: CheckpointStore, thread: uuid.UUID, ledger: Path
    ) -> None:
        assert not store.durable
        assert self._run(thread, ledger) == "pending_input"
        assert store.latest(thread) is None
        assert self._run(thread, ledger) == "pending_input"
        # from the start, since nothing was there
        assert ledger.read_text().split() == ["plan", "ask"] * 2

    def _run(self, thread: uuid.UUID, ledger: Path, *, die_after: int = 0) -> Any:
        """The status that a process left the workflow in, or the signal that ended it."""
        return self._do(thread, "run", ledger=str(ledger), die_after=die_after)

    def _do(self, thread: uuid.UUID, what: str, **more: Any) -> Any:
        process = self._start(thread, what, **more)
        output, _ = process.communicate(timeout=PATIENCE)
        return json.loads(output) if process.returncode == 0 else process.returncode

    def _start(self, thread: uuid.UUID, what: str, **more: Any) -> subprocess.Popen[str]:
        order = {
            "setting": dict(self.setting()),
            "thread": thread.hex,
            "run": RUN.hex,
            "do": what,
            **more,
        }
        inherited = {
            key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"
        }
        process = subprocess.Popen(
            [sys.executable, driver.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **inherited,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                **self.environment(),
            },
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(order))
        process.stdin.close()
        process.stdin = None  # else `communicate` closes it again
        return process
