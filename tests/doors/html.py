"""A page as a browser reads it, whose lines may break anywhere in the template."""

from __future__ import annotations

import re


def fold(html: str) -> str:
    """Make each run of white space one space."""
    return " ".join(html.split())


def join(html: str) -> str:
    """Fold a page, and leave out the white space beside its tags, and at their ends."""
    return re.sub(r"(?<=>) | (?=[<>])", "", fold(html))
