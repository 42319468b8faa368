"""The adversary knows every door of the product."""

from __future__ import annotations

import pytest

from tests.adversary import doors, moves

pytestmark = pytest.mark.one_database


def test_the_adversary_goes_through_every_door_or_says_why_not() -> None:
    """A door that nobody attacks is one of which nobody knows what it lets in."""
    found, known = doors.acting(), set(moves.MOVES) | set(moves.STILL)
    new, gone = sorted(found - known), sorted(known - found)
    assert not new, (
        f"The adversary has no move for {new}: add one line each to MOVES in "
        f"tests/adversary/moves.py, such as {new[0]!r}: plain, "
        "or the reason why it cannot move a run to STILL."
    )
    assert not gone, (
        f"There are no doors {gone} any more: take their lines out of tests/adversary/moves.py."
    )
    assert not set(moves.MOVES) & set(moves.STILL)
