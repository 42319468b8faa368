"""Rows of lists that are only read: as Unfold writes them, but for each column once what it writes
anew for each row, its headings among it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.contrib.admin.utils import lookup_field
from django.core.exceptions import ObjectDoesNotExist
from django.db import models
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from unfold.templatetags.unfold_list import (
    CHECKBOX_CLASSES,
    LINK_CLASSES,
    ROW_CLASSES,
    UnfoldResultList,
)
from unfold.utils import display_for_field, display_for_value

if TYPE_CHECKING:
    from checkpoints.admin.lists import KeysetChangeList

CHECKBOX = "action_checkbox"


def rows(cl: KeysetChangeList, headings: Sequence[dict[str, Any]]) -> list[UnfoldResultList]:
    """The rows of the page as the template takes them, each with all its cells as one text.

    Args:
        headings: as Unfold's `result_headers` gives them.
    """
    names = list(map(str, cl.list_display))
    linked = next(name for name in names if name != CHECKBOX)
    cells = [
        _cell(cl, name, heading["text"], is_link=name == linked)
        for name, heading in zip(names, headings, strict=True)
    ]
    return [
        UnfoldResultList(row, None, [SafeString("".join([cell(row) for cell in cells]))])
        for row in cl.result_list
    ]


def _cell(cl: KeysetChangeList, name: str, heading: str, *, is_link: bool) -> Callable[[Any], str]:
    admin, tag = cl.model_admin, "th" if is_link else "td"
    is_box = name == CHECKBOX
    classes = " ".join(CHECKBOX_CLASSES if is_box else [f"field-{name}", *ROW_CLASSES])
    label = conditional_escape(gettext("Select record") if is_box else heading)
    empty = admin.get_empty_value_display()
    link = " ".join(LINK_CLASSES)
    known: dict[str, Any] = {"preserved_filters": cl.preserved_filters, "opts": cl.opts}

    def html(row: Any) -> str:
        shown, more = _shown(name, row, admin, empty)
        said: str = conditional_escape(shown)
        if is_link:
            url = conditional_escape(add_preserved_filters(known, cl.url_for_result(row)))
            said = f'<a href="{url}" class="{link}" >{said}</a>'
        return f'<{tag} class="{classes}{more}" data-label="{label}">{said}</{tag}>'

    return html


def _shown(name: str, row: Any, admin: Any, empty: str) -> tuple[Any, str]:
    """What stands in a cell, and the classes that it brings."""
    try:
        field, attribute, value = lookup_field(name, row, admin)
    except ObjectDoesNotExist:
        return empty, ""
    empty = getattr(attribute, "empty_value_display", empty)
    if field is None or field.auto_created:
        is_time = isinstance(value, dt.date | dt.time)
        boolean = getattr(attribute, "boolean", False)
        return display_for_value(value, empty, boolean), " nowrap" if is_time else ""
    if isinstance(field.remote_field, models.ManyToOneRel):
        return getattr(row, field.name) or empty, " nowrap"
    is_time = isinstance(field, models.DateField | models.TimeField)
    return display_for_field(value, field, empty), " nowrap" if is_time else ""
