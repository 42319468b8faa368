"""Whether this worker is about to end: then a run is handed back at its next step boundary, for
another worker to go on with.
"""

from __future__ import annotations

import mmap

_flag = mmap.mmap(-1, 1)
"""One byte shared with the children of a prefork worker: they are forked after this import, and the
signal reaches their parent only.
"""


class ProcessEnds(BaseException):
    """This process ends in the middle of whatever it does: no step has failed.

    Kits that kill workers raise one of their own.
    """


def begin_anew() -> None:
    """In a process that takes the place of one that stopped, forked from the same parent."""
    global _flag
    _flag = mmap.mmap(-1, 1)


def stopping() -> bool:
    return _flag[0] != 0


def stop() -> None:
    """Said once, by whoever gets the signal; there is no way back."""
    _flag[0] = 1
