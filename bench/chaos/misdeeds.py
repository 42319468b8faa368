"""In a step's process: what a step should not do, once for each deed that the fault `misdeeds`
wishes for, right behind the step's effects.

A wish is a file in a folder, named after the deed; whoever takes it says in another folder whose
run that is, and which processes it leaves behind.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from runs.workflows.base import Context

WISHED, DONE = "misdeeds", "misdeeds.done"
"""Folders beside the effects."""


def end_process() -> None:
    os._exit(3)


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def overflow() -> None:
    sys.setrecursionlimit(10**9)
    one: list[object] = []
    other: list[object] = []
    for _ in range(4 * 10**5):  # more than a stack of eight megabytes holds
        one, other = [one], [other]
    assert one == other


def change() -> None:
    os.environ.clear()
    os.chdir("/")
    sys.path.clear()
    socket.setdefaulttimeout(0.001)
    time.sleep = print


def flood() -> None:
    for _ in range(200):
        os.write(1, b"." * 10_000 + b"\n")


def leave_child() -> None:
    subprocess.Popen(["sleep", "600"], start_new_session=True)


def leave_thread() -> None:
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()


def use_up_files() -> None:
    with suppress(OSError):
        while True:
            os.open(os.devnull, os.O_RDONLY)


FALLING = ("end_process", "crash", "overflow")
"""After which the process is gone."""
DEEDS: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        end_process,
        crash,
        overflow,
        change,
        flood,
        leave_child,
        leave_thread,
        use_up_files,
    )
}


def tempt(context: Context) -> None:
    """Do one of the deeds that are wished for, where there is any."""
    folder = Path(os.environ["CHAOS_LEDGERS"])
    for name in os.listdir(folder / WISHED) if (folder / WISHED).exists() else []:
        with suppress(FileNotFoundError):
            (folder / WISHED / name).unlink()
            new = folder / f"{WISHED}.{name}"
            new.write_text(f"{context.run_id} {context.fence} {os.getpid()}")
            os.rename(new, folder / DONE / name)
            DEEDS[name]()
            return
