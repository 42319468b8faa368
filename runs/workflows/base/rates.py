"""How many may begin in a time: `60/min`."""

from __future__ import annotations

import re
from typing import NamedTuple

SECONDS = {"s": 1.0, "min": 60.0, "h": 3_600.0, "day": 86_400.0}
MOST = 10_000
"""The highest number of a rate."""
_RATE = re.compile(r"([1-9][0-9]{0,4})/(?:([1-9][0-9]{0,2}) ?)?(s|min|h|day)")


class Rate(NamedTuple):
    """At most `most` in any `seconds` on end."""

    most: int
    seconds: float


def parse(text: str) -> Rate:
    """Read `60/min`, `1/s`, `500/h`, `10/day` or `3/5min`.

    Raises ValueError, with a sentence.
    """
    found = _RATE.fullmatch(text) if isinstance(text, str) else None
    if found is None or int(found[1]) > MOST:
        raise ValueError(
            f"{text!r:.40} is no rate: write how many begin in which time, such as 60/min. "
            f"There are {', '.join(SECONDS)}, and numbers up to {MOST:,}."
        )
    return Rate(int(found[1]), int(found[2] or 1) * SECONDS[found[3]])
