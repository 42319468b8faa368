"""Commits of which nobody knows whether they were done."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING

from bench.chaos.faults import Fault
from bench.chaos.wire import Flow, Link, Trap, When

if TYPE_CHECKING:
    from bench.chaos.world import World

WEB = {"order": r'INSERT INTO "?runs_workorder"?', "decision": r'INSERT INTO "?hitl_decision"?'}
"""What is committed → a statement of its transaction."""
WORKER = {
    "step": r"WITH held AS.*INSERT INTO checkpoints_checkpoint",
    "claim": r"UPDATE runs_run SET status = \S+, epoch = ",
    "question": r'INSERT INTO "?runs_pause"?',
    "once": r'INSERT INTO "checkpoints_memo"',
}
PATIENCE = 20.0
"""Seconds that such a commit is waited for."""


class Commit(Fault):
    """The connection is cut when a COMMIT (or a statement that commits itself) was sent and its
    answer has not come: before the server has it, while it is at it, or when its answer is on the
    way. Of order creation, decisions, claims, questions, results under `once` and
    steps.
    """

    def __init__(self) -> None:
        self._turn: list[tuple[str, When]] = []

    def make(self, world: World) -> str:
        if not self._turn:
            self._turn = [(kind, when) for kind in (*WEB, *WORKER) for when in When]
            world.dice.shuffle(self._turn)
        kind, when = self._turn.pop()
        pattern = re.compile({**WEB, **WORKER}[kind], re.DOTALL)
        hosts = [world.hosts["web"]] if kind in WEB else [world.hosts[name] for name in world.names]
        cut = threading.Event()

        def catches(statement: str, before: list[str]) -> bool:
            if before:
                return statement.upper() == "COMMIT" and any(
                    pattern.search(earlier) for earlier in before
                )
            return pattern.search(statement) is not None

        def spring(link: Link, flow: Flow) -> None:
            for host in hosts:
                host.database.lay(None)
            flow.cut()
            cut.set()

        traps = [Trap(catches, when, spring) for _ in hosts]
        with world.outage():
            for host, trap in zip(hosts, traps, strict=True):
                host.database.lay(trap)
            cut.wait(PATIENCE)
            for host in hosts:
                host.database.lay(None)
        if not cut.is_set():
            return ""  # nothing of that kind was committed
        touched = world.held_by([], b"".join(trap.heard for trap in traps))
        world.await_recovery("commit", touched, since=time.monotonic())
        return f"{kind}, {when.value}"


FAULT = Commit()
