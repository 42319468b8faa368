"""Moments as people read them: in pages, mails, messages and the admin, in one style a language.

Machines get ISO 8601 everywhere.

A page says its time zone once (`base.html`), so times on it do without; a text that travels alone,
such as a mail or a refusal, says it. static/js/time.js knows the same styles.
"""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from django.utils import timezone
from django.utils.translation import get_language


class Style(NamedTuple):
    """How a language writes a day, as Django has formats and as Python has them; `{0}` is the day
    without a leading zero.
    """

    day: str
    python: str


ENGLISH = Style("j M Y", "{0} %b %Y")
GERMAN = Style("d.m.Y", "%d.%m.%Y")
STYLES = {"de": GERMAN}
"""Of languages that do not write days as English does."""


def shown(at: dt.datetime, *, exact: bool = False) -> str:
    """`7 Jul 2026, 12:00`, with seconds where `exact`: on a page, which says the zone."""
    return _written(at, ", %H:%M:%S" if exact else ", %H:%M")


def day(at: dt.datetime) -> str:
    """`7 Jul 2026`."""
    return _written(at, "")


def of_date(at: dt.date) -> str:
    """`7 Jul 2026`."""
    return day(timezone.make_aware(dt.datetime.combine(at, dt.time(12))))


def clock(at: dt.datetime) -> str:
    """`12:00:05`."""
    return f"{timezone.localtime(at):%H:%M:%S}"


def told(at: dt.datetime, *, exact: bool = False) -> str:
    """`7 Jul 2026, 12:00 UTC`: in a text that stands alone."""
    return _written(at, ", %H:%M:%S %Z" if exact else ", %H:%M %Z")


def _written(at: dt.datetime, after: str) -> str:
    """Not by Django's `date_format`, which takes thirty times as long; a list has hundreds."""
    local = timezone.localtime(at)
    style = STYLES.get(get_language() or "", ENGLISH)
    return f"{local:{style.python.format(local.day) + after}}"
