"""Django's admin, whose pages are read with the addresses: processes that serve none, as workers,
start without them in four fifths of the time.
"""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.contrib import admin
from django.contrib.admin import sites
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks
from django.http import HttpRequest
from django.urls import get_script_prefix
from django.utils import translation
from unfold.sites import UnfoldAdminSite

MOST_MENUS = 100
"""Menus that a process keeps: one for each language and set of rights."""


class DeskConfig(SimpleAdminConfig):
    """Stands for "django.contrib.admin" in `INSTALLED_APPS`; `project.urls` reads the pages."""

    def ready(self) -> None:
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(_check_pages, checks.Tags.admin)


def _check_pages(**given: Any) -> list[checks.CheckMessage]:
    admin.autodiscover()
    found: list[checks.CheckMessage] = check_admin_app(**given)
    return found


class DeskSite(UnfoldAdminSite):
    """Unfold's, whose menu is made once for all with the same rights: what each model allows, and
    their names in order, are a fifth of a page.
    """

    _menus: dict[Any, list[dict[str, Any]]] = {}

    def get_app_list(
        self, request: HttpRequest, app_label: str | None = None
    ) -> list[dict[str, Any]]:
        user: Any = request.user
        rights = user.is_superuser or frozenset(user.get_all_permissions())
        language, prefix = translation.get_language(), get_script_prefix()
        key = (len(self._registry), app_label, user.is_active, rights, language, prefix)
        if (menu := self._menus.get(key)) is None:
            if len(self._menus) >= MOST_MENUS:
                self._menus.clear()
            menu = self._menus[key] = super().get_app_list(request, app_label)
            for model in (model for app in menu for model in app["models"]):
                model["name"] = str(model["name"])  # else it is translated at each look
        return [{**app, "models": [*app["models"]]} for app in menu]  # which its search cuts


class Theme(AppConfig):
    """Stands for "unfold" in `INSTALLED_APPS`: its pages, on our site."""

    name = "unfold"

    def ready(self) -> None:
        admin.site = sites.site = DeskSite()
