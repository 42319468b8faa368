"""`python -m tests.programs.core`: the core alone starts, migrates, orders, asks and goes on, and
imports no module of an extension. In `make check`.
"""

from __future__ import annotations

import os
import sys
import tempfile

import django
from django.core.management import call_command

from tests.programs import order


def main() -> list[str]:
    """Give the modules of extensions that were imported."""
    django.setup()
    call_command("check")
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
    call_command("migrate", verbosity=0)
    from project import asgi

    assert not asgi.doors
    order.take_to_its_end()
    return sorted(name for name in sys.modules if name.partition(".")[0] == "extensions")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("DATABASE_URL", None)
        os.environ.update(
            DJANGO_SETTINGS_MODULE="project.settings",
            WAYSTATION_EXTENSIONS="",
            WAYSTATION_DATA=folder,
        )
        if found := main():
            sys.exit(f"The core imported {', '.join(found)}.")
