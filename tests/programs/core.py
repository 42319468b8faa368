"""`python -m tests.programs.core`: the core alone starts, migrates, orders, asks, goes on and shows
its pages, and imports no module of an extension. In `make check`.
"""

from __future__ import annotations

import os
import sys
import tempfile

import django
from django.core.management import call_command
from django.test import Client

from tests.programs import order

PAGES = (
    "", "work-orders/", "work-orders/new", "templates/", "threads/", "schedules/", "schedules/new",
    "operations/", "decisions/", "inbound/", "admin/", "api/v1/templates/workflows",
)  # fmt: skip


def main() -> list[str]:
    """Give the modules of extensions that were imported."""
    django.setup()
    call_command("check")
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
    call_command("migrate", verbosity=0)
    from project import asgi

    assert not asgi.doors
    order.take_to_its_end()
    look_around()
    return sorted(name for name in sys.modules if name.partition(".")[0] == "extensions")


def look_around() -> None:
    """Open pages that show what there is."""
    from checkpoints.database.people import User

    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.create_superuser("ada", "ada@example.org", "long and odd"))
    for page in PAGES:
        assert (answer := client.get(f"/{page}")).status_code == 200, (page, answer)


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
