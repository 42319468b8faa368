"""One thing that an examination found."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Level(enum.StrEnum):
    WRONG = "wrong"
    """Something does not work."""
    WARNING = "warning"
    """It works, and will bite: later, under load, or somebody who attacks it."""
    FINE = "fine"


@dataclass(frozen=True)
class Finding:
    subject: str
    level: Level
    words: str
    mend: str = ""


def wrong(subject: str, words: str, mend: str) -> Finding:
    return Finding(subject, Level.WRONG, words, mend)


def warning(subject: str, words: str, mend: str) -> Finding:
    return Finding(subject, Level.WARNING, words, mend)


def fine(subject: str, words: str) -> Finding:
    return Finding(subject, Level.FINE, words)
