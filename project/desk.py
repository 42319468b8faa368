"""Django's admin, whose pages are read with the addresses: processes that serve none, as workers,
start without them in four fifths of the time.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks


class DeskConfig(SimpleAdminConfig):
    """Stands for "django.contrib.admin" in `INSTALLED_APPS`; `project.urls` reads the pages."""

    def ready(self) -> None:
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(_check_pages, checks.Tags.admin)


def _check_pages(**given: Any) -> list[checks.CheckMessage]:
    admin.autodiscover()
    found: list[checks.CheckMessage] = check_admin_app(**given)
    return found
