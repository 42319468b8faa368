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


class Moments:
    """Moments of one page, which tells all of them as of one time, in one language and zone."""

    def __init__(self) -> None:
        self.now = clock.now()
        self._language, self._zone = get_language(), timezone.get_current_timezone()

    def ago(self, at: dt.datetime) -> str:
        seconds = max(0, int((self.now - at).total_seconds()))
        return _in_words(*_counted(seconds), False, self._language)

    def ahead(self, at: dt.datetime) -> str:
        seconds = int((at - self.now).total_seconds())
        if seconds < 0:
            return self.ago(at)
        return _in_words(*_counted(seconds), True, self._language)

    def since(self, at: dt.datetime, before: str = "") -> SafeString:
        """`5 minutes ago`, with the moment in the title."""
        return self.element(at, before + self.ago(at), f"ago={before}")

    def until(self, at: dt.datetime, before: str = "") -> SafeString:
        """`in 5 minutes`, with the moment in the title."""
        return self.element(at, before + self.ahead(at), f"ahead={before}")

    def element(self, at: dt.datetime, label: str, data: str) -> SafeString:
        """A <time>; `data` is a name that static/js/time.js knows, with its value."""
        begin = _begun(at, data, self._zone, self._language)
        return SafeString(f"{begin}{_escaped(label)}</time>")


def ago(at: dt.datetime | None) -> str:
    """`5 minutes ago`; static/js keeps it up to date by the same rule."""
    return Moments().ago(at) if at is not None else ""


def ahead(at: dt.datetime) -> str:
    """`in 5 minutes`, or `5 minutes ago`; static/js keeps it up to date by the same rule."""
    return Moments().ahead(at)


def since(at: dt.datetime | None, before: str = "") -> SafeString:
    """`5 minutes ago`, with the moment in the title."""
    return Moments().since(at, before) if at is not None else SafeString("")


def until(at: dt.datetime | None, before: str = "") -> SafeString:
    """`in 5 minutes`, with the moment in the title."""
    return Moments().until(at, before) if at is not None else SafeString("")


def element(at: dt.datetime, label: str, data: str) -> SafeString:
    """A <time>; `data` is a name that static/js/time.js knows, with its value."""
    return Moments().element(at, label, data)


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


_escaped = lru_cache(maxsize=1_000)(escape)


@lru_cache(maxsize=4_000)
def _begun(at: dt.datetime, data: str, zone: dt.tzinfo, language: str | None) -> str:
    """What no time changes of a <time>: the same rows are shown again and again."""
    name, _, value = data.partition("=")
    local, told = timezone.localtime(at, zone).isoformat(), escape(dates.told(at, exact=True))
    known = f' data-{name}="{escape(value)}"' if name else ""
    return f'<time datetime="{local}" title="{told}"{known}>'


def clock_and_since(at: dt.datetime) -> tuple[SafeString, SafeString]:
    """`12:00:05` and `5 minutes ago`: both of a row."""
    page = Moments()
    local = timezone.localtime(at)
    return page.element(at, f"{local:%H:%M:%S}", "at=clock"), page.since(at)
