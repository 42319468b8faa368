"""`python -m tests.house`, part of `make check`: the rules for documents, modules, prose and
templates.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.house import documents, modules, prose, templates

ROOT = Path(__file__).parents[2]


def main() -> int:
    subjects = (documents, modules, prose, templates)
    found = [line for subject in subjects for line in subject.problems(ROOT)]
    for line in found:
        print(line, file=sys.stderr)
    if found:
        print(f"{len(found)} rules of the house are broken.", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
