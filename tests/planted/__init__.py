"""Small faults of the product, each of which some test notices: what the suite is worth, whatever
becomes of single tests.

    python -m tests.planted                 # all, each with the files that should notice it
    python -m tests.planted quorum lease    # those with these words in their names
    python -m tests.planted --list

Each is planted in a copy of this repository. Not part of `make test`, which only looks that each of
them can still be planted.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """`was` stands once in the file, and `becomes` is written in its place."""

    name: str
    path: str
    was: str
    becomes: str
    noticed_by: tuple[str, ...]
    """Files of tests, or single tests, of which at least one fails."""
    breaks: str
    """The promise, requirement or failure of a rival that it is about."""
