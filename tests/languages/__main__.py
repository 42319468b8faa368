"""`python -m tests.languages`: write the marked texts of the sources into the catalogues.

With `--check`, part of `make check`, it only says what is missing.
"""

from __future__ import annotations

import os
import sys

import django


def main(arguments: list[str]) -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    from tests.languages import catalogues

    if "--check" not in arguments:
        catalogues.write()
    problems = catalogues.problems()
    for line in problems:
        print(line, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
