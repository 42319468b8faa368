"""`manage.py workorder …`, and the seconds that it stood waiting until its process ended, whatever
the machine has to do besides.

    python -m tests.servers.timed_command --user ana create --template writing

Prints what the command prints, and as its last line a JSON object: call → seconds that the main
thread spent in it. Waiting for PostgreSQL is libpq's own and does not count.
"""

from __future__ import annotations

import atexit
import json
import sys
import time
from types import FrameType
from typing import Any

BLOCKING = {
    "acquire",
    "recv",
    "recv_into",
    "recvfrom",
    "send",
    "sendall",
    "connect",
    "connect_ex",
    "poll",
    "select",
    "sleep",
    "join",
}
"""Functions of C in which a thread stands."""

_waited: dict[str, float] = {}
_began: list[float] = []


def _watch(frame: FrameType, event: str, call: Any) -> None:
    if not event.startswith("c_") or call.__name__ not in BLOCKING:
        return
    if event == "c_call":
        _began.append(time.monotonic())
    elif _began:
        _waited[call.__name__] = _waited.get(call.__name__, 0.0) + time.monotonic() - _began.pop()


def _tell() -> None:
    sys.setprofile(None)
    print(json.dumps(_waited), flush=True)


def main(words: list[str]) -> None:
    atexit.register(_tell)  # first, so it is called last: the product's own come before
    import django

    django.setup()
    from django.core.management import call_command

    sys.setprofile(_watch)
    call_command("workorder", *words)


if __name__ == "__main__":
    main(sys.argv[1:])
