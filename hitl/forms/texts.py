"""A value as the text of its field, and the value that a typed text stands for.

What is typed is kept as it was typed, or not at all. Python reads more than people mean (`1_000`,
digits of other scripts), a number of JSON keeps some sixteen digits, and a clock that is put
forward leaves an hour out: such a text stands for nothing, and the reason is said.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy

from hitl.forms.kinds import Kind, words

WHOLE = re.compile(r"[+-]?[0-9]+")
DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


DURATION = re.compile(r"P(?P<time>T(?=[1-9][0-9]*[HMS]$))?(?P<number>[1-9][0-9]*)(?P<unit>[DHMS])")
UNITS = {
    "TM": gettext_lazy("minutes"),
    "TH": gettext_lazy("hours"),
    "D": gettext_lazy("days"),
    "TS": gettext_lazy("seconds"),
}
"""Of a duration: how ISO 8601 writes it, without the P and the number."""


class NotAsTyped(ValueError):
    """What was typed would be kept as something else; the message says what to type."""


def as_sent(kind: Kind, value: str) -> str:
    """What a browser sends of a field that shows this: one line, where it has one."""
    if kind in {"long", "lines", "json"}:
        return value.replace("\r\n", "\n").replace("\r", "\n")
    return value.replace("\r", "").replace("\n", "")


def read(kind: Kind, text: str, *, zone: dt.tzinfo | None = None) -> Any:
    """What a typed text stands for; raises ValueError where it is no such thing, and
    OverflowError or RecursionError where it is too much of it.

    `zone` is where a time is meant that is typed without one, else the server's.
    """
    match kind:
        case "whole":
            return whole(text)
        case "number":
            return number(text)
        case "moment":
            return _moment(dt.datetime.fromisoformat(text), zone).isoformat()
        case "lines":
            return [line.strip() for line in text.split("\n") if line.strip()]
        case "json":
            return parsed(text)
    return text


def _moment(at: dt.datetime, zone: dt.tzinfo | None) -> dt.datetime:
    """A typed time with its zone, the field's where none was typed; of two equal times the first.

    Raises NotAsTyped.
    """
    if at.tzinfo:
        return at
    aware = timezone.make_aware(at, zone)
    if aware.astimezone(dt.UTC).astimezone(aware.tzinfo).replace(tzinfo=None) != at:
        raise NotAsTyped(
            gettext("On that day there is no such time: the clock is put forward. Choose another.")
        )
    return aware


def shown(kind: Kind, value: Any, *, zone: dt.tzinfo | None = None) -> str:
    """A value as its field shows it, a time in `zone`, else in the server's."""
    if value is None:
        return ""
    if kind == "check":
        return "true" if value is True else ""
    if kind == "lines":
        return (
            "\n".join(str(member) for member in value)
            if isinstance(value, list | tuple)
            else str(value)
        )
    if kind == "json":
        return json.dumps(value, indent=2, ensure_ascii=False)
    if kind == "moment":
        try:
            at = dt.datetime.fromisoformat(str(value))
        except ValueError:
            return str(value)
        with suppress(OverflowError):  # the last day there is, in a zone that is ahead
            at = timezone.localtime(at, zone) if at.tzinfo else at
        return at.replace(tzinfo=None).isoformat(timespec="seconds")
    return words(value)


def duration_of(text: str) -> tuple[str, str]:
    """A duration as a number and one of `UNITS`; as it is written, where one unit says it not."""
    found = DURATION.fullmatch(text)
    unit = f"{found['time'] or ''}{found['unit']}" if found else ""
    return (found["number"], unit) if found and unit in UNITS else (text, "")


def as_duration(text: str, unit: str) -> str:
    """What was typed with a unit, in ISO 8601; what is no number stays as it is."""
    if not text.isascii() or not text.isdecimal() or unit not in UNITS:
        return text
    return f"P{unit[:-1]}{text}{unit[-1]}"


def whole(text: str) -> int:
    """Raises ValueError."""
    if not WHOLE.fullmatch(text):
        raise ValueError(text)
    return int(text)


def number(text: str) -> int | float:
    """Raises ValueError, of these NotAsTyped where it would be kept as another number."""
    if WHOLE.fullmatch(text):
        return int(text)
    if not DECIMAL.fullmatch(text):
        raise ValueError(text)
    found = _exact(text)
    if not math.isfinite(found):
        raise ValueError(text)
    return found


def parsed(text: str) -> Any:
    """JSON that was typed. Raises ValueError, of these NotAsTyped, and RecursionError."""
    return json.loads(text, parse_float=_exact)


def _exact(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        return found  # which the validator refuses
    try:
        same = Decimal(text) == Decimal(repr(found))
    except InvalidOperation:  # smaller than anything that can be kept
        same = False
    if not same:
        raise NotAsTyped(
            gettext(
                "This has more digits than a number keeps: it would become %(kept)s. Write that, "
                "or fewer digits."
            )
            % {"kept": repr(found)}
        )
    return found


def needed(kind: Kind, label: str) -> str:
    """What is said of a field that was left empty: what to do."""
    words = {
        "one": gettext("Choose “%(label)s”."),
        "several": gettext("Choose “%(label)s”."),
        "file": gettext("Choose a file for “%(label)s”."),
        "check": gettext("Confirm “%(label)s”."),
        "rows": gettext("Add to “%(label)s”."),
    }
    return words.get(kind, gettext("Enter “%(label)s”.")) % {"label": label}
