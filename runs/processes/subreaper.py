"""Runs a program and ends, before it ends itself, all that the program started, wherever that went.

Linux only; a script of its own.

`python -I -S subreaper.py <worker's pid> <seconds> <program> <argument>…` ends with the program's
exit code, or 128 and its signal.

A process that leaves its group and session (`setsid`, a double fork) still becomes a child of ours
when its parent ends, since we are the "subreaper" of what is below us; so all of it can be found.
SIGTERM asks all of it to end, and what is left after so many seconds is killed. The same happens
when the worker dies, however it dies: the kernel sends us SIGTERM then. What it cannot find: what a
program of the same user started after it had killed this process with SIGKILL.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
AGAIN = 0.2
"""Seconds between two kills of what is still there: a process may fork while it is looked for."""
ROUNDS = 20


def below() -> set[int]:
    """All processes below this one."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                parent = int(stat.read().rpartition(b")")[2].split()[1])
        except OSError:  # it has ended meanwhile
            continue
        children.setdefault(parent, []).append(int(name))
    pids: set[int] = set()
    level = [os.getpid()]
    while level:
        level = [
            child for parent in level for child in children.get(parent, ()) if child not in pids
        ]
        pids.update(level)
    return pids


def send(number: int, pids: set[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def kill_all(*_: object) -> None:
    """Stop all of it first, so that nothing forks away, then kill it."""
    stopped: set[int] = set()
    for _round in range(ROUNDS):
        new = below() - stopped
        if not new:
            break
        send(signal.SIGSTOP, new)
        stopped |= new
    send(signal.SIGKILL, stopped)


def main() -> int:
    worker, grace, arguments = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

    def ask_all(*_: object) -> None:
        send(signal.SIGTERM, below())
        signal.setitimer(signal.ITIMER_REAL, grace, AGAIN)

    signal.signal(signal.SIGTERM, ask_all)
    signal.signal(signal.SIGALRM, kill_all)
    if os.getppid() != worker:  # it died before the kernel was told to tell us
        return 128 + signal.SIGTERM
    try:
        program = os.posix_spawnp(arguments[0], arguments, os.environ, setsigdef=[signal.SIGPIPE])
    except OSError as error:
        sys.stderr.write(f"{arguments[0]} cannot be started: {error.strerror}\n")
        return 127
    code = 0
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:  # nobody is left
            return code
        if pid == program:
            code = os.waitstatus_to_exitcode(status)
            code = 128 - code if code < 0 else code
            kill_all()
            signal.setitimer(signal.ITIMER_REAL, AGAIN, AGAIN)


if __name__ == "__main__":
    sys.exit(main())
