"""Moments as elements of a page, which static/js/time.js keeps up to date and writes for the
reader's time zone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext, ngettext

from checkpoints.database import clock
from checkpoints.text import dates

UNITS: list[tuple[int, Callable[[int], str], Callable[[int], str]]] = [
    (
        86_400,
        lambda count: ngettext("%(count)s day ago", "%(count)s days ago", count),
        lambda count: ngettext("in %(count)s day", "in %(count)s days", count),
    ),
    (
        3_600,
        lambda count: ngettext("%(count)s hour ago", "%(count)s hours ago", count),
        lambda count: ngettext("in %(count)s hour", "in %(count)s hours", count),
    ),
    (
        60,
        lambda count: ngettext("%(count)s minute ago", "%(count)s minutes ago", count),
        lambda count: ngettext("in %(count)s minute", "in %(count)s minutes", count),
    ),
]
"""Each unit's seconds, and how it is said of the past and of what comes."""


def ago(at: dt.datetime | None) -> str:
    """`5 minutes ago`; static/js keeps it up to date by the same rule."""
    if at is None:
        return ""
    seconds = max(0, int((clock.now() - at).total_seconds()))
    for length, past, _coming in UNITS:
        if seconds >= length:
            count = seconds // length
            return past(count) % {"count": count}
    return gettext("just now")


def ahead(at: dt.datetime) -> str:
    """`in 5 minutes`, or `5 minutes ago`; static/js keeps it up to date by the same rule."""
    seconds = int((at - clock.now()).total_seconds())
    if seconds < 0:
        return ago(at)
    for length, _past, coming in UNITS:
        if seconds >= length:
            count = seconds // length
            return coming(count) % {"count": count}
    return gettext("in less than a minute")


def since(at: dt.datetime | None, before: str = "") -> SafeString:
    """`5 minutes ago`, with the moment in the title."""
    return element(at, before + ago(at), f"ago={before}") if at is not None else SafeString("")


def until(at: dt.datetime | None, before: str = "") -> SafeString:
    """`in 5 minutes`, with the moment in the title."""
    return element(at, before + ahead(at), f"ahead={before}") if at is not None else SafeString("")


def element(at: dt.datetime, label: str, data: str) -> SafeString:
    """A <time>; `data` is a name that static/js/time.js knows, with its value."""
    name, _, value = data.partition("=")
    local, told = timezone.localtime(at).isoformat(), escape(dates.told(at, exact=True))
    known = f' data-{name}="{escape(value)}"' if name else ""
    return mark_safe(  # noqa: S308  # whatever is not ours is escaped
        f'<time datetime="{local}" title="{told}"{known}>{escape(label)}</time>'
    )


def clock_and_since(at: dt.datetime) -> tuple[SafeString, SafeString]:
    """`12:00:05` and `5 minutes ago`: both of a row, whose moment is written out once."""
    local, told = timezone.localtime(at), escape(dates.told(at, exact=True))
    opening = f'<time datetime="{local.isoformat()}" title="{told}"'
    return (
        mark_safe(f'{opening} data-at="clock">{local:%H:%M:%S}</time>'),  # noqa: S308  # ours
        mark_safe(f'{opening} data-ago="">{escape(ago(at))}</time>'),  # noqa: S308  # ours
    )
