"""`python -m tests.programs.core`: the core alone starts, migrates, orders, asks, goes on and shows
its pages, and imports no module of an extension. In `make check`.

With `--tests`, and files or folders of tests where not all are meant, it runs the tests that need
no extension, with all of them switched off.
"""

from __future__ import annotations

import ast
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import django
from django.core.management import call_command
from django.test import Client

from tests.programs import order

PAGES = (
    "", "work-orders/", "work-orders/new", "templates/", "threads/", "schedules/", "schedules/new",
    "operations/", "decisions/", "inbound/", "notifications/", "admin/",
    "api/v1/templates/workflows",
)  # fmt: skip


def main() -> list[str]:
    """Give the modules of extensions that were imported."""
    django.setup()
    call_command("check")
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
    call_command("migrate", verbosity=0)
    from hitl.host import asgi

    assert not asgi.doors
    order.take_to_its_end()
    look_around()
    return sorted(name for name in sys.modules if name.partition(".")[0] == "extensions")


def tests_of_core(places: Sequence[str]) -> list[str]:
    """Give the files of tests at these places that import no extension, whatever comes between."""
    asked = [Path(place) for place in places or ["tests"]]
    known = _imports()
    return [
        str(path)
        for path in sorted(path for place in asked for path in _files(place))
        if path.parts[:2] != ("tests", "extensions") and not _reaches(_name(path), known)
    ]


def _files(place: Path) -> Iterator[Path]:
    yield from [place] if place.is_file() else place.rglob("test_*.py")


def _name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


@cache
def _imports() -> Mapping[str, set[str]]:
    """Module of tests → what it imports, by any statement in it."""
    return {_name(path): set(_imported(path)) for path in Path("tests").rglob("*.py")}


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _reaches(module: str, known: Mapping[str, set[str]]) -> bool:
    """Whether a module of tests imports an extension, or another module of tests that does."""
    seen, left = {module}, [module]
    while left:
        for name in known.get(left.pop(), set()) - seen:
            if name.partition(".")[0] == "extensions":
                return True
            seen.add(name)
            left.append(name)
    return False


def look_around() -> None:
    """Open pages that show what there is."""
    from checkpoints.database.people import User

    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.create_superuser("ada", "ada@example.org", "long and odd"))
    for page in PAGES:
        assert (answer := client.get(f"/{page}")).status_code == 200, (page, answer)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--tests"]:
        from tests import run

        os.environ["WAYSTATION_EXTENSIONS"] = ""
        sys.exit(run.main(tests_of_core(sys.argv[2:])))
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("DATABASE_URL", None)
        os.environ.update(
            DJANGO_SETTINGS_MODULE="project.settings",
            WAYSTATION_EXTENSIONS="",
            WAYSTATION_DATA=folder,
        )
        if found := main():
            sys.exit(f"The core imported {', '.join(found)}.")
