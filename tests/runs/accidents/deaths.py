"""A worker that dies at each moment of its work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.killed import moments as crash


def every_death(
    make: Callable[[], Any],
    operation: Callable[[Any], object],
    settle: Callable[[Any], Any],
    told: Callable[[Any], dict[str, Any]] = crash.story,
) -> int:
    """Do an operation on an order of its own with a death at moment 1, 2, 3 … of those that leave
    different things behind, until it gets through.

    Args:
        make: an order that stands right before the operation.
        settle: what people and machines do afterwards, until the order ends.
        told: what must be the same in the end.
    Returns:
        How many moments there were. The end is compared with the one of an operation that nobody
        disturbed, which is the last.
    """
    ends: list[dict[str, Any]] = []
    while True:
        order = make()
        with crash.killing(len(ends) + 1, statements=False) as moments:
            operation(order)
        ends.append(told(settle(order)))
        if not moments.dead:
            break
    for moment, end in enumerate(ends, start=1):
        assert end == ends[-1], f"after a death at moment {moment}"
    crash.check_ledgers()
    assert len(ends) > 2, "nothing died"
    return len(ends) - 1
