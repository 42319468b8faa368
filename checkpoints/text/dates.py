"""Moments as people read them: in pages, mails, messages and the admin, in one style.

Machines get ISO 8601 everywhere.

A page says its time zone once (`base.html`), so times on it do without; a text that travels alone,
such as a mail or a refusal, says it.
"""

from __future__ import annotations

import datetime as dt

from django.utils import timezone

DAY = "j M Y"
MINUTE = f"{DAY}, H:i"
SECOND = f"{MINUTE}:s"
CLOCK = "H:i:s"
"""As Django writes formats, for its admin."""


def shown(at: dt.datetime, *, exact: bool = False) -> str:
    """`7 Jul 2026, 12:00`, with seconds where `exact`: on a page, which says the zone."""
    return _written(at, "%b %Y, %H:%M:%S" if exact else "%b %Y, %H:%M")


def day(at: dt.datetime) -> str:
    """`7 Jul 2026`."""
    return _written(at, "%b %Y")


def clock(at: dt.datetime) -> str:
    """`12:00:05`."""
    return f"{timezone.localtime(at):%H:%M:%S}"


def told(at: dt.datetime, *, exact: bool = False) -> str:
    """`7 Jul 2026, 12:00 UTC`: in a text that stands alone."""
    return _written(at, "%b %Y, %H:%M:%S %Z" if exact else "%b %Y, %H:%M %Z")


def _written(at: dt.datetime, style: str) -> str:
    """Not by Django's `date_format`, which takes thirty times as long; a list has hundreds."""
    local = timezone.localtime(at)
    return f"{local.day} {local:{style}}"
