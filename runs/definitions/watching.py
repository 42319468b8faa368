"""Watch the files of the loaded workflows for changes, on a server that is being tried out."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from checkpoints import extension
from runs.definitions import loading
from runs.definitions.loading import Declared

Seen = dict[Path, tuple[int, int]]
"""File → when it was changed, in nanoseconds, and how many bytes it has."""


def authors() -> list[Declared]:
    """List the workflows that no extension brings along."""
    workflows = loading.declared(loading.modules())[1]
    return [workflow for workflow in workflows if _is_authors(workflow.file)]


def _is_authors(file: Path) -> bool:
    """Whether a file is not an extension's: an extension's change with a new version only."""
    return not any(file.is_relative_to(known.path) for known in extension.installed())


def groups() -> set[str]:
    """Find the groups of people that the review rules of the authors' workflows name."""
    kinds, workflows = loading.declared(loading.modules())
    fields = [each.fields for each in (*kinds, *workflows) if _is_authors(each.file)]
    return set(_named(fields, within=False))


def _named(part: Any, *, within: bool) -> Iterator[str]:
    """Find the names of groups in a part of a declaration; `within`: it lies in review rules."""
    if isinstance(part, Mapping):
        for key, value in part.items():
            if within and key == "groups":
                yield from value
            else:
                yield from _named(value, within=within or key == "review")
    elif isinstance(part, list | tuple):
        for item in part:
            yield from _named(item, within=within)


def look() -> Seen:
    """Read when each of the authors' files was changed, and its size."""
    seen: Seen = {}
    for root in dict.fromkeys(_roots()):
        for path in [root] if root.is_file() else root.rglob("*.py"):
            if path.name.startswith("test_"):
                continue
            try:
                status = path.stat()
            except OSError:  # it has gone meanwhile
                continue
            seen[path] = (status.st_mtime_ns, status.st_size)
    return seen


def _roots() -> Iterator[Path]:
    yield from loading.folders()
    for entry in loading.entries():
        path = Path(getattr(sys.modules.get(entry), "__file__", None) or "").resolve()
        if path.is_file() and _is_authors(path):
            yield path.parent if path.name == "__init__.py" else path
