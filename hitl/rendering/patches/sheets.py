"""A patch as a page lays it out: its tree of files, and of each file the lines that are drawn at
once; the rest is drawn where a reader comes near.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.utils.safestring import SafeString

from hitl.rendering.patches.drawing import Drawing, Look
from hitl.rendering.patches.reading import FileDiff, PatchRow, ReadPatch

DEEPEST = 6
"""Folders within each other that the tree moves in."""


class Room(NamedTuple):
    """Lines, and characters in them, that are drawn at once."""

    lines: int
    characters: int


FIRST, NEXT = Room(160, 20_000), Room(400, 60_000)


@dataclass
class FileSheet:
    """A file of a patch with lines of it."""

    number: int
    file: FileDiff
    html: SafeString
    end: int
    """How many of its rows stand before those that are not drawn."""

    @property
    def left(self) -> int:
        return len(self.file.lines) - self.end


class TreeRow(NamedTuple):
    """A folder, or a file with its number, as deep as it stands."""

    depth: int
    name: str
    sheet: FileSheet | None = None


@dataclass
class PatchSheet:
    """A patch as far as a page draws it."""

    look: Look
    files: list[FileSheet]

    @property
    def next(self) -> FileSheet | None:
        """The first file that its reader has not seen."""
        return next((sheet for sheet in self.files if not sheet.file.seen), None)

    @property
    def cut(self) -> bool:
        """Whether there are lines that it does not draw."""
        return any(sheet.left for sheet in self.files)

    @property
    def tree(self) -> list[TreeRow]:
        return list(_tree(self.files))


def draw(
    patch: ReadPatch, look: Look, *, whole: bool = False, only: int | None = None
) -> PatchSheet:
    """Lay out a patch, or one file of it, whole or with as many lines of files that were not seen
    as there is room for at first.
    """
    drawing, sheets, (lines, characters) = Drawing(look), [], FIRST
    for number, file in enumerate(patch.files):
        if only not in {None, number}:
            continue
        end = len(file.lines) if whole else 0
        if not whole and not file.seen and lines > 0:
            end = _end(file.rows, 0, Room(lines, characters))
            lines -= end
            characters -= sum(len(row.text) for row in file.rows[:end])
        html = drawing.html(file, 0, end) if end else SafeString()
        sheets.append(FileSheet(number, file, html, end))
    return PatchSheet(look, sheets)


def go_on(patch: ReadPatch, number: int, begin: int, look: Look) -> FileSheet:
    """Draw the next lines of a file, one at least. Raises IndexError where it has none there."""
    file = patch.files[number]
    if not 0 <= begin < len(file.lines):
        raise IndexError(begin)
    end = max(begin + 1, _end(file.rows, begin, NEXT))
    return FileSheet(number, file, Drawing(look).html(file, begin, end), end)


def _end(rows: Sequence[PatchRow], begin: int, room: Room) -> int:
    """Where the rows that there is room for end."""
    end, characters = begin, room.characters
    for row in rows[begin : begin + max(0, room.lines)]:
        characters -= len(row.text)
        if characters < 0:
            break
        end += 1
    return end


def _tree(sheets: Sequence[FileSheet]) -> Iterator[TreeRow]:
    """The files in the order of the patch, below the folders that they stand in; a folder without
    a file of its own shares a line with the next.
    """
    above: list[list[str]] = []
    for sheet in sheets:
        *folders, name = sheet.file.path.split("/")
        while above and above[-1] != folders[: len(above[-1])]:
            above.pop()
        if folders and (not above or above[-1] != folders):
            known = len(above[-1]) if above else 0
            yield TreeRow(min(len(above), DEEPEST), "/".join(folders[known:]))
            above.append(folders)
        yield TreeRow(min(len(above), DEEPEST), name, sheet)
