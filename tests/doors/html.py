"""A page as a browser reads it, whose lines may break anywhere in the template."""

from __future__ import annotations

import re


def fold(html: str) -> str:
    """Make each run of white space one space."""
    return " ".join(html.split())


def with_sign(html: str) -> str:
    """A page whose drawn sign of a pause is the text that stands for it."""
    return re.sub(r'<span class="sr">(⏸️ )</span><svg.*?</svg> ', r"\1", html, flags=re.DOTALL)


def join(html: str) -> str:
    """Fold a page, and leave out the white space beside its tags, and at their ends."""
    return re.sub(r"(?<=>) | (?=[<>])", "", fold(html))
