"""Moments as people read them: in pages, mails, messages and the admin, in one style.

Machines get ISO 8601 everywhere.

A page says its time zone once (`base.html`), so times on it do without; a text that travels alone,
such as a mail or a refusal, says it.
"""

from __future__ import annotations

import datetime as dt

from django.utils import timezone
from django.utils.formats import date_format

DAY = "j M Y"
MINUTE = f"{DAY}, H:i"
SECOND = f"{MINUTE}:s"
CLOCK = "H:i:s"


def shown(at: dt.datetime, *, exact: bool = False) -> str:
    """`7 Jul 2026, 12:00`, with seconds where `exact`: on a page, which says the zone."""
    return date_format(timezone.localtime(at), SECOND if exact else MINUTE)


def day(at: dt.datetime) -> str:
    """`7 Jul 2026`."""
    return date_format(timezone.localtime(at), DAY)


def clock(at: dt.datetime) -> str:
    """`12:00:05`."""
    return date_format(timezone.localtime(at), CLOCK)


def told(at: dt.datetime, *, exact: bool = False) -> str:
    """`7 Jul 2026, 12:00 UTC`: in a text that stands alone."""
    return date_format(timezone.localtime(at), f"{SECOND if exact else MINUTE} T")
