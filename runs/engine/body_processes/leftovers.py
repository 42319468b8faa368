"""What a body changed in its process is put back before another body runs there; where it left
what cannot be put back (threads, child processes, open files), the process ends behind it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # has no stubs
import _thread
import builtins
import decimal
import locale
import logging
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from typing import Any

from django.utils import timezone, translation

from runs.engine.body_processes import open_files

SIGNALS = [
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGCHLD,
    signal.SIGPIPE,
    signal.SIGALRM,
    signal.SIGUSR1,
    signal.SIGUSR2,
]
OURS = {"chunk-writer"}
"""Threads of the engine's own, that begin when they are first needed."""
REPLACED: list[tuple[Any, str]] = [
    (builtins, "open"),
    (builtins, "print"),
    (os, "environ"),
    (select, "select"),
    (socket, "getaddrinfo"),
    (socket, "socket"),
    (subprocess, "Popen"),
    (threading, "Thread"),
    (time, "sleep"),
    (time, "time"),
]
"""What tools that turn Python into another one replace: gevent, clocks of tests, doubles. Others of
a module's names are not looked at, there are too many.
"""


class Before:
    """How the process was before a body."""

    def __init__(self) -> None:
        self._originals = [(owner, name, getattr(owner, name)) for owner, name in REPLACED]
        self._environment = dict(os.environ)
        self._variables = dict(_variables())
        self._folder = os.getcwd()
        self._path = list(sys.path)
        self._mask = _mask()
        self._locale = locale.setlocale(locale.LC_ALL)
        # of `signal` itself: its Python makes a name of each, 6 µs behind each step
        self._handlers = {number: _signal.getsignal(number) for number in SIGNALS}
        self._streams = (sys.stdin, sys.stdout, sys.stderr)
        self._limit = sys.getrecursionlimit()
        self._filters = list(warnings.filters)
        self._decimal = decimal.getcontext().copy()
        self._log = (logging.root.level, list(logging.root.handlers))
        self._language = translation.get_language()
        self._files = open_files.Known()
        # one that has not begun yet when its body ends is found behind the next one
        self._unnamed = _unnamed()
        self.begin()

    def begin(self) -> None:
        """A body begins: what the engine started meanwhile is none of its."""
        self._threads = set(threading.enumerate())
        self._files.begin()

    def put_back(self) -> str:
        """Put back what was changed; gives why that failed, "" where it did not."""
        try:
            self._put_back()
        except Exception as error:  # noqa: BLE001  # a folder that is gone, a value of the author's
            return f"what cannot be put back: {error}"
        return self._files.make_room()

    def left(self) -> str:
        """What was left behind since `begin`, "" where nothing was."""
        return _children() or self._left_threads() or self._files.left()

    def _put_back(self) -> None:
        for owner, name, value in self._originals:
            if getattr(owner, name) is not value:
                setattr(owner, name, value)
        if _variables() != self._variables:
            os.environ.clear()
            os.environ.update(self._environment)
        _go_to(self._folder)
        if sys.path != self._path:
            sys.path[:] = self._path
        os.umask(self._mask)
        if locale.setlocale(locale.LC_ALL) != self._locale:
            locale.setlocale(locale.LC_ALL, self._locale)
        for number, handler in self._handlers.items():
            if handler is not None and _signal.getsignal(number) != handler:
                signal.signal(number, handler)
        sys.stdin, sys.stdout, sys.stderr = self._streams
        if sys.getrecursionlimit() != self._limit:
            sys.setrecursionlimit(self._limit)
        if warnings.filters != self._filters:
            warnings.filters[:] = self._filters  # type: ignore[index]  # a list, typed as read-only
            with warnings.catch_warnings():
                warnings.simplefilter("default")  # it forgets what it worked out from those before
        decimal.setcontext(self._decimal.copy())
        socket.setdefaulttimeout(None)
        level, handlers = self._log
        if logging.root.level != level:
            logging.root.setLevel(level)
        if logging.root.handlers != handlers:
            logging.root.handlers[:] = handlers
        if translation.get_language() != self._language:
            translation.activate(self._language or "en")
        timezone.deactivate()
        random.seed()
        numbers: Any = sys.modules.get("numpy.random")
        if numbers is not None:
            numbers.seed()

    def _left_threads(self) -> str:
        if _unnamed() > self._unnamed:
            return "a thread without a name"
        if threading.active_count() <= len(self._threads):
            return ""
        left = [
            thread.name
            for thread in set(threading.enumerate()) - self._threads
            if thread.name not in OURS
        ]
        return f"the thread {left[0]}" if left else ""


def _variables() -> dict[bytes, bytes]:
    """What `os.environ` keeps: compared itself, it decodes each of them, 22 µs behind each step."""
    kept: dict[bytes, bytes] = vars(os.environ)["_data"]
    return kept


def _unnamed() -> int:
    """Threads that `threading` has not started. Those of a library in C are not known to Python."""
    return _thread._count() + 1 - threading.active_count()


def _mask() -> int:
    os.umask(mask := os.umask(0o077))
    return mask


def _go_to(folder: str) -> None:
    try:
        if os.getcwd() == folder:
            return
    except FileNotFoundError:
        pass
    os.chdir(folder)


def _children() -> str:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return ""
    return "a child process"
