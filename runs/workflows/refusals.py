"""What refusals of a value by its name have in common."""

from __future__ import annotations


class FieldRefused(Exception):
    """A value cannot be taken; `field` names it."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field
