"""The rules of the house for templates and their stylesheets: a line can be read without scrolling,
and compared; a class means one thing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

LONGEST = 140
FOLDERS = ("templates", "extensions")
OF_A_CLASS = re.compile(r"^(\.[\w-]+) \{")


def problems(root: Path) -> Iterator[str]:
    """Lines of HTML templates that are too long, and classes of stylesheets that have two rules,
    with their places.
    """
    for path in sorted((root / "static" / "css").glob("*.css")):
        yield from _said_twice(path)
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


def _said_twice(path: Path) -> Iterator[str]:
    """What is named alike in two places of a sheet is given the looks of the other as well."""
    first: dict[str, int] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        found = OF_A_CLASS.match(line)
        if found and first.setdefault(found[1], number) != number:
            yield (
                f"static/css/{path.name}:{number}: {found[1]} has a rule in line"
                f" {first[found[1]]} already. Give one of the two another name, or write one rule."
            )
