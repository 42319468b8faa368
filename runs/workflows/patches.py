"""What changed in a work tree: its paths, its numbers, and its patch as long as a page can show
it.
"""

from __future__ import annotations

from typing import TypedDict

from runs.workflows.base import Workspace
from runs.workflows.text import code, count


def changed_paths(workspace: Workspace) -> list[str]:
    """Everything that differs from the commit, untracked files included."""
    entries = workspace.git(
        "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"
    ).split("\0")
    return sorted(entry[3:] for entry in entries if entry)


LONGEST_PATCH = 1_000_000


class Numbers(TypedDict):
    files: int
    added: int
    removed: int
    lines: list[str]  # one for each file


def cut_patch(patch: str) -> str:
    """The patch, or as many whole files of it as fit, with a note on what is missing."""
    if len(patch) <= LONGEST_PATCH:
        return patch
    end = patch.rfind("\ndiff --git ", 0, LONGEST_PATCH) + 1 or LONGEST_PATCH
    missing = patch.count("\ndiff --git ", max(end - 1, 0))
    note = (
        f"# The patch is cut here: {end:,} of {len(patch):,} characters are shown, "
        f"{count(missing, 'file')} are missing."
    )
    return f"{patch[:end]}\n{note} Look at the branch for the rest.\n"


def read_numstat(text: str) -> Numbers:
    """From `git diff --numstat -z`."""
    numbers = Numbers(files=0, added=0, removed=0, lines=[])
    for entry in text.split("\0"):
        added, _, rest = entry.partition("\t")
        removed, _, path = rest.partition("\t")
        if path:
            numbers["files"] += 1
            numbers["added"] += int(added) if added.isdigit() else 0  # "-" for a binary file
            numbers["removed"] += int(removed) if removed.isdigit() else 0
            numbers["lines"].append(f"- {code(path)} +{added} −{removed}")
    return numbers
