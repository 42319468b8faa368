"""What changed between two texts, word by word: lines that stayed are folded, changed ones show the
words that changed.

A comparison counts the pairs of lines and words that it looks at, and ends at `limits.DIFF_WORK`:
what is left then is shown as taken out and put in, line by line. Both texts are always shown whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from itertools import zip_longest

from checkpoints.forensics.diff import common_start
from checkpoints.text import invisible
from hitl.rendering.work import Work, WorkSpent
from runs import limits

AROUND = 2
"""Unchanged lines shown around a change."""
WORDS = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True)
class DiffPart:
    """A stretch of a line. `kind` is `same`, `added` or `removed`."""

    kind: str
    text: str


@dataclass(frozen=True)
class DiffLine:
    """A line before and after; None where it is not there.

    `folded` counts unchanged lines that are left out instead.
    """

    old: Sequence[DiffPart] | None = None
    new: Sequence[DiffPart] | None = None
    folded: int = 0

    @property
    def same(self) -> bool:
        return self.old is not None and self.old == self.new


class _Matcher(SequenceMatcher[str]):
    """Counts the pairs that each search will look at, before it looks: of texts full of the same
    words that is their product.
    """

    def __init__(self, old: Sequence[str], new: Sequence[str], work: Work) -> None:
        self.work, self.old, self.new = work, old, new
        self.places: Mapping[str, Sequence[int]] = {}
        super().__init__(None, old, new, autojunk=False)
        # the library's own index, which it documents and its types do not know
        self.places = vars(self)["b2j"]

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        self.work.spend(sum(1 + len(self.places.get(token, ())) for token in self.old[alo:ahi]))
        return super().find_longest_match(alo, ahi, blo, bhi)


def stretches(
    old: Sequence[str], new: Sequence[str], work: Work
) -> list[tuple[bool, Sequence[str], Sequence[str]]]:
    """Stretches of both, and whether they are the same: equal beginnings and ends cost nothing.

    Raises WorkSpent.
    """
    head = common_start(old, new)
    tail = common_start(
        old[: head - 1 if head else None : -1], new[: head - 1 if head else None : -1]
    )
    middle = slice(head, len(old) - tail), slice(head, len(new) - tail)
    matcher = _Matcher(old[middle[0]], new[middle[1]], work)
    between = [
        (tag == "equal", matcher.old[i1:i2], matcher.new[j1:j2])
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
    ]
    begin, end = (
        (True, old[:head], new[:head]),
        (True, old[len(old) - tail :], new[len(new) - tail :]),
    )
    return [stretch for stretch in (begin, *between, end) if stretch[1] or stretch[2]]


def compare(before: str, after: str, *, work: Work | None = None) -> list[DiffLine]:
    """The lines of both texts, side by side; empty where they are the same.

    A line ends at `\\n` and nowhere else.
    """
    old, new = invisible.lines_of(before), invisible.lines_of(after)
    if old == new:
        return []
    work = work or Work(limits.DIFF_WORK)
    lines: list[DiffLine] = []
    for same, left, right in _lines(old, new, work):
        if same:
            lines += [DiffLine(kept, kept) for kept in ([DiffPart("same", line)] for line in left)]
        else:
            lines += _changed(left, right, work)
    return list(_folded(lines))


def _lines(
    old: Sequence[str], new: Sequence[str], work: Work
) -> list[tuple[bool, Sequence[str], Sequence[str]]]:
    try:
        return stretches(old, new, work)
    except WorkSpent:
        return [(False, old, new)]


def _changed(old: Sequence[str], new: Sequence[str], work: Work) -> Iterator[DiffLine]:
    """Lines that changed: paired in order, word by word; those without a counterpart as a whole."""
    for before, after in zip_longest(old, new):
        if before is None:
            yield DiffLine(new=[DiffPart("added", after)])
        elif after is None:
            yield DiffLine(old=[DiffPart("removed", before)])
        else:
            yield DiffLine(*words(before, after, work))


def words(old: str, new: str, work: Work) -> tuple[list[DiffPart], list[DiffPart]]:
    """A line before and after, in stretches; as a whole where the work is used up."""
    left: list[DiffPart] = []
    right: list[DiffPart] = []
    try:
        found = stretches(WORDS.findall(old), WORDS.findall(new), work)
    except WorkSpent:
        return [DiffPart("removed", old)], [DiffPart("added", new)]
    for same, before, after in found:
        gone, come = "".join(before), "".join(after)
        if gone:
            left.append(DiffPart("same" if same else "removed", gone))
        if come:
            right.append(DiffPart("same" if same else "added", come))
    return left, right


def _folded(lines: Sequence[DiffLine]) -> Iterator[DiffLine]:
    """Without the unchanged lines that are far from a change."""
    near = {
        at
        for number, line in enumerate(lines)
        if not line.same
        for at in range(number - AROUND, number + AROUND + 1)
    }
    left_out = 0
    for number, line in enumerate(lines):
        if number in near:
            if left_out:
                yield DiffLine(folded=left_out)
            left_out = 0
            yield line
        else:
            left_out += 1
    if left_out:
        yield DiffLine(folded=left_out)


def as_text(before: str, after: str) -> str:
    """The changed lines with `-` and `+`, for programs and mail."""
    out = []
    for line in compare(before, after):
        if line.folded:
            out.append(f"… {line.folded} unchanged line{'s' if line.folded > 1 else ''}")
        elif line.same and line.old is not None:
            out.append("  " + "".join(part.text for part in line.old))
        else:
            out += [
                mark + "".join(part.text for part in side)
                for mark, side in (("- ", line.old), ("+ ", line.new))
                if side is not None
            ]
    return "\n".join(out)
