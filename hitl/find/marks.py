"""Where the words stand that were searched for: marked in what a row shows, else told with the
words around them.
"""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Iterable, Mapping, Sequence

from django.db.models import TextField
from django.db.models.functions import Substr
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_noop

from checkpoints.state import encryption
from checkpoints.text import invisible
from hitl.find import fulltext
from hitl.models import Comment
from runs.models import Pause

AROUND = 60
"""Characters that are told before and behind a word."""
PLACES = {
    "content": gettext_noop("In the content:"),
    "run__work_order__request": gettext_noop("In the request:"),
    "run__work_order__repository_url": gettext_noop("In the repository:"),
    "run__work_order__title": gettext_noop("In the title:"),
    "run__thread__title": gettext_noop("In the title:"),
}
"""What is indexed of a question and its work → what pages call it."""
IN_A_COMMENT = gettext_noop("In a comment:")


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


def elsewhere(shown: Mapping[uuid.UUID, Iterable[object]], marks: Marks) -> dict[uuid.UUID, Told]:
    """Question → where it has the words that its row does not show. At most two queries, none where
    the rows show all.

    Args:
        shown: the texts of each question's row.
    """
    missing = {key: words for key, texts in shown.items() if (words := marks.missing(texts))}
    told: dict[uuid.UUID, Told] = {}
    # as much as is indexed; what is sealed is in no index, and is not opened here
    texts = {name: Substr(name, 1, fulltext.INDEXED, output_field=TextField()) for name in PLACES}
    rows = Pause.objects.filter(pk__in=missing).values_list("pk", *texts.values())
    for key, *found in rows if missing else ():
        for name, text in zip(PLACES, found, strict=True):
            _tell(told, missing, key, gettext(PLACES[name]), text, marks)
    left = [key for key, words in missing.items() if words]
    said = Comment.objects.standing().filter(pause__in=left).order_by("pk")
    for key, text in said.values_list("pause", "text") if left else ():
        _tell(told, missing, key, gettext(IN_A_COMMENT), text, marks)
    return told


def _tell(
    told: dict[uuid.UUID, Told],
    missing: dict[uuid.UUID, set[str]],
    key: uuid.UUID,
    place: str,
    text: str | None,
    marks: Marks,
) -> None:
    """Tell of the words that this text has and no text before had."""
    if not text or text.startswith(encryption.MARK) or not missing[key]:
        return
    has = sorted(missing[key] - marks.missing([text]))
    if has and (around := marks.around(text, has[0])) is not None:
        told.setdefault(key, []).append((place, around))
        missing[key] -= set(has)
