"""A unified diff as rows that a template can show, none of its lines left out.

A line ends at `\\n` and nowhere else, and how many lines a hunk has is what its `@@` says: so no
text inside a file can pass for the end of a hunk or for another file. Where the patch is not what
git writes, the reading says so, and the page shows the patch as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from checkpoints.text import invisible

MAX_LINES = 2_000
"""Lines shown on the page; the whole patch is one click away."""
HUNK = re.compile(r"@@ -(?:\d+)(?:,(\d+))? \+(?:\d+)(?:,(\d+))? @@")
HEADER = re.compile(
    r"(index|old mode|new mode|deleted file mode|new file mode|(dis)?similarity index|rename "
    r"(from|to)|copy (from|to)|---|\+\+\+) "
    r"|Binary files .* differ$|GIT binary patch$"
)
BINARY = re.compile(r"((literal|delta) \d+|[A-Za-z][!-~]*|)$")
"""What follows `GIT binary patch`."""
NOTE = re.compile(r"(# .*)?$")
"""What `runs.contrib.repo_tidy.report.cut_patch` writes below a patch that it cuts."""


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
    def hidden(self) -> int:
        return sum(file.hidden for file in self.files)


def parse(patch: str) -> ReadPatch:
    """The patch by file."""
    lines = invisible.lines_of(patch)
    reading = ReadPatch()
    room = MAX_LINES
    for number, (kind, line, fault) in enumerate(_kinds(lines), start=1):
        if fault and not reading.problem:
            reading.problem = f"Line {number} of the patch {fault}."
        if kind == "file":
            reading.files.append(FileDiff(path=_path(line)))
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
            old, new = (int(count) if count is not None else 1 for count in hunk.groups())
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
