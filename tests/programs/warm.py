"""Processes that begin where Python and the libraries are loaded: reading those is most of what a
start costs, and the suite starts hundreds.

A process has loaded them and waits, another one has read the product, too (`product`). A program is
a fork, which then reads its environment, Django's settings and what else is its own as every other
start does. Where Python or a library is told something else when it is loaded, a program starts
cold.

They wait for one process and end with it, or for all of a run that `tests/run.py` began. There
pytest's own processes begin so, too: each would read all tests, and hold them.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from functools import cache, partial
from io import StringIO
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).resolve().parents[2]
LOADED = (
    "asgiref.server",
    "asgiref.sync",
    "axes.apps",
    "babel.dates",
    "celery.app.amqp",
    "celery.app.base",
    "celery.app.control",
    "celery.app.events",
    "celery.app.log",
    "celery.app.task",
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.backends.redis",
    "celery.beat",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "celery.concurrency.thread",
    "celery.fixups.django",
    "celery.worker",
    "celery.worker.autoscale",
    "celery.worker.components",
    "celery.worker.consumer",
    "celery.worker.strategy",
    "cryptography.fernet",
    "cryptography.hazmat.primitives.ciphers.aead",
    "cryptography.x509",
    "django.core.handlers.asgi",
    "django.core.management.commands.migrate",
    "django.core.management.commands.shell",
    "django.db.backends.postgresql.base",
    "django.db.backends.sqlite3.base",
    "django.db.models",
    "django.forms",
    "django.template.defaulttags",
    "django.template.loader_tags",
    "django.test",
    "django.views.generic",
    "email.mime.text",
    "fido2.server",
    "h11",
    "holidays",
    "http.client",
    "jsonschema",
    "jwt",
    "kombu.transport.redis",
    "markdown_it",
    "nh3",
    "psycopg",
    "psycopg_pool",
    "pydantic",
    "redis.asyncio",
    "requests",
    "sqlparse",
    "stdnum.eu.vat",
    "uvicorn.main",
    "whitenoise.base",
    "yaml",
)
"""What may be read before a program's environment is known. Not Twisted: it makes its loop then."""
READ_FIRST = ("FAKETIME", "LANG", "LC_", "LD_", "OTEL_P", "PYTHON")
"""How the names of variables begin that Python or a library reads when it is loaded;"""
READ_AGAIN = "PYTHONWARNINGS"
"""of these the one that a program is told in time when it begins warm, too."""
OWN = {"PYTHONUNBUFFERED": "1"}
BEGINS_MORE = "TESTS_WARM"
"""Tells a program that may begin others where they wait: its own number, a file's, what is loaded.
A process of which it is not the number got the variable with its environment, and no more.
"""
WAIT = "TESTS_WAIT"
"""Tells where those are asked that wait for all of a run: a folder of their doors."""
ENDED = struct.Struct("i")
"""How a process ended, as `os.waitpid` gives it."""
_asks = threading.Lock()


class Process(subprocess.Popen[bytes]):
    """A forked program. It is the waiting process's child, which tells how it ended."""

    def __init__(self, arguments: Sequence[str], pid: int, ending: int) -> None:
        self.args, self.pid, self._ending = arguments, pid, ending
        self.stdin = self.stdout = self.stderr = None
        self.returncode: Any = None  # as in `Popen`

    def __del__(self) -> None:
        if self.returncode is None:
            os.close(self._ending)

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return cast(int | None, self.returncode)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._ending], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            told = os.read(self._ending, ENDED.size)
            os.close(self._ending)
            # nothing is told where the waiting process was killed
            self.returncode = os.waitstatus_to_exitcode(
                ENDED.unpack(told)[0] if told else signal.SIGKILL
            )
        return cast(int, self.returncode)


