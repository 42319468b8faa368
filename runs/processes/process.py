"""Runs a program within bounds: time, output, and a say for whoever may stop it.

Knows no workflow.
"""

from __future__ import annotations

import os
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

POLL_SECONDS = 0.4
CHUNK = 65_536
LONGEST_LINE = 1_000_000
"""Bytes of a line that are given to `Bounds.said`; the rest of it is passed over."""
WARDEN = Path(__file__).with_name("subreaper.py")


class ProcessFailed(Exception):
    """The program was not run to its end. Nothing of it is left running."""


class ProgramMissing(ProcessFailed):
    pass


class ProcessTimeIsUp(ProcessFailed):
    pass


class TooMuchOutput(ProcessFailed):
    pass


@dataclass(frozen=True, kw_only=True)
class Finished:
    returncode: int
    """As `Popen` gives it: negative for a signal."""
    output: bytes
    errors: bytes


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a program may use. `max_output` counts stdout and stderr together, in bytes."""

    seconds: float
    max_output: int
    check: Callable[[], None] = lambda: None
    """Called about twice a second while the program runs; what it raises ends the program and is
    passed on.
    """
    started: Callable[[int], None] = lambda group: None
    """Told the process group as soon as there is one, so that an heir of a killed worker can end
    it.
    """
    said: Callable[[str, bytes], None] | None = None
    """Given each line as it is written, without its end, with "output" or "errors"; what it raises
    ends the program and is passed on.
    Nothing is gathered then: `Finished` has no output."""
    grace: float = 0.0
    """Seconds between SIGTERM and SIGKILL when the program is ended.

    With any, what it started is ended too, also what left its process group (`warden`), and when
    this process dies as well.
    """


@dataclass
class _Catch:
    """Gathers both outputs, or says them line by line, without ever blocking on one of them."""

    limit: int
    said: Callable[[str, bytes], None] | None = None
    outputs: dict[str, bytearray] = field(
        default_factory=lambda: {"output": bytearray(), "errors": bytearray()}
    )
    total: int = 0
    skipping: set[str] = field(default_factory=set)
    """Which output is in the middle of a line that is too long."""

    def read(self, selector: selectors.BaseSelector, wait: float) -> bool:
        """Take what is there within `wait` seconds; False when there was nothing."""
        ready = selector.select(wait)
        for key, _ in ready:
            chunk = os.read(key.fd, CHUNK)
            if not chunk:
                selector.unregister(key.fileobj)
            self.total += len(chunk)
            self.outputs[key.data] += chunk
            if self.said is not None:
                self._say(key.data)
        if self.total > self.limit:
            raise TooMuchOutput(f"it wrote more than {self.limit:,} bytes")
        return bool(ready)

    def end(self) -> None:
        """Nothing more comes: what is there without a line's end is a line."""
        if self.said is not None:
            for name in self.outputs:
                self._say(name, last=True)

    def _say(self, name: str, *, last: bool = False) -> None:
        assert self.said is not None
        *lines, rest = bytes(self.outputs[name]).split(b"\n")
        if last and rest:
            lines, rest = [*lines, rest], b""
        self.outputs[name] = bytearray()
        for line in lines:
            if name in self.skipping:  # the rest of one that was said
                self.skipping.discard(name)
            else:
                self.said(name, line[:LONGEST_LINE])
        if len(rest) > LONGEST_LINE:
            if name not in self.skipping:
                self.said(name, rest[:LONGEST_LINE])
            self.skipping.add(name)
        else:
            self.outputs[name] = bytearray(rest)


def run(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    bounds: Bounds,
    stdin: bytes = b"",
) -> Finished:
    """Run a program in its own session and end every process of its group before returning,
    whatever happens; with a `grace` all of it.

    Raises:
        ProgramMissing, TimeIsUp, TooMuchOutput: see their names.
        Exception: whatever `bounds.check` raises.
    """
    with _source(stdin) as source:
        try:
            process = subprocess.Popen(
                [*_warded(bounds), *arguments],
                cwd=cwd,
                env=dict(env),
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
            raise ProgramMissing(
                f"{arguments[0]} cannot be started: {getattr(error, 'strerror', None) or error}"
            ) from None
    with process:
        try:
            _unbound(process.pid)
            bounds.started(process.pid)
            caught = _follow(process, bounds)
        finally:
            if bounds.grace and not _has_ended(process.pid):
                _ask_to_end(process.pid, bounds.grace)
            end_group(process.pid)
            process.wait()
    return Finished(
        returncode=process.returncode,
        output=bytes(caught.outputs["output"]),
        errors=bytes(caught.outputs["errors"]),
    )


def _unbound(pid: int) -> None:
    """What bounds the memory of a step's own process does not hold for programs."""
    if not hasattr(resource, "prlimit"):
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != hard:
        with suppress(ProcessLookupError, PermissionError):
            resource.prlimit(pid, resource.RLIMIT_DATA, (hard, hard))


def end_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def end_gently(group: int, seconds: float) -> None:
    """End a process group whose parent is somebody else: its leader, which may be a warden, gets so
    long to end what is below it.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.kill(group, signal.SIGTERM)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and _is_there(group):
        time.sleep(0.02)  # nothing tells when processes of others' making are gone
    end_group(group)


def _is_there(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _warded(bounds: Bounds) -> list[str]:
    """What stands before a program that is to end with all it started."""
    if not bounds.grace or sys.platform != "linux":
        return []
    return [sys.executable, "-I", "-S", str(WARDEN), str(os.getpid()), str(bounds.grace)]


def _ask_to_end(pid: int, grace: float) -> None:
    """Ask the warden to end all, and give it the time for that."""
    os.kill(pid, signal.SIGTERM)
    ends = time.monotonic() + grace + 1.0
    while time.monotonic() < ends and not _has_ended(pid):
        time.sleep(0.02)  # nothing tells when processes of others' making are gone


def _source(stdin: bytes) -> IO[bytes]:
    """Input as a file, so that a program that does not read it cannot block us."""
    source = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
    source.write(stdin)
    source.seek(0)
    return source


def _follow(process: subprocess.Popen[bytes], bounds: Bounds) -> _Catch:
    caught = _Catch(limit=bounds.max_output, said=bounds.said)
    deadline = time.monotonic() + bounds.seconds
    next_check = time.monotonic() + POLL_SECONDS
    with selectors.DefaultSelector() as selector:
        for name, pipe in (("output", process.stdout), ("errors", process.stderr)):
            assert pipe is not None
            selector.register(pipe, selectors.EVENT_READ, name)
        while True:
            # with both pipes closed it just waits, not long
            busy = caught.read(selector, 0.02 if selector.get_map() else 0.002)
            if time.monotonic() >= next_check:
                bounds.check()
                next_check = time.monotonic() + POLL_SECONDS
            if time.monotonic() > deadline:
                raise ProcessTimeIsUp(f"it did not end within {bounds.seconds:g} seconds")
            # A grandchild may keep the pipes open for ever: the program's own end counts, once
            # nothing more is waiting.
            if not busy and _has_ended(process.pid):
                while selector.get_map() and caught.read(selector, 0):
                    pass
                caught.end()
                return caught


def _has_ended(pid: int) -> bool:
    """Without reaping: until we reap it, its process group's number cannot become somebody
    else's.
    """
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
