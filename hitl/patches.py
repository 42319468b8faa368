"""A unified diff as rows that a template can show."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_LINES = 2_000
"""Lines shown on the page; the whole patch is one click away."""


@dataclass
class FileDiff:
    path: str
    added: int = 0
    removed: int = 0
    lines: list[tuple[str, str]] = field(default_factory=list)
    """(kind, text): kind is `add`, `del`, `hunk` or `same`."""


def parse(patch: str) -> tuple[list[FileDiff], int]:
    """The patch by file, and how many of its lines are left out because it is too long to show."""
    files: list[FileDiff] = []
    shown = hidden = 0
    in_hunk = False
    for line in patch.splitlines():
        if line.startswith("diff --git "):
            files.append(FileDiff(path=_path(line)))
            in_hunk = False
            continue
        if not files:
            continue
        if line.startswith("@@"):
            in_hunk = True
        if not in_hunk:
            continue
        kind = {"+": "add", "-": "del", "@": "hunk"}.get(line[:1], "same")
        files[-1].added += kind == "add"
        files[-1].removed += kind == "del"
        if shown < MAX_LINES:
            files[-1].lines.append((kind, line if kind == "hunk" else line[1:]))
            shown += 1
        else:
            hidden += 1
    return files, hidden


def _path(line: str) -> str:
    """The path after `b/` in `diff --git a/x b/x`; quoted where git quotes it."""
    _, _, after = line.partition(" b/")
    return after or line.rpartition(' "b/')[2].rstrip('"')
