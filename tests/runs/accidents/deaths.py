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
    """Do an operation on an order of its own with a death at moment 1, 2, 3 … until it gets
    through.

    Args:
        make: an order that stands right before the operation.
        settle: what people and machines do afterwards, until the order ends.
        told: what must be the same in the end.
    Returns:
        How many moments there were. The end is compared with the one of an operation that nobody
        disturbed.
    """
    undisturbed = make()
    operation(undisturbed)
    expected = told(settle(undisturbed))
    moment = 0
    while True:
        moment += 1
        order = make()
        with crash.killing(moment) as moments:
            operation(order)
        assert told(settle(order)) == expected, f"after a death at moment {moment}"
        if not moments.dead:
            crash.check_ledgers()
            return moment - 1
