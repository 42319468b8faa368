"""Where the words stand that were searched for: marked in what a row shows, else told with the
words around them.
"""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet, TextField
from django.db.models.functions import Substr
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_noop

from checkpoints.database.people import User
from checkpoints.state import encryption
from checkpoints.text import invisible
from hitl.find import fulltext
from hitl.models import Comment, Decision
from runs.models import Pause, WorkOrder

AROUND = 60
"""Characters that are told before and behind a word."""
IN_A_COMMENT = gettext_noop("In a comment:")
IN_THE_FEEDBACK = gettext_noop("In the feedback:")
ASKED = {
    "question": gettext_noop("In a question:"),
    "content": gettext_noop("In the content:"),
}
"""What is indexed of a question → what pages call it;"""
WORK = {
    "work_order__request": gettext_noop("In the request:"),
    "work_order__repository_url": gettext_noop("In the repository:"),
    "work_order__title": gettext_noop("In the title:"),
    "thread__title": gettext_noop("In the title:"),
}
"""of the work of a run;"""
QUESTION = {**ASKED, **{f"run__{column}": name for column, name in WORK.items()}}
"""and of a question and its work."""


class Marks:
    """Marks words as the index finds them: by their beginning, those of one sign whole."""

    def __init__(self, words: Sequence[str]) -> None:
        self._each = {word: self._pattern([word]) for word in words}
        self._any = self._pattern(words)

    @staticmethod
    def _pattern(words: Iterable[str]) -> re.Pattern[str]:
        longest_first = sorted(words, key=len, reverse=True)
        begins = [word if len(word) > 1 else rf"{word}(?![^\W_])" for word in longest_first]
        return re.compile(rf"(?<![^\W_])({'|'.join(begins)})", re.IGNORECASE)

    def html(self, text: object) -> SafeString:
        """The text as `invisible.html` has it, with its words marked."""
        # of two parts, the text between words and a word, there is always one more of the first
        parts = self._any.split(unicodedata.normalize("NFC", str(text)))
        shown = [
            f"<mark>{invisible.html(part)}</mark>" if at % 2 else invisible.html(part)
            for at, part in enumerate(parts)
        ]
        return SafeString("".join(shown))  # each part is escaped

    def missing(self, texts: Iterable[object]) -> set[str]:
        """The words that none of these texts has."""
        whole = unicodedata.normalize("NFC", "\n".join(str(text) for text in texts))
        return {word for word, pattern in self._each.items() if not pattern.search(whole)}

    def around(self, text: str, word: str) -> SafeString | None:
        """The text around a word's first place, on one line; None where it has no such word."""
        line = " ".join(unicodedata.normalize("NFC", text).split())
        found = self._each[word].search(line)
        if found is None:
            return None
        start, end = max(0, found.start() - AROUND), found.end() + AROUND
        before, behind = "… " if start else "", " …" if end < len(line) else ""
        return SafeString(f"{before}{self.html(line[start:end])}{behind}")


Told = list[tuple[str, SafeString]]
"""Places, and the words around what was found there."""
MOST_ROWS = 1_000
"""Rows that have one word and belong to the lines of a page, of which those are told that came
last.
"""


@dataclass(frozen=True)
class Place:
    """Where a list finds words that its lines do not show."""

    rows: QuerySet[Any]
    line: str
    """The path from a row to the key of its line."""
    texts: Mapping[str, str]
    """Column → what pages call it."""
    many: bool = False
    """Whether a line has many such rows: the index says which of them has a word."""

    def read(self, missing: Mapping[uuid.UUID, set[str]]) -> Iterator[tuple[Any, ...]]:
        """The key of a line, and the texts of one of its rows, as much of each as is indexed."""
        keys = [key for key, words in missing.items() if words]
        if self.many:
            chosen = self.rows.filter(pk__in=self._newest(missing))
        else:
            chosen = self.rows.filter(**{f"{self.line}__in": keys})
        # what is sealed is in no index, and is not opened here
        columns = {
            f"text_{at}": Substr(name, 1, fulltext.INDEXED, output_field=TextField())
            for at, name in enumerate(self.texts)
        }
        yield from chosen.order_by("pk").annotate(**columns).values_list(self.line, *columns)

    def _newest(self, missing: Mapping[uuid.UUID, set[str]]) -> set[Any]:
        """Of each line the newest row with each word that it misses."""
        chosen = set()
        for word in sorted(set().union(*missing.values())):
            keys = [key for key, words in missing.items() if word in words]
            has = self.rows.filter(pk__in=fulltext.having(word), **{f"{self.line}__in": keys})
            newest_last = reversed(has.order_by("-pk").values_list(self.line, "pk")[:MOST_ROWS])
            chosen |= set(dict(newest_last).values())
        return chosen


