"""Processes of steps that die under their worker."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench.chaos.faults import Fault

if TYPE_CHECKING:
    from bench.chaos.world import World


class Bodies(Fault):
    """All processes in which a worker's steps are at work are killed; the worker lives, and has
    their runs taken up again at once.
    """

    def possible(self) -> str | None:
        return None if Path("/proc/self/task").exists() else "there is no /proc to find them in"

    def make(self, world: World) -> str:
        host = world.worker()
        bodies = [body for pid in below(host.process.pid) if is_apart(pid) for body in below(pid)]
        if not bodies:
            return ""
        touched = world.held_by(host.owners)
        for pid in bodies:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        world.await_recovery("bodies", touched, since=time.monotonic())
        world.let_go_on(touched)
        return "kill bodies"


def below(pid: int) -> list[int]:
    """The children of a process, whichever of its threads made them."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def is_apart(pid: int) -> bool:
    """Whether a process has a session of its own, as the server has that forks bodies."""
    with suppress(OSError):
        return os.getsid(pid) == pid
    return False


FAULT = Bodies()
