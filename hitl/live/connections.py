"""How many streams and sockets one person, and one server process, have open: places that are taken
and given back (`runs.limits`).
"""

from __future__ import annotations

from collections import Counter
from threading import Lock

from hitl.http.incoming import value

_lock = Lock()
_open: Counter[int] = Counter()
"""Person → places taken in this process."""


def take(person: int) -> bool:
    """Take a place for a person; False where they, or all together, have as many as may be.

    Then nothing is to be given back.
    """
    with _lock:
        if _open[person] >= value("PERSON_STREAMS") or _open.total() >= value("PROCESS_STREAMS"):
            return False
        _open[person] += 1
        return True


def give_back(person: int) -> None:
    with _lock:
        _open[person] -= 1
        if _open[person] <= 0:
            del _open[person]


def words() -> str:
    return (
        f"You have {value('PERSON_STREAMS')} streams and sockets open already, or this server "
        "has all that it takes. "
        "Close one, or come back in some seconds with the last number you have."
    )
