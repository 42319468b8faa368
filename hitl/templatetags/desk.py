"""The menu of the admin: forty lines on each page, as Unfold writes them, once in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()

APP = (
    '<div class="module{}"><ol class="px-6"><li><h2><a href="{}" class="block font-semibold mb-2 '
    'mt-4 text-font-important-light text-sm truncate dark:text-font-important-dark">{}</a></h2>'
    '<ol class="flex flex-col gap-0.5">{}</ol></li></ol></div>'
)
MODEL = (
    '<li class="{}"><a href="{}" class="flex items-center h-[38px] -mx-3 px-3 rounded-default '
    'truncate hover:text-primary-600 dark:hover:text-primary-500{}">{}</a></li>'
)
HERE = (
    " bg-base-100 font-semibold text-primary-600 dark:bg-white/[.06] dark:text-primary-500 active"
)


@register.simple_tag
def desk_menu(apps: Sequence[Mapping[str, Any]], path: str) -> SafeString:
    """The apps and models that the reader may open; `path` is where they are."""
    return format_html(
        '<div id="nav-sidebar-apps" class="h-0 grow overflow-auto" data-simplebar>{}</div>',
        format_html_join("", APP, (_app(app, path) for app in apps if app["models"])),
    )


def _app(app: Mapping[str, Any], path: str) -> tuple[str, str, str, SafeString]:
    models = (
        ("current-model", model["admin_url"], HERE, model["name"])
        if path.startswith(model["admin_url"])
        else ("", model["admin_url"], "", model["name"])
        for model in app["models"]
        if model["admin_url"]
    )
    lines = format_html_join("", MODEL, models)
    here = " current-app" if path.startswith(app["app_url"]) else ""
    return here, app["app_url"], app["name"], lines
