"""Whom people name to be told: mail addresses and usernames, judged where they come in."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

LONGEST_ADDRESS = 254


def why_no_address(text: str) -> str | None:
    """What is wrong with a mail address, in words that do not repeat it; None where nothing is."""
    try:
        if len(text) > LONGEST_ADDRESS:
            raise ValidationError("too long")
        validate_email(text)
    except ValidationError:
        return (
            "This is not a mail address: write one in one line, as name@example.org, in up to "
            f"{LONGEST_ADDRESS} characters."
        )
    return None


def why_no_name(text: str) -> str | None:
    """The same of a username, or of a name that only another engine knows."""
    return (
        None
        if 0 < len(text) <= 150 and text.isprintable() and text == text.strip()
        else "Write a username, or a mail address, in one line."
    )


def why_not(text: str) -> str | None:
    """The same of either, which `mailto:` may stand before."""
    plain = text.removeprefix("mailto:")
    return why_no_address(plain) if "@" in plain else why_no_name(plain)
