"""A unified diff by file, none of its lines left out.

A line ends at `\\n` and nowhere else, and how many lines a hunk has is what its `@@` says: so no
text inside a file can pass for the end of a hunk or for another file. What git, `diff -u` and
Python's `difflib` write is read; where a patch could be read otherwise than it is drawn, the
reading says so, and the page shows the patch as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from django.utils.translation import gettext, gettext_noop

from checkpoints.text import invisible

MAX_LINES = 20_000
"""Lines that the page has; the whole patch is one click away."""
MAX_RAW = 2_000
"""Lines shown of a patch that is shown as it is."""
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
HEADER = re.compile(
    r"(index|old mode|new mode|deleted file mode|new file mode|(dis)?similarity index|rename "
    r"(from|to)|copy (from|to)|---|\+\+\+) "
    r"|Binary files .* differ$|GIT binary patch$"
)
BINARY = re.compile(r"((literal|delta) \d+|[A-Za-z][!-~]*|)$")
"""What follows `GIT binary patch`."""
OF_HUNKS = {"+": "add", "-": "del", " ": "same", "\\": "note"}
"""The sign of a line → its kind."""
NOTE = re.compile(r"(# .*)?$")
"""What `runs.workflows.patches.cut_patch` writes below a patch that it cuts."""
GIT, NOTHING = "diff --git ", "/dev/null"
UNNAMED = "unnamed"
"""What a file is called that its patch gives no name, as `difflib` does unless it is told one."""
OTHER_NAME = gettext_noop("this line names another file than the header of its part")
COUNTS = gettext_noop("line counts don't match the hunk header")
TOO_EARLY = gettext_noop("this line stands before the first file")
IN_BINARY = gettext_noop("a hunk begins within binary content")
STRAY = gettext_noop("this line belongs to no hunk and is no header of a file")
"""What is wrong with a line."""


@dataclass
class PatchRow:
    """A line of a file's part, with the numbers that it has before and after; None where it is not
    there.
    """

    kind: str
    text: str
    old: int | None = None
    new: int | None = None


@dataclass
class FileDiff:
    path: str
    old_path: str = ""
    """What it was called before, where that is another name."""
    added: int = 0
    removed: int = 0
    lines: list[tuple[str, str]] = field(default_factory=list)
    """(kind, text): kind is `head`, `hunk`, `add`, `del`, `same` or `note`; of `add`, `del` and
    `same` without the sign they begin with.
    """
    hidden: int = 0
    """Lines that are left out because the patch is too long to show."""
    seen: bool = False
    """Whether whoever looks has ticked it as seen."""

    @property
    def name(self) -> str:
        """The path, with the one before where that is another."""
        return f"{self.old_path} → {self.path}" if self.old_path else self.path

    @cached_property
    def digest(self) -> str:
        """Of its lines as they are shown, so that the same part of a later patch has the same."""
        text = "\n".join([f"{kind} {line}" for kind, line in self.lines])
        whole = f"{self.path}\n{self.hidden}\n{text}"
        # bytes that are no text stand in it as surrogates
        return hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()

    def has(self, side: str, line: int) -> bool:
        """Whether the page shows that line, counted before the change or after it."""
        return any((row.old if side == "old" else row.new) == line for row in self.rows)

    @cached_property
    def rows(self) -> list[PatchRow]:
        """The lines with their numbers."""
        rows: list[PatchRow] = []
        old = new = 0
        for kind, text in self.lines:
            row = PatchRow(kind, text)
            if kind == "hunk" and (hunk := HUNK.match(text)):
                old, new = int(hunk[1]), int(hunk[3])
            if kind in {"del", "same"}:
                row.old, old = old, old + 1
            if kind in {"add", "same"}:
                row.new, new = new, new + 1
            rows.append(row)
        return rows


@dataclass
class ReadPatch:
    """A patch, read.

    Each line of it is in `files` or their `hidden`; where there is a `problem`, in `raw` or
    `raw_hidden`.
    """

    files: list[FileDiff] = field(default_factory=list)
    problem: str = ""
    """Where the patch can be read otherwise than it would be drawn; "" where it cannot."""
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
    reading = ReadPatch()
    names = _Names()
    room = MAX_LINES
    for number, (kind, line, fault) in enumerate(_kinds(lines), start=1):
        if kind == "file":
            begins = lines[number - 1 : number + 2]
            names = _GitNames(line) if line.startswith(GIT) else _PlainNames(begins)
            reading.files.append(FileDiff(path=names.path))
            kind = "head"
        elif not reading.files:
            reading.problem = reading.problem or _problem(number, fault)
            continue  # the patch is shown as it is
        file = reading.files[-1]
        if kind == "head" and not fault and not names.fit(line):
            fault = OTHER_NAME
        file.old_path = names.before
        if fault and not reading.problem:
            reading.problem = _problem(number, fault)
        file.added += kind == "add"
        file.removed += kind == "del"
        if room:
            room -= 1
            file.lines.append((kind, line[1:] if kind in {"add", "del", "same"} else line))
        else:
            file.hidden += 1
    if reading.problem:
        reading.raw, reading.raw_hidden = lines[:MAX_RAW], max(0, len(lines) - MAX_RAW)
    return reading


def _problem(number: int, fault: str) -> str:
    return gettext("Line %(number)s: %(fault)s.") % {"number": number, "fault": gettext(fault)}


def _kinds(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """(kind, line, what is wrong with it) of each line; a line that should not be there is a
    `note`.
    """
    old = new = 0  # lines that the hunk still has
    place = "before"  # or "head", "binary", "hunks"
    for number, line in enumerate(lines):
        sign = line[:1]
        if old or new:
            missing = (sign in "- " and not old) or (sign in "+ " and not new)
            if sign == "" or sign not in "+- \\" or missing:
                old = new = 0
                place = "hunks"
                kind = "file" if line.startswith(GIT) else "note"
                yield kind, line, COUNTS
                continue
            old -= sign in "- "
            new -= sign in "+ "
            yield OF_HUNKS[sign], line, ""
        elif line.startswith(GIT) or (place in {"before", "hunks"} and _begins(lines, number)):
            place = "head"
            yield "file", line, ""
        elif place == "before":
            yield "note", line, TOO_EARLY
        elif hunk := HUNK.match(line):
            old, new = (int(count) if count is not None else 1 for count in hunk.group(2, 4))
            yield "hunk", line, IN_BINARY if place == "binary" else ""
            place = "hunks"
        elif place == "head" and HEADER.match(line):
            place = "binary" if line == "GIT binary patch" else place
            yield "head", line, ""
        elif place == "binary" and BINARY.match(line):
            yield "head", line, ""
        elif (place == "hunks" and line.startswith("\\ ")) or NOTE.match(line):
            yield "note", line, ""
        else:
            yield "note", line, STRAY
    if old or new:
        yield "note", "", COUNTS


def _begins(lines: Sequence[str], at: int) -> bool:
    """Whether the part of a file begins there as `diff -u` and `difflib` write it, with the command
    before it where several files were compared.
    """
    at += lines[at].startswith("diff -")
    names = lines[at : at + 3]
    return (
        len(names) == 3
        and names[0].startswith("--- ")
        and names[1].startswith("+++ ")
        and HUNK.match(names[2]) is not None
    )


class _Names:
    """The names of a file in the line that its part begins with, as git quotes them where git
    does.
    """

    path: str
    before: str = ""
    """What it was called before, where that is another name."""

    def fit(self, line: str) -> bool:
        """Whether a line of the header names the same file, or none."""
        return True


class _GitNames(_Names):
    """Of `diff --git a/x b/x`: the two are the same but for a rename."""

    def __init__(self, line: str) -> None:
        self.rest = line.removeprefix(GIT).removesuffix("\r")
        self.old, self.new = _halves(self.rest)
        self.path = _bare(self.new, self.old) if self.new else _after(self.rest)
        self.gone = ""

    def fit(self, line: str) -> bool:
        word, _, name = line.partition(" ")
        if word == "---":
            self.gone = _name(name)
            return not self.old or self.gone in {self.old, NOTHING}
        if word == "+++":
            come = _name(name)
            if self.old:
                return come in {self.new, NOTHING} and {come, self.gone} != {NOTHING}
            self.before = self.before or _bare(self.gone, come)
            return self.rest == f"{self.gone} {come}"
        if line.startswith(("rename from ", "copy from ")):
            self.before = line.partition(" from ")[2].strip('"')
        if line.startswith(("rename to ", "copy to ")):
            return line.partition(" to ")[2].strip('"') == self.path
        return True


class _PlainNames(_Names):
    """Of the lines `---` and `+++`, which alone name a file that is not git's."""

    def __init__(self, lines: Sequence[str]) -> None:
        at = not lines[0].startswith("--- ")
        old, new = (_name(line.partition(" ")[2]) for line in lines[at : at + 2])
        self.path = (_bare(new, old) if new != NOTHING else _bare(old, new)) or UNNAMED
        before = _bare(old, new)
        self.before = before if NOTHING not in {old, new} and before != self.path else ""


def _name(text: str) -> str:
    """The name in a line `---` or `+++`, without the time behind it."""
    return text.partition("\t")[0].removesuffix("\r")


def _halves(rest: str) -> tuple[str, str]:
    """The two names of `a/x b/x`; "" both where they differ in more than their first letter."""
    middle = len(rest) // 2
    old, gap, new = rest[:middle], rest[middle : middle + 1], rest[middle + 1 :]
    if gap == " " and (old == new or _bare(old, new) == _bare(new, old) != new.strip('"')):
        return old, new
    return "", ""


def _bare(name: str, other: str) -> str:
    """A name without the `a/` or `b/` that tells it from the other side's."""
    name, other = name.strip('"'), other.strip('"')
    told = other == NOTHING or (other[1:2] == "/" and other[:1] != name[:1])
    return name[2:] if name[1:2] == "/" and name[:1] in "abciow" and told else name


def _after(rest: str) -> str:
    """The path after `b/` where the two names are not the same."""
    _, _, after = rest.rpartition(" b/")
    return after or rest.rpartition(' "b/')[2].rstrip('"')