def start(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    output: int,
    errors: int,
    umask: int,
    of_product: bool = False,
    begins_more: bool = False,
    root: Path = ROOT,
) -> Process:
    """Begin `python <arguments>` in the repository's folder, in a session of its own; what it
    prints goes to these files. `of_product`: it is Django with the product's settings or more.
    `begins_more`: what it starts by this function is forked from the same process as it. `root`:
    where another version of the product is, instead.
    """
    assert root == ROOT or not of_product
    loaded = "product" if of_product else "libraries"
    with open(os.devnull, "rb") as nothing:
        files = [nothing.fileno(), output, errors]
        return begin(loaded, arguments, environment, files, umask, begins_more, root)


def begin(
    loaded: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    files: list[int],
    umask: int,
    begins_more: bool = False,
    root: Path = ROOT,
) -> Process:
    """`start`, with its three standard files, and where this is `loaded`."""
    ending, told = os.pipe()
    wish = json.dumps([[*arguments], {**environment}, umask, begins_more, str(root)]).encode()
    try:
        with _asks:
            waiting = _waiting(loaded)
            socket.send_fds(waiting, [len(wish).to_bytes(8)], [*files, told])
            waiting.sendall(wish)
            pid = int.from_bytes(waiting.recv(8))
    finally:
        os.close(told)
    return Process(arguments, pid, ending)


def may_be(environment: Mapping[str, str]) -> bool:
    """Whether a program with this environment may begin with all that is loaded already."""
    return _read_first(environment) == _read_first({**os.environ, **OWN})


def _read_first(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(READ_FIRST) and name != READ_AGAIN
    }


@cache
def _waiting(loaded: str) -> socket.socket:
    """To the process that waits for programs to begin."""
    given = os.environ.get(BEGINS_MORE, "").split(":")
    if given[:1] == [str(os.getpid())] and given[2] == loaded:
        return socket.socket(fileno=int(given[1]))
    door = Path(os.environ.get(WAIT, ""), loaded)
    if door.is_socket():
        mine = socket.socket(socket.AF_UNIX)
        mine.connect(str(door))
        atexit.register(mine.close)
        return mine
    mine, its = socket.socketpair()
    process = _wait(its, loaded, os.environ)

    def end() -> None:
        mine.close()
        process.wait()

    atexit.register(end)
    return mine


def _wait(
    asked: socket.socket,
    loaded: str,
    environment: Mapping[str, str],
    *tests: str,
    until: int | None = None,
) -> subprocess.Popen[bytes]:
    with asked:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.programs.warm", str(asked.fileno()), loaded, *tests],
            cwd=ROOT,
            env={**environment, **OWN},
            pass_fds=[asked.fileno()],
            stdin=until,
            start_new_session=True,
        )


@contextmanager
def waiting_for_all(
    folder: Path, environment: Mapping[str, str], tests: Sequence[str]
) -> Iterator[dict[str, str]]:
    """Have processes wait for all of a run, whose pytest is to read `tests`. Gives what its
    environment is to say of them. Those whom nobody asks read nothing.
    """
    folder.mkdir()
    with ExitStack() as stack:
        for loaded, *told in (["libraries"], ["product"], ["tests", *tests]):
            door = socket.socket(socket.AF_UNIX)
            door.bind(str(folder / loaded))
            door.listen()
            # they end where nobody holds the other side of this pipe, whatever became of the run
            stack.enter_context(_wait(door, loaded, environment, *told, until=subprocess.PIPE))
        yield {WAIT: str(folder)}


class _Modules:
    """What is defined in them is looked at by each process itself."""

    def pytest_pycollect_makeitem(self) -> list[Any]:
        return []


def _read(loaded: str, tests: Sequence[str]) -> Callable[..., None] | None:
    """What a program does first where this is read."""
    if loaded == "tests":
        pytest = importlib.import_module("pytest")
        with redirect_stdout(StringIO()):
            # nothing is captured: what is set up to write its log would write it there ever after
            pytest.main(["--collect-only", "-qqs", *tests], plugins=[_Modules()])
        return None
    for name in LOADED:
        importlib.import_module(name)
    if loaded == "libraries":
        return None
    product = importlib.import_module("tests.programs.product")
    return partial(product.begin_anew, *product.read())


