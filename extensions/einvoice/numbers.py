"""What numbers that people write are compared by: those of invoices, of VAT and of banks. Pure."""

from __future__ import annotations

import re
import unicodedata

_LATIN = str.maketrans(
    "\u0430\u0432\u0435\u0456\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445"
    "\u03b1\u03b2\u03b5\u03b6\u03b7\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u0131",
    "abeikmhopctyxabezhikmnoptyxi",
)
"""Letters of Cyrillic and Greek whose capitals look like Latin ones, and the dotless i."""
_DIGITS = str.maketrans("oil", "011")


def compact(text: str) -> str:
    """A number without the space in it: VAT ids and IBANs are written in groups."""
    return re.sub(r"[\s.\-]", "", text).upper()


def folded(text: str) -> str:
    """What makes a number the same: whichever case, and whichever signs stand between its parts."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def looks_like(number: str, other: str) -> bool:
    """Whether a person may take one number for the other, which is not the same: they differ in
    zeros in front of a group, in separators, in accents, or in signs that look alike (O and 0; I, l
    and 1).
    """
    return folded(number) != folded(other) and bool(_forms(number) & _forms(other))


def _forms(number: str) -> set[str]:
    """A number with the zeros in front of its groups and without them; its groups are digits or
    letters, and nothing stands between them.
    """
    text = unicodedata.normalize("NFKD", number.casefold()).translate(_LATIN)
    groups = re.findall(
        r"\d+|[^\W\d_]+", "".join(sign for sign in text if not unicodedata.combining(sign))
    )
    forms = ("".join(groups), "".join(group.lstrip("0") or "0" for group in groups))
    return {form.translate(_DIGITS).lstrip("0") for form in forms} - {""}