def of_questions() -> list[Place]:
    """Of the lines of questions that a person sees."""
    said = Comment.objects.standing()
    return [
        Place(Pause.objects.all(), "pk", QUESTION),
        Place(said, "pause", {"text": IN_A_COMMENT}, many=True),
    ]


def of_orders(user: User) -> list[Place]:
    own = {column.removeprefix("work_order__"): name for column, name in WORK.items()}
    asked = Pause.objects.visible_to(user)
    return [
        Place(WorkOrder.objects.all(), "pk", own),
        Place(asked, "run__work_order", ASKED, many=True),
    ]


def of_threads(user: User) -> list[Place]:
    return [Place(Pause.objects.visible_to(user), "run__thread", ASKED, many=True)]


def of_answers(user: User) -> list[Place]:
    """Of the lines of answers, and of questions that nobody answered in time."""
    theirs = {f"pause__{column}": name for column, name in QUESTION.items()}
    said = Comment.objects.standing().filter(pause__in=Pause.objects.visible_to(user))
    return [
        Place(Decision.objects.all(), "pk", {"feedback": IN_THE_FEEDBACK, **theirs}),
        Place(Pause.objects.all(), "pk", QUESTION),
        Place(said, "pause__decisions", {"text": IN_A_COMMENT}, many=True),
        Place(said, "pause", {"text": IN_A_COMMENT}, many=True),
    ]


@dataclass(frozen=True)
class Found:
    """How the lines of a page show what was searched for."""

    marks: Marks | None = None
    told: Mapping[uuid.UUID, Told] = field(default_factory=dict)
    """Line → where it has the words that it does not show."""

    @property
    def html(self) -> Callable[[object], SafeString]:
        return self.marks.html if self.marks else invisible.html

    def beside(self, key: uuid.UUID) -> SafeString:
        """What a line says of the words that it does not show."""
        return format_html_join("", '<p class="found" dir="auto">{} {}</p>', self.told.get(key, ()))


NOTHING = Found()
"""On a page that nobody searches."""


def find(
    words: Sequence[str],
    lines: Iterable[tuple[uuid.UUID, Iterable[object]]],
    places: Iterable[Place],
) -> Found:
    """Look for the words of a search. No query where there are none, or where the lines show all.

    Args:
        lines: the key of each, and the texts that it shows.
    """
    if not words:
        return NOTHING
    marks = Marks(words)
    missing = {key: left for key, texts in lines if (left := marks.missing(texts))}
    told: dict[uuid.UUID, Told] = {}
    for place in places:
        if not any(missing.values()):
            break
        for key, *texts in place.read(missing):
            for name, text in zip(place.texts.values(), texts, strict=True):
                _tell(told, missing, key, gettext(name), text, marks)
    return Found(marks, told)


def _tell(
    told: dict[uuid.UUID, Told],
    missing: dict[uuid.UUID, set[str]],
    key: uuid.UUID,
    place: str,
    text: str | None,
    marks: Marks,
) -> None:
    """Tell of the words that this text has and no text before had."""
    if not text or text.startswith(encryption.MARK) or not missing.get(key):
        return
    has = sorted(missing[key] - marks.missing([text]))
    if has and (around := marks.around(text, has[0])) is not None:
        told.setdefault(key, []).append((place, around))
        missing[key] -= set(has)