def main(asked: socket.socket, loaded: str, *tests: str) -> list[str]:
    """Begin what is asked for. Gives a program's arguments in each that begins, and does not
    come back else.
    """
    all_ask = bool(asked.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    end = [sys.stdin.fileno()] if all_ask else []
    if all_ask and asked not in select.select([asked, *end], [], [])[0]:
        raise SystemExit
    begin_anew = _read(loaded, tests)
    gc.freeze()  # what is loaded stays, and is not copied by looking for garbage
    running: dict[int, tuple[int, int]] = {}
    doors = [asked]
    waited_for: list[socket.socket | int]
    while True:
        waited_for = [*doors, *running, *end]
        for ready in select.select(waited_for, [], [])[0]:
            if ready in end:
                raise SystemExit
            if isinstance(ready, int):
                pid, told = running.pop(ready)
                os.close(ready)
                with suppress(BrokenPipeError):  # nobody asks any more
                    os.write(told, ENDED.pack(os.waitpid(pid, 0)[1]))
                os.close(told)
                continue
            if ready is asked and all_ask:
                doors.append(asked.accept()[0])
                continue
            size, files, _, _ = socket.recv_fds(ready, 8, 4)
            if not size:
                doors.remove(ready)
                ready.close()
                if ready is asked:
                    raise SystemExit
                continue
            wish = ready.recv(int.from_bytes(size), socket.MSG_WAITALL)
            *standard, told = files
            arguments, environment, umask, begins_more, root = json.loads(wish)
            mine, its = socket.socketpair() if begins_more else (None, None)
            if (pid := os.fork()) == 0:
                for door in filter(None, [*doors, mine]):
                    door.close()
                for number in [told, *running, *(told for _, told in running.values())]:
                    os.close(number)
                _begun(standard, environment, umask, root)
                if its is not None:
                    os.environ[BEGINS_MORE] = f"{os.getpid()}:{its.detach()}:{loaded}"
                if begin_anew is not None:
                    begin_anew([sys.executable, *arguments], environment)
                return list(arguments)
            if mine is not None and its is not None:
                its.close()
                doors.append(mine)
            for number in standard:
                os.close(number)
            running[os.pidfd_open(pid)] = pid, told
            ready.sendall(pid.to_bytes(8))


def _begun(files: list[int], environment: dict[str, str], umask: int, root: str) -> None:
    os.setsid()
    if root != str(ROOT):
        os.chdir(root)
        sys.path[0] = root
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]
    os.umask(umask)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[1:1] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    time.tzset()
    python: Any = warnings  # what its command line calls is no name of its own
    python._processoptions([word for word in environment.get(READ_AGAIN, "").split(",") if word])


class _Leaving:
    """At a program's end, after all that is done there, the process goes at once: to take apart
    what was loaded for it copies nearly all memory that it shares.
    """

    code: int | None = None
    """What it ends with; `None` leaves it to Python, which has something to tell."""

    def run(self, asked: socket.socket, *loaded: str) -> None:
        try:
            run(*main(asked, *loaded))
            self.code = 0
        except SystemExit as ended:
            if ended.code is None or isinstance(ended.code, int):
                self.code = (ended.code or 0) & 0xFF
            raise

    def at_last(self) -> None:
        if self.code is not None:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(self.code)


def run(kind: str, *arguments: str) -> None:
    """As Python's command line does it."""
    if kind == "-m":
        sys.argv = list(arguments)
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        code, *more = arguments
        sys.argv = ["-c", *more]
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [kind, *arguments]
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    leaving = _Leaving()
    atexit.register(leaving.at_last)  # first, so it is called last
    leaving.run(socket.socket(fileno=int(sys.argv[1])), *sys.argv[2:])
