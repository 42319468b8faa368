"""The rule of the house for templates: a line can be read without scrolling, and compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

LONGEST = 140
FOLDERS = ("templates", "extensions")


def problems(root: Path) -> Iterator[str]:
    """Lines of HTML templates that are too long, with their places."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.html")):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                if len(line) > LONGEST:
                    yield (
                        f"{path.relative_to(root).as_posix()}:{number}: {len(line)} characters; a"
                        f" line of a template has at most {LONGEST}. Give each element, block tag"
                        " and attribute a line of its own, and a long text `blocktranslate"
                        " trimmed`, or name a value before (`with`, `as`): see"
                        " docs/decisions/house.md."
                    )
