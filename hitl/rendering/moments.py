"""Moments as elements of a page, which static/js/time.js keeps up to date and writes for the
reader's time zone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import lru_cache
from html import escape

from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext, ngettext

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
    return _ago(at, clock.now()) if at is not None else ""


def ahead(at: dt.datetime) -> str:
    """`in 5 minutes`, or `5 minutes ago`; static/js keeps it up to date by the same rule."""
    return _ahead(at, clock.now())


def _ago(at: dt.datetime, now: dt.datetime) -> str:
    seconds = max(0, int((now - at).total_seconds()))
    return _in_words(*_counted(seconds), False, get_language())


def _ahead(at: dt.datetime, now: dt.datetime) -> str:
    seconds = int((at - now).total_seconds())
    return _ago(at, now) if seconds < 0 else _in_words(*_counted(seconds), True, get_language())


def _counted(seconds: int) -> tuple[int, int]:
    """The length of the largest unit that these fill, and how often; 0 where they fill none."""
    for length, _past, _coming in UNITS:
        if seconds >= length:
            return length, seconds // length
    return 0, 0


@lru_cache(maxsize=1_000)
def _in_words(length: int, count: int, is_ahead: bool, language: str | None) -> str:
    """Made once in each language: the rows of a page mostly have the same few."""
    for unit, past, coming in UNITS:
        if unit == length:
            return (coming if is_ahead else past)(count) % {"count": count}
    return gettext("in less than a minute") if is_ahead else gettext("just now")


def since(
    at: dt.datetime | None, before: str = "", *, now: dt.datetime | None = None
) -> SafeString:
    """`5 minutes ago`, with the moment in the title. A page with many gives `now`."""
    if at is None:
        return SafeString("")
    return element(at, before + _ago(at, now or clock.now()), f"ago={before}")


def until(
    at: dt.datetime | None, before: str = "", *, now: dt.datetime | None = None
) -> SafeString:
    """`in 5 minutes`, with the moment in the title. A page with many gives `now`."""
    if at is None:
        return SafeString("")
    return element(at, before + _ahead(at, now or clock.now()), f"ahead={before}")


def element(at: dt.datetime, label: str, data: str) -> SafeString:
    """A <time>; `data` is a name that static/js/time.js knows, with its value."""
    begin = _begun(at, data, timezone.get_current_timezone(), get_language())
    return SafeString(f"{begin}{escape(label)}</time>")


@lru_cache(maxsize=4_000)
def _begun(at: dt.datetime, data: str, zone: dt.tzinfo, language: str | None) -> str:
    """What of a <time> no time changes: the same rows are shown again and again."""
    name, _, value = data.partition("=")
    local, told = timezone.localtime(at, zone).isoformat(), escape(dates.told(at, exact=True))
    known = f' data-{name}="{escape(value)}"' if name else ""
    return f'<time datetime="{local}" title="{told}"{known}>'
