"""What a list is asked: the same words in the address of a page, in REST and in commands.

Nothing that is asked is passed over: a name that the list does not know, or a value that cannot be,
is refused with those that there are.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.utils import timezone
from django.utils.translation import gettext

from checkpoints import ids
from checkpoints.state import codec
from hitl.find import fulltext

WORDS, WHOSE, SORT, SINCE, UNTIL = "q", "whose", "sort", "since", "until"
LONGEST = 200
"""Characters of a value."""
MOST_TOLD = 10
"""Names that a refusal speaks of."""
SPANS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
MOMENT = "A day as 2026-07-31, a moment as 2026-07-31T12:00, or how long ago: 30m, 24h, 7d, 4w."
UNREADABLE = "There is a character in it that no value has: a NUL, or half of one."
ME = "me"
PERSON = "person"


@dataclass(frozen=True)
class Parameter:
    """One thing that a list can be asked by."""

    name: str
    label: str
    about: str
    """For whoever writes it: in the document of the API and in commands."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """Value → what pages call it; empty where any is taken."""

    @property
    def names_people(self) -> bool:
        return self.name == PERSON

    @property
    def counted(self) -> bool:
        """Whether pages offer it as a choice, with counts."""
        return self.name not in {WORDS, WHOSE, SORT, SINCE, UNTIL}


class NotUnderstood(Exception):
    """A list was asked something that it does not know. Nothing was looked for."""

    code = "query_not_understood"

    def __init__(self, errors: Mapping[str, list[str]], known: Iterable[str]) -> None:
        self.errors, self.known = dict(errors), list(known)
        first = "; ".join(f"{name}: {' '.join(said)}" for name, said in self.errors.items())
        super().__init__(
            gettext("This list does not know that filter. %(first)s") % {"first": first}
        )


@dataclass(frozen=True)
class Asked:
    """What a list was asked, read."""

    given: Mapping[str, str] = field(default_factory=dict)
    """Parameter → value, of those that say something."""
    words: Sequence[str] = ()
    ids: Sequence[tuple[str, uuid.UUID]] = ()
    """Prefixes and keys of the shown ids among what is searched for."""
    since: dt.datetime | None = None
    until: dt.datetime | None = None

    def __hash__(self) -> int:
        return hash(self.query)

    def __getitem__(self, name: str) -> str:
        return self.given.get(name, "")

    def __bool__(self) -> bool:
        """Whether anything is narrowed down."""
        return any(name != SORT for name in self.given)

    @property
    def query(self) -> str:
        """As an address says it."""
        return urlencode(self.given)

    def but_for(self, *names: str) -> bool:
        """Whether anything else is narrowed down."""
        return any(name not in {SORT, *names} for name in self.given)

    def but(self, **changed: str) -> str:
        """The query with other values; "" leaves a name out."""
        kept = {**self.given, **changed}
        return urlencode({name: value for name, value in kept.items() if value})


def read(
    query: Iterable[tuple[str, Sequence[str]]],
    parameters: Sequence[Parameter],
    *,
    beside: Sequence[str] = (),
    now: dt.datetime,
) -> Asked:
    """What stands in a query. A value that is empty says nothing, as forms send them.

    Args:
        query: each name with its values.
        beside: names that the page reads for itself.
    Raises:
        NotUnderstood.
    """
    known = {parameter.name: parameter for parameter in parameters}
    errors: dict[str, list[str]] = {}
    given: dict[str, str] = {}
    for name, values in query:
        if name in beside:
            continue
        if name not in known:
            errors[name[:LONGEST]] = ["There is no such filter here."]
        elif len(values) > 1:
            errors[name] = ["Once only."]
        elif text := values[0].strip():
            if said := _refusal(known[name], text):
                errors[name] = [said]
            given[name] = text
    words: list[str] = []
    times: dict[str, dt.datetime | None] = {SINCE: None, UNTIL: None}
    found, rest = _ids(given.get(WORDS, ""))
    try:
        words = fulltext.words_of(rest)
    except fulltext.TooManyWords as error:
        errors[WORDS] = [str(error)]
    for name in times:
        if name in given and name not in errors:
            try:
                times[name] = moment(given[name], now=now, end=name == UNTIL)
            except (ValueError, OverflowError):
                errors[name] = [MOMENT]
    if errors:
        raise NotUnderstood(dict(list(errors.items())[:MOST_TOLD]), known)
    order = {name: given[name] for name in known if name in given}
    return Asked(order, words, found, times[SINCE], times[UNTIL])


def _ids(text: str) -> tuple[list[tuple[str, uuid.UUID]], str]:
    """The shown ids in a text, and what else there is."""
    found, rest = [], []
    for part in text.split():
        prefix = part.partition("_")[0]
        try:
            found.append((prefix, ids.parse(prefix, part)))
        except ValueError:
            rest.append(part)
    return found, " ".join(rest)


def _refusal(parameter: Parameter, text: str) -> str:
    if len(text) > LONGEST:
        return f"At most {LONGEST} characters."
    if codec.holds_unreadable(text):
        return UNREADABLE
    if parameter.choices and text not in parameter.choices:
        return f"One of {', '.join(parameter.choices)}."
    return ""


def moment(text: str, *, now: dt.datetime, end: bool = False) -> dt.datetime:
    """A moment as people write it; of a day its beginning, or its end. Raises ValueError,
    OverflowError.
    """
    if span := re.fullmatch(r"(\d{1,5})([mhdw])", text):
        return now - dt.timedelta(**{SPANS[span[2]]: int(span[1])})
    at = dt.datetime.fromisoformat(text)
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) and end:
        at += dt.timedelta(days=1)
    return at if timezone.is_aware(at) else timezone.make_aware(at)
