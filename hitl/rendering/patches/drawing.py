"""The lines of a file's part as HTML, unified or with both sides next to each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

from django.utils.safestring import SafeString, mark_safe

from checkpoints.text import invisible
from hitl.rendering import word_diff
from hitl.rendering.patches import colours
from hitl.rendering.patches.colours import Stretch
from hitl.rendering.patches.reading import FileDiff, PatchRow
from hitl.rendering.word_diff import DiffPart
from hitl.rendering.work import Work, WorkSpent
from runs import limits

MARKS = {"removed": "del", "added": "ins"}


class Look(NamedTuple):
    """How a reader wishes to see patches."""

    split: bool = False
    wrap: bool = True
    spaces: bool = True
    """Whether changes of white space are shown, too."""


@dataclass
class Drawing:
    """What one drawing of rows knows besides them, and what it may still look at."""

    look: Look
    words: Work = field(default_factory=lambda: Work(limits.PATCH_WORDS))
    colours: Work = field(default_factory=lambda: Work(limits.COLOUR_WORK))

    def html(self, file: FileDiff, begin: int = 0, end: int | None = None) -> SafeString:
        """The rows of a file from one number to another."""
        rows = file.rows[begin:end]
        inside = _Inside(rows, self._coloured(file.path, rows))
        pieces = []
        for run in _runs(rows):
            if isinstance(run, PatchRow):
                pieces.append(
                    self._beside(run, run, inside)
                    if self.look.split
                    else _line(run, inside.html(run))
                )
                continue
            gone, come = run
            inside.mark(gone, come, self.words)
            pieces += self._changed(gone, come, inside)
        return mark_safe("".join(pieces))  # noqa: S308  # each piece is escaped

    def _changed(
        self, gone: list[PatchRow], come: list[PatchRow], inside: _Inside
    ) -> Iterator[str]:
        for same, before, after in self._apart(gone, come):
            if same:
                yield from (
                    self._spaces(old, new, inside) for old, new in zip(before, after, strict=True)
                )
            elif self.look.split:
                yield from (
                    self._beside(old, new, inside) for old, new in zip_longest(before, after)
                )
            else:
                yield from (_line(row, inside.html(row)) for row in [*before, *after])

    def _apart(
        self, gone: list[PatchRow], come: list[PatchRow]
    ) -> Sequence[tuple[bool, Sequence[PatchRow], Sequence[PatchRow]]]:
        """What was taken out and put in, and whether it differs in white space only."""
        if self.look.spaces or not gone or not come:
            return [(False, gone, come)]
        keys = [["".join(row.text.split()) for row in rows] for rows in (gone, come)]
        try:
            alike = word_diff.stretches(keys[0], keys[1], self.words)
        except WorkSpent:
            return [(False, gone, come)]
        found, old, new = [], 0, 0
        for same, before, after in alike:
            found.append((same, gone[old : old + len(before)], come[new : new + len(after)]))
            old, new = old + len(before), new + len(after)
        return found

    def _spaces(self, old: PatchRow, new: PatchRow, inside: _Inside) -> str:
        """A line that differs in white space only, as it is now."""
        row = PatchRow("same spaces", new.text, old.old, new.new)
        return (
            self._beside(row, row, inside, new) if self.look.split else _line(row, inside.html(new))
        )

    def _beside(
        self,
        old: PatchRow | None,
        new: PatchRow | None,
        inside: _Inside,
        text: PatchRow | None = None,
    ) -> str:
        if old is not None and old.old is None and old.new is None:
            return _line(old, inside.html(old))  # a heading over both
        return "".join(
            _cell(row, side, inside.html(text or row)) if row else '<span class="gap"></span>'
            for row, side in ((old, "old"), (new, "new"))
        )

    def _coloured(self, path: str, rows: Sequence[PatchRow]) -> dict[int, list[Stretch]]:
        """Row → its colours: either side is read as the code that it was."""
        found: dict[int, list[Stretch]] = {}
        for hunk in _hunks(rows):
            for side, shown in (("del", {"del"}), ("add", {"add", "same"})):
                code = [row for row in hunk if row.kind in {side, "same"}]
                while code and code[-1].kind not in shown:
                    code.pop()  # nothing before it depends on it
                if code:
                    stretches = colours.of(path, [row.text for row in code], self.colours)
                    each = zip(code, stretches, strict=True)
                    found |= {id(row): one for row, one in each if one and row.kind in shown}
        return found


def _hunks(rows: Sequence[PatchRow]) -> Iterator[list[PatchRow]]:
    """Lines of code that follow each other."""
    code: list[PatchRow] = []
    for row in rows:
        if row.kind in {"hunk", "head"}:
            yield code
            code = []
        else:
            code.append(row)
    yield code


class _Inside:
    """What stands in rows: their words that changed, and their colours."""

    def __init__(self, rows: Sequence[PatchRow], coloured: dict[int, list[Stretch]]) -> None:
        self.coloured = coloured
        self.parts: dict[int, Sequence[DiffPart]] = {}

    def mark(self, gone: Sequence[PatchRow], come: Sequence[PatchRow], work: Work) -> None:
        """Find the words that changed in lines of which as many came as went."""
        if len(gone) != len(come):
            return
        for old, new in zip(gone, come, strict=True):
            before, after = word_diff.words(old.text, new.text, work)
            if any(part.kind == "same" and part.text.strip() for part in before):
                self.parts[id(old)], self.parts[id(new)] = before, after

    def html(self, row: PatchRow) -> str:
        stretches = self.coloured.get(id(row), [])
        parts = self.parts.get(id(row))
        if parts is None:
            return _pieces(row.text, 0, stretches)
        pieces, at = [], 0
        for part in parts:
            piece = _pieces(part.text, at, stretches)
            mark = MARKS.get(part.kind)
            pieces.append(f"<{mark}>{piece}</{mark}>" if mark else piece)
            at += len(part.text)
        return "".join(pieces)


def _pieces(text: str, begin: int, stretches: Sequence[Stretch]) -> str:
    """A text that begins somewhere in its line, with the line's colours."""
    pieces: list[str] = []
    done, end = begin, begin + len(text)
    for left, right, name in stretches:
        left, right = left if left > done else done, right if right < end else end
        if left >= right:
            continue
        if done < left:
            pieces.append(invisible.html(text[done - begin : left - begin]))
        inside = invisible.html(text[left - begin : right - begin])
        pieces.append(f'<i class="{name}">{inside}</i>')
        done = right
    if done < end:
        pieces.append(invisible.html(text[done - begin :]))
    return "".join(pieces)


