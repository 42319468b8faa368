"""What changed between two texts, word by word, for people: whole lines that stayed are folded, changed ones show the words that changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

AROUND = 2
"""Unchanged lines shown around a change."""
MOST = 20_000
"""Words of one changed stretch that are compared one by one; a longer one is shown as taken out and put in."""
WORDS = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True)
class Part:
    """A stretch of a line. `kind` is `same`, `added` or `removed`."""

    kind: str
    text: str


@dataclass(frozen=True)
class Line:
    """A line before and after; None where it is not there. `folded` counts unchanged lines that are left out instead."""

    old: Sequence[Part] | None = None
    new: Sequence[Part] | None = None
    folded: int = 0

    @property
    def same(self) -> bool:
        return self.old is not None and self.old == self.new


def compare(before: str, after: str) -> list[Line]:
    """The lines of both texts, side by side; empty where they are the same."""
    old, new = before.splitlines(), after.splitlines()
    if old == new:
        return []
    lines: list[Line] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [Line(same, same) for same in ([Part("same", line)] for line in old[i1:i2])]
        else:
            lines += _changed(old[i1:i2], new[j1:j2])
    return list(_folded(lines))


def _changed(old: Sequence[str], new: Sequence[str]) -> Iterator[Line]:
    """Lines that changed: paired in order, word by word; those without a counterpart as a whole."""
    if sum(map(len, old)) + sum(map(len, new)) > MOST * 5:
        yield from (Line(old=[Part("removed", line)]) for line in old)
        yield from (Line(new=[Part("added", line)]) for line in new)
        return
    for one, other in zip_longest(old, new):
        if one is None:
            yield Line(new=[Part("added", other)])
        elif other is None:
            yield Line(old=[Part("removed", one)])
        else:
            yield Line(*_words(one, other))


def _words(old: str, new: str) -> tuple[list[Part], list[Part]]:
    before, after = WORDS.findall(old), WORDS.findall(new)
    left: list[Part] = []
    right: list[Part] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        gone, come = "".join(before[i1:i2]), "".join(after[j1:j2])
        if gone:
            left.append(Part("same" if tag == "equal" else "removed", gone))
        if come:
            right.append(Part("same" if tag == "equal" else "added", come))
    return left, right


def _folded(lines: Sequence[Line]) -> Iterator[Line]:
    """Without the unchanged lines that are far from a change."""
    near = {at for number, line in enumerate(lines) if not line.same for at in range(number - AROUND, number + AROUND + 1)}
    left_out = 0
    for number, line in enumerate(lines):
        if number in near:
            if left_out:
                yield Line(folded=left_out)
            left_out = 0
            yield line
        else:
            left_out += 1
    if left_out:
        yield Line(folded=left_out)


def as_text(before: str, after: str) -> str:
    """The changed lines with `-` and `+`, for programs and mail."""
    out = []
    for line in compare(before, after):
        if line.folded:
            out.append(f"… {line.folded} unchanged line{'s' if line.folded > 1 else ''}")
        elif line.same and line.old is not None:
            out.append("  " + "".join(part.text for part in line.old))
        else:
            out += [mark + "".join(part.text for part in side) for mark, side in (("- ", line.old), ("+ ", line.new)) if side is not None]
    return "\n".join(out)
