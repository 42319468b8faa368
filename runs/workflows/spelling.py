"""What is said of a name that nobody knows: the name, the close ones first, and all that are
known.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from jsonschema.exceptions import ValidationError

LISTED = 30
"""Known names that a sentence lists."""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """A sentence such as `There is no key 'pause_afterr'.

    Did you mean pause_after? There are choices, name, …`.
    """
    names = sorted(set(known))
    close = get_close_matches(name, names, n=3, cutoff=0.6)
    listed = [*close, *(one for one in names if one not in close)]
    told = [f"There is no {what} {name[:100]!r}."]
    if close:
        told.append(f"Did you mean {' or '.join(close)}?")
    if names:
        told.append(
            f"There {'is' if len(names) == 1 else 'are'} "
            f"{', '.join(listed[:LISTED])}{' and others' if len(listed) > LISTED else ''}."
        )
    return " ".join(told)


def refusal(error: ValidationError) -> str:
    """What a JSON Schema was not kept for; of a key that it does not know, `unknown`."""
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