def _runs(rows: Sequence[PatchRow]) -> Iterator[PatchRow | tuple[list[PatchRow], list[PatchRow]]]:
    """Rows that stay, and between them those that were taken out with those that were put in for
    them.
    """
    gone: list[PatchRow] = []
    come: list[PatchRow] = []
    for row in rows:
        if row.kind == "del" and not come:
            gone.append(row)
            continue
        if row.kind == "add":
            come.append(row)
            continue
        if gone or come:
            yield gone, come
            gone, come = [], []
        if row.kind == "del":
            gone.append(row)
        else:
            yield row
    if gone or come:
        yield gone, come


def _line(row: PatchRow, inside: str) -> str:
    if row.old is None and row.new is None:
        return f'<span class="{row.kind}">{inside}</span>'
    numbers = f"{row.old or '':>4} {row.new or '':>4}"
    at = f"old:{row.old}" if row.new is None else f"new:{row.new}"
    return f'<span class="{row.kind}" data-n="{numbers}" data-at="{at}">{inside}</span>'


def _cell(row: PatchRow, side: str, inside: str) -> str:
    number = row.old if side == "old" else row.new
    return (
        f'<span class="{row.kind}" data-n="{number or 0:>4}" data-at="{side}:{number}">'
        f"{inside}</span>"
    )
