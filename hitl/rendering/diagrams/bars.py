"""Counts as bars that lie above each other, each with its name and its number. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

WIDTH, LABELS, NUMBERS, ROW, THICK = 370.0, 154.0, 44.0, 24.0, 14.0
THINNEST = 2.0
"""Of a bar, so that one among thousands can be seen."""


class Count(NamedTuple):
    label: str
    number: int
    wrong: int = 0
    """What is counted beside, as something that went wrong."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    label: str
    numbers: str
    y: float
    width: float
    wrong_x: float
    wrong_width: float
    """0 where nothing went wrong."""

    @property
    def text_y(self) -> float:
        return self.y + THICK - 3

    @property
    def end(self) -> float:
        return self.wrong_x + self.wrong_width + 6


@dataclass(frozen=True, kw_only=True)
class Bars:
    rows: list[Bar]
    height: float
    any_wrong: bool
    width: float = WIDTH
    left: float = LABELS


def chart(counts: Iterable[Count]) -> Bars:
    """The bars of counts, in their order; the longest takes all the room there is."""
    known = list(counts)
    most = max((one.number + one.wrong for one in known), default=0) or 1
    scale = (WIDTH - LABELS - NUMBERS) / most

    def width(count: int) -> float:
        return max(THINNEST, round(count * scale, 1)) if count else 0.0

    rows = [
        Bar(
            label=one.label,
            numbers=f"{one.number} + {one.wrong}" if one.wrong else str(one.number),
            y=at * ROW,
            width=width(one.number),
            wrong_x=LABELS + width(one.number),
            wrong_width=width(one.wrong),
        )
        for at, one in enumerate(known)
    ]
    return Bars(rows=rows, height=len(rows) * ROW, any_wrong=any(one.wrong for one in known))
