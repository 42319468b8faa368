"""Which files a body left open. Connections to the database and to Redis are the engine's,
whichever thread made them.
"""

from __future__ import annotations

import os
import resource
import socket
import stat
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings

FOLDER = "/proc/self/fd"
MOST = 65_536
"""Numbers that are looked at where all are used up."""


class Known:
    """The files that were open before a body, as far as it takes to see a new one.

    The lowest free number tells at the cost of two calls whether there can be any: where a file is
    left open it is another one.
    """

    def __init__(self) -> None:
        self._files = _all()
        self._next = _next_free()

    def begin(self) -> None:
        if _next_free() != self._next:
            self._files, self._next = _all(), _next_free()

    def left(self) -> str:
        """What was left open, "" where nothing was."""
        if _next_free() == self._next:
            return ""
        for number in sorted(_all() - self._files):
            if not _is_ours(number):
                return f"the open file {_name(number)}"
        self._files, self._next = _all(), _next_free()
        return ""

    def make_room(self) -> str:
        """Where all are used up: the engine has to write down what became of the step, which takes
        a connection.
        """
        if _next_free() != -1:
            return ""
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        for number in range(min(most, MOST)):
            if number not in self._files:
                with suppress(OSError):
                    os.close(number)
        return "as many open files as it may have"


def _next_free() -> int:
    try:
        number = os.dup(0)
    except OSError:
        return -1
    os.close(number)
    return number


def _all() -> set[int]:
    own = _next_free()  # the number under which the folder itself is read
    try:
        return {int(name) for name in os.listdir(FOLDER)} - {own}
    except OSError:  # a system without it, or no number is free
        return set()


def _name(number: int) -> str:
    try:
        return os.readlink(f"{FOLDER}/{number}")
    except OSError:
        return str(number)


def _is_ours(number: int) -> bool:
    try:
        kind = os.fstat(number).st_mode
    except OSError:
        return True  # it was that of the listing itself
    if stat.S_ISSOCK(kind):
        return _is_of_the_engine(number)
    name = _name(number)
    return name.startswith(("anon_inode:", *_databases()))


def _is_of_the_engine(number: int) -> bool:
    with suppress(OSError), socket.socket(fileno=os.dup(number)) as found:
        if found.family == socket.AF_UNIX:
            # what wakes an event loop has no name; servers of this machine have one
            return not found.getsockname() or bool(found.getpeername())
        return found.getpeername()[1] in _ports()
    return False


def _ports() -> set[int]:
    database = settings.DATABASES["default"].get("PORT") or 5432
    broker = urlsplit(str(settings.CELERY_BROKER_URL)).port or 6379
    return {int(str(database).split(",")[0]), broker}


def _databases() -> list[str]:
    """Files of SQLite's, beside each database one with a longer name."""
    name = settings.DATABASES["default"]["NAME"]
    return [str(Path(str(name)).resolve())] if os.sep in str(name) else []
