"""Whether files of the workflows that are loaded have changed, for a server that is tried out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings

from checkpoints import extension
from runs.definitions import loading
from runs.definitions.loading import Declared

SECONDS = 60.0
"""What loading changed files may take, until they count as broken."""
Seen = dict[Path, tuple[int, int]]


def authors() -> list[Declared]:
    """The workflows that no extension brings along."""
    return [one for one in loading.declared(loading.modules())[1] if _is_authors(one.file)]


def _is_authors(file: Path) -> bool:
    """Whether a file is no extension's: those change with a new version alone."""
    return not any(file.is_relative_to(one.path) for one in extension.installed())


def groups() -> set[str]:
    """Groups of people that the review rules of the authors' workflows name."""
    kinds, found = loading.declared(loading.modules())
    mine = [one.fields for one in (*kinds, *found) if _is_authors(one.file)]
    return set(_named(mine, within=False))


def _named(part: Any, *, within: bool) -> Iterator[str]:
    """Names of groups in a declaration; `within` review rules."""
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
    """When each file of the authors' was changed, and how long it is."""
    found: Seen = {}
    for root in dict.fromkeys(_roots()):
        for path in [root] if root.is_file() else root.rglob("*.py"):
            if path.name.startswith("test_"):
                continue
            try:
                about = path.stat()
            except OSError:  # it has gone meanwhile
                continue
            found[path] = (about.st_mtime_ns, about.st_size)
    return found


def _roots() -> Iterator[Path]:
    yield from loading.folders()
    for entry in loading.entries():
        path = Path(getattr(sys.modules.get(entry), "__file__", None) or "").resolve()
        if path.is_file() and _is_authors(path):
            yield path.parent if path.name == "__init__.py" else path


def broken() -> str:
    """What keeps the files as they are now from being loaded; "" where nothing does.

    A process of its own finds out, so that this one keeps what it has.
    """
    command = [sys.executable, "manage.py", "load_templates", "--check"]
    process = subprocess.Popen(
        command,
        cwd=settings.BASE_DIR,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, told = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        _, told = process.communicate()
    if process.returncode == 0:
        return ""
    words = (told.strip().splitlines() or ["The check of the new files ended without a word."])[-1]
    return words.removeprefix("Waystation cannot start: ")
