"""What is said of a value that is refused: the field that brought it, and of a name that nobody
knows, the names that come close.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from jsonschema.exceptions import ValidationError

LISTED = 30
"""Known names that a sentence lists."""


class FieldRefused(Exception):
    """A value cannot be taken; `field` names it."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


def as_text(errors: Mapping[str, Iterable[str]]) -> str:
    """Write errors, sentences by field, as one line of text."""
    return " ".join(
        f"{field}: {text}" if field else text for field, texts in errors.items() for text in texts
    )


def close(name: str, known: Iterable[str]) -> list[str]:
    """Give the known names that a misspelt one may stand for, the closest first."""
    return get_close_matches(name, sorted(set(known)), n=3, cutoff=0.6)


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Say that there is no such name; give a sentence such as
    `There is no key 'pause_afterr'. Did you mean pause_after? There are choices, name, …`.
    """
    names = sorted(set(known))
    nearest = close(name, names)
    listed = [*nearest, *(name for name in names if name not in nearest)]
    sentences = [f"There is no {kind} {name[:100]!r}."]
    if nearest:
        sentences.append(f"Did you mean {' or '.join(nearest)}?")
    if names:
        sentences.append(
            f"There {'is' if len(names) == 1 else 'are'} "
            f"{', '.join(listed[:LISTED])}{' and others' if len(listed) > LISTED else ''}."
        )
    return " ".join(sentences)


def message_of(error: ValidationError) -> str:
    """Say why a value does not fit its JSON Schema; of a key that the schema does not know, as
    `unknown`.
    """
    if (
        error.validator == "additionalProperties"
        and isinstance(error.instance, dict)
        and isinstance(error.schema, dict)
    ):
        known = error.schema.get("properties", {})
        return " ".join(
            unknown("key", str(name), known) for name in error.instance if name not in known
        )
    return str(error.message)[:300]
