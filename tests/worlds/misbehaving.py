"""Steps that do what steps should not: each says in a file who it is, and then misbehaves."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.chaos.misdeeds import crash, end_process, overflow
from runs.workflows import Context, Done, Go, Outcome, State, step, use, workflow

FOLDER = Path(os.environ.get("TEST_LEDGER", "/nonexistent"))
"""Where each body says its process's number, and children theirs."""


def say(name: str, text: str) -> None:
    with (FOLDER / name).open("a") as file:
        file.write(f"{text}\n")


def spin() -> None:
    """Once all are at work: before, it would take a processor for nothing."""
    while not (FOLDER / "spin").exists():
        time.sleep(0.05)  # a file appears without a word
    say("spins", "")
    while True:
        rests = time.monotonic() + 0.05
        while time.monotonic() < rests:
            pass
        time.sleep(1.2)  # other tests want the processor, too


def sleep() -> None:
    while True:
        time.sleep(0.05)  # a file appears without a word


def swallow() -> None:
    while True:
        try:
            time.sleep(0.05)
        except BaseException:  # noqa: BLE001  # the worst that an author writes
            continue


def listen() -> None:
    ours, its = socket.socketpair()
    with ours, its:
        ours.recv(1)


def hold_the_lock() -> None:
    """Stand in C for good, which hears no signal and lets no other thread in: before a lock that is
    never let go. A loop there would be as deaf, and take a processor.
    """
    this, lock = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
    for _ in range(2):
        this.pthread_mutex_lock(lock)


def wait_for_child() -> None:
    child = subprocess.Popen(["sleep", "600"])
    say("children", str(child.pid))
    child.wait()


FORKS = 5


def fork() -> None:
    for _ in range(FORKS):
        if (pid := os.fork()) == 0:
            os.setsid()
            time.sleep(600)  # the child
            os._exit(0)
        say("children", str(pid))
    sleep()


def flood() -> None:
    while True:
        os.write(1, b"." * 100_000 + b"\n")
        time.sleep(0.2)


def use_up_files() -> None:
    while True:
        try:
            os.open(os.devnull, os.O_RDONLY)
        except OSError:
            time.sleep(0.05)


UNENDING: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        spin,
        sleep,
        swallow,
        listen,
        hold_the_lock,
        wait_for_child,
        fork,
        flood,
        use_up_files,
    )
}


def leave() -> None:
    sys.exit(4)


def take_memory() -> None:
    taken = []
    while True:
        taken.append(bytearray(50_000_000))


FALLING: dict[str, Callable[[], object]] = {
    one.__name__: one for one in (leave, end_process, crash, overflow, take_memory)
}


def clear_environment() -> None:
    os.environ.clear()


def change() -> None:
    os.environ["LEFT"] = "behind"
    os.chdir(tempfile.gettempdir())
    os.umask(0)
    sys.path.insert(0, "/left")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    socket.setdefaulttimeout(0.001)
    random.seed(1)


def leave_child() -> None:
    say("children", str(subprocess.Popen(["sleep", "600"], start_new_session=True).pid))


def leave_thread() -> None:
    def write_later() -> None:
        time.sleep(1.5)
        say("later", str(os.getpid()))

    threading.Thread(target=write_later).start()


def leave_file() -> None:
    os.open(os.devnull, os.O_RDONLY)


LEAVING: dict[str, Callable[[], None]] = {
    one.__name__: one for one in (clear_environment, change, leave_child, leave_thread, leave_file)
}


@step("misbehaving.do")
def do(state: State, context: Context) -> Outcome:
    name = context.order.request
    say("began", f"{name} {os.getpid()}")
    try:
        {**UNENDING, **FALLING, **LEAVING}[name]()
    finally:
        say("finally", name)
    return Go()


@step("misbehaving.look")
def look(state: State, context: Context) -> Outcome:
    """What another body finds."""
    found = {
        "environment": len(os.environ) > 3 and "LEFT" not in os.environ,
        "folder": os.getcwd() != tempfile.gettempdir(),
        "mask": _mask() != 0,
        "path": "/left" not in sys.path,
        "handler": signal.getsignal(signal.SIGTERM) != signal.SIG_IGN,
        "timeout": socket.getdefaulttimeout() is None,
        "seed": random.random() != random.Random(1).random(),
    }
    return Done(update={"found": found, "process": os.getpid()})


def _mask() -> int:
    os.umask(mask := os.umask(0o022))
    return mask


misbehaving = workflow("misbehaving", title="Misbehave", steps=[use(do), use(look)])
limited = workflow(
    "misbehaving-limited", title="In a second", steps=[use(do, timeout=1), use(look)]
)
good = workflow("behaving", title="Behave", steps=[use(look)])
