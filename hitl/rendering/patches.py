"""A unified diff as rows that a template can show, none of its lines left out.

A line ends at `\\n` and nowhere else, and how many lines a hunk has is what its `@@` says: so no
text inside a file can pass for the end of a hunk or for another file. Where the patch is not what
git writes, the reading says so, and the page shows the patch as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from checkpoints.text import invisible
from hitl.rendering import word_diff
from hitl.rendering.word_diff import DiffPart
from hitl.rendering.work import Work
from runs import limits

MAX_LINES = 2_000
"""Lines shown on the page; the whole patch is one click away."""
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
MARKS = {"removed": "del", "added": "ins"}
HEADER = re.compile(
    r"(index|old mode|new mode|deleted file mode|new file mode|(dis)?similarity index|rename "
    r"(from|to)|copy (from|to)|---|\+\+\+) "
    r"|Binary files .* differ$|GIT binary patch$"
)
BINARY = re.compile(r"((literal|delta) \d+|[A-Za-z][!-~]*|)$")
"""What follows `GIT binary patch`."""
NOTE = re.compile(r"(# .*)?$")
"""What `runs.workflows.patches.cut_patch` writes below a patch that it cuts."""


@dataclass
class PatchRow:
    """A line of a file's part, with the numbers that it has before and after; None where it is not
    there.
    """

    kind: str
    parts: Sequence[DiffPart]
    old: int | None = None
    new: int | None = None

    @property
    def html(self) -> SafeString:
        """Each row once in Python: a patch has up to `MAX_LINES`."""
        inside = mark_safe(  # noqa: S308  # each part is escaped
            "".join(
                f"<{mark}>{invisible.html(part.text)}</{mark}>"
                if (mark := MARKS.get(part.kind))
                else invisible.html(part.text)
                for part in self.parts
            )
        )
        if self.old is None and self.new is None:
            return format_html('<span class="{}">{}</span>', self.kind, inside)
        numbers = f"{self.old or '':>4} {self.new or '':>4}"
        at = f"old:{self.old}" if self.new is None else f"new:{self.new}"
        form = '<span class="{}" data-n="{}" data-at="{}">{}</span>'
        return format_html(form, self.kind, numbers, at, inside)


@dataclass
class FileDiff:
    path: str
    added: int = 0
    removed: int = 0
    lines: list[tuple[str, str]] = field(default_factory=list)
    """(kind, text): kind is `head`, `hunk`, `add`, `del`, `same` or `note`; of `add`, `del` and
    `same` without the sign they begin with.
    """
    hidden: int = 0
    """Lines that are left out because the patch is too long to show."""
    work: Work = field(default_factory=lambda: Work(limits.DIFF_WORK))
    """What the comparison of changed lines may still look at."""

    seen: bool = False
    """Whether whoever looks has ticked it as seen."""

    @cached_property
    def digest(self) -> str:
        """Of its lines as they are shown, so that the same part of a later patch has the same."""
        text = "\n".join(f"{kind} {line}" for kind, line in self.lines)
        whole = f"{self.path}\n{self.hidden}\n{text}"
        # bytes that are no text stand in it as surrogates
        return hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()

    def has(self, side: str, line: int) -> bool:
        """Whether the page shows that line, counted before the change or after it."""
        return any((row.old if side == "old" else row.new) == line for row in self.rows)

    @cached_property
    def rows(self) -> list[PatchRow]:
        """The lines with their numbers; those that replace each other with the words marked."""
        rows: list[PatchRow] = []
        old = new = 0
        for kind, text in self.lines:
            row = PatchRow(kind, [DiffPart("same", text)])
            if kind == "hunk" and (hunk := HUNK.match(text)):
                old, new = int(hunk[1]), int(hunk[3])
            if kind in {"del", "same"}:
                row.old, old = old, old + 1
            if kind in {"add", "same"}:
                row.new, new = new, new + 1
            rows.append(row)
        for gone, come in _replaced(rows):
            before, after = word_diff.words(gone.parts[0].text, come.parts[0].text, self.work)
            if any(part.kind == "same" and part.text.strip() for part in before):
                gone.parts, come.parts = before, after
        return rows

    @property
    def html(self) -> SafeString:
        return mark_safe("".join(row.html for row in self.rows))  # noqa: S308  # safe, each of them


def _replaced(rows: Sequence[PatchRow]) -> Iterator[tuple[PatchRow, PatchRow]]:
    """Lines that were taken out, each with the one that was put in for it, in their order."""
    gone: list[PatchRow] = []
    come: list[PatchRow] = []
    for row in [*rows, PatchRow("end", [])]:
        if row.kind == "add" and gone:
            come.append(row)
            continue
        if row.kind != "del" or come:
            if len(gone) == len(come):
                yield from zip(gone, come, strict=True)
            gone, come = [], []
        if row.kind == "del":
            gone.append(row)


@dataclass
class ReadPatch:
    """A patch, read.

    Each line of it is in `files` or their `hidden`; where there is a `problem`, in `raw` or
    `raw_hidden`.
    """

    files: list[FileDiff] = field(default_factory=list)
    problem: str = ""
    """Where the patch is not what git writes; "" where it is."""
    raw: list[str] = field(default_factory=list)
    raw_hidden: int = 0

    @property
    def seen(self) -> int:
        """How many of the files were ticked as seen."""
        return sum(file.seen for file in self.files)

    @property
    def hidden(self) -> int:
        return sum(file.hidden for file in self.files)


def parse(patch: str) -> ReadPatch:
    """The patch by file."""
    lines = invisible.lines_of(patch)
    reading, work = ReadPatch(), Work(limits.DIFF_WORK)
    room = MAX_LINES
    for number, (kind, line, fault) in enumerate(_kinds(lines), start=1):
        if fault and not reading.problem:
            reading.problem = f"Line {number} of the patch {fault}."
        if kind == "file":
            reading.files.append(FileDiff(path=_path(line), work=work))
            kind = "head"
        elif not reading.files:
            continue  # a fault: the patch is shown as it is
        file = reading.files[-1]
        if kind == "head" and (named := _named(line)) and named != file.path:
            reading.problem = reading.problem or (
                f"Line {number} of the patch names another file than the line that its part "
                "begins with."
            )
        file.added += kind == "add"
        file.removed += kind == "del"
        if room:
            room -= 1
            file.lines.append((kind, line[1:] if kind in {"add", "del", "same"} else line))
        else:
            file.hidden += 1
    if reading.problem:
        reading.raw, reading.raw_hidden = lines[:MAX_LINES], max(0, len(lines) - MAX_LINES)
    return reading


def _kinds(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """(kind, line, what is wrong with it) of each line; a line that should not be there is a
    `note`.
    """
    old = new = 0  # lines that the hunk still has
    place = "before"  # or "head", "binary", "hunks"
    for line in lines:
        sign = line[:1]
        if old or new:
            missing = (sign in "- " and not old) or (sign in "+ " and not new)
            if sign == "" or sign not in "+- \\" or missing:
                old = new = 0
                place = "hunks"
                fault = (
                    "stands where its hunk should go on: the hunk has other lines than its @@ says"
                )
                kind = "file" if line.startswith("diff --git ") else "note"
                yield kind, line, fault
                continue
            old -= sign in "- "
            new -= sign in "+ "
            yield {"+": "add", "-": "del", " ": "same"}.get(sign, "note"), line, ""
        elif line.startswith("diff --git "):
            place = "head"
            yield "file", line, ""
        elif place == "before":
            yield "note", line, "stands before the first file"
        elif hunk := HUNK.match(line):
            old, new = (int(count) if count is not None else 1 for count in hunk.group(2, 4))
            yield "hunk", line, "begins a hunk within binary content" if place == "binary" else ""
            place = "hunks"
        elif place == "head" and HEADER.match(line):
            place = "binary" if line == "GIT binary patch" else place
            yield "head", line, ""
        elif place == "binary" and BINARY.match(line):
            yield "head", line, ""
        elif (place == "hunks" and line.startswith("\\ ")) or NOTE.match(line):
            yield "note", line, ""
        else:
            yield "note", line, "belongs to no hunk and is no header that git writes"
    if old or new:
        yield "note", "", "is missing: the last hunk has fewer lines than its @@ says"


def _path(line: str) -> str:
    """The path after `b/` in `diff --git a/x b/x`; as git quotes it where git does.

    The two are the same but for a rename.
    """
    rest = line.removeprefix("diff --git ")
    half = rest[: len(rest) // 2]
    for begin, ours in (("a/", "b/"), ('"a/', '"b/')):
        if half.startswith(begin) and rest == f"{half} {ours}{half.removeprefix(begin)}":
            return half.removeprefix(begin).rstrip('"')
    _, _, after = rest.rpartition(" b/")
    return after or rest.rpartition(' "b/')[2].rstrip('"')


def _named(line: str) -> str:
    """The path that a line of a header names, as the file is called afterwards; "" where it names
    none.
    """
    for begin in ("+++ b/", '+++ "b/', "rename to ", "copy to ", 'rename to "', 'copy to "'):
        if line.startswith(begin) and not line.startswith(f'{begin}"'):
            return (
                line.removeprefix(begin)
                .removesuffix("\t")
                .removesuffix('"' if begin.endswith(('"b/', '"')) else "")
            )
    return ""
