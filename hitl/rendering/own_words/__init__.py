"""Words of our own that are stored in English, such as labels and headings of the workflows that
ship, what is wrong with an answer, and how a run ended. Pages, mails and chats translate them where
they are shown; the wire, the ledger and authors' words stay.

A text with values in it is known by its format: `Must be at least %(rule)s.`
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import get_language, gettext

from checkpoints.extension import installed
from hitl.rendering.own_words.failures import FAILURES
from hitl.rendering.own_words.labels import LABELS
from hitl.rendering.own_words.rules import RULES
from hitl.rendering.own_words.sentences import FAULTS, SENTENCES, WITHIN
from runs.states import STOPS

if TYPE_CHECKING:
    from runs.models import Pause

_VALUE = re.compile(r"%\((\w+)\)s")
_HEAD = 4
"""Characters of a format's beginning by which it is found."""
_OR = " or "
_COUNT = r"\d+"


class _Format(NamedTuple):
    words: str
    pattern: re.Pattern[str]


_texts: set[str] = set()
_formats: dict[str, list[_Format]] = defaultdict(list)
"""Beginning → formats; those that begin with a value under ""."""


def learn(texts: Iterable[str]) -> None:
    """Know these texts and formats too, which are marked with `gettext_noop` where they stand."""
    for text in texts:
        if _VALUE.search(text):
            head = text.partition("%(")[0][:_HEAD]
            made = _Format(text, _pattern_of(text))
            if made not in _formats[head if len(head) == _HEAD else ""]:
                _formats[head if len(head) == _HEAD else ""].append(made)
        else:
            _texts.add(text)


def _pattern_of(words: str) -> re.Pattern[str]:
    parts = _VALUE.split(words)  # words, name, words, …
    made = [
        f"(?P<{part}>{_COUNT if part == 'count' else '.+?'})" if place % 2 else re.escape(part)
        for place, part in enumerate(parts)
    ]
    return re.compile("".join(made), re.DOTALL)


learn((*LABELS, *RULES, *FAULTS, *SENTENCES, *FAILURES))
_anywhere = re.compile(
    r"(?:(?<=: )|(?<=\. )|^)(?:"
    + "|".join(re.sub(r"\?P<\w+>", "", _pattern_of(words).pattern) for words in FAULTS)
    + ")"
)


@cache
def _learn_of_extensions() -> None:
    for app in installed():
        learn(app.words)


def own(text: str) -> str:
    """A text in the reader's language, where it is one of ours; templates give numbers, too."""
    if (get_language() or "en") == "en" or not isinstance(text, str | Promise):
        return text
    text = str(text)
    _learn_of_extensions()
    text = str(text)  # a template's own words in its place are lazy
    if text in _texts:
        return gettext(text)
    for words, pattern in (*_formats.get(text[:_HEAD], ()), *_formats[""]):
        if found := pattern.fullmatch(text):
            return gettext(words) % {name: _value(one) for name, one in found.groupdict().items()}
    return text


def _value(text: str) -> str:
    """What stands in a sentence: `a whole number or empty`, or somebody's own words."""
    if text in WITHIN:
        return gettext(text)
    parts = text.split(_OR)
    if len(parts) > 1 and all(part in WITHIN for part in parts):
        return gettext(" or ").join(gettext(part) for part in parts)
    whole = own(text)
    return whole if whole != text else ", ".join(map(own, text.split(", ")))


def own_content(pause: Pause) -> Any:
    """What a question shows: of a stop in the reader's language, where those words are ours."""
    return own(pause.content) if pause.phase in STOPS else pause.content


def own_faults(text: str) -> str:
    """The same of a text that says what is wrong with several fields, one after the other."""
    if (get_language() or "en") == "en":
        return text
    return _anywhere.sub(lambda found: own(found[0]), text)


def in_words(schema: Any) -> Any:
    """A schema of a form, with the titles and descriptions in the reader's language."""
    if isinstance(schema, list | tuple):
        return [in_words(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        name: own(part)
        if name in {"title", "description"} and isinstance(part, str)
        else [own(one) for one in part]
        if name == "enumNames" and isinstance(part, list | tuple)
        else in_words(part)
        for name, part in schema.items()
    }
