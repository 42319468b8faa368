"""What reading one text may cost: counted, so that no clock and no busy host decides what a page
shows.
"""

from __future__ import annotations


class WorkSpent(Exception):
    """A reading has come to all the work that it may be."""


class Work:
    """What one reading may still look at."""

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, amount: int = 1) -> None:
        """Raises WorkSpent; then nothing more is left."""
        self.left -= amount
        if self.left < 0:
            self.left = 0
            raise WorkSpent
