"""Why the rules on who answers are against an answer, with codes that stay."""

from __future__ import annotations

ENDS_BY_ITSELF = frozenset({"claimed", "not_your_turn"})
"""Codes of refusals of an answer that is taken a while later: it is kept, as the door can."""


class Refused(Exception):
    """A rule is against this answer; nothing was decided. `code` is stable."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class NotAllowed(Refused):
    """This person may not give this answer: `not_a_reviewer`, `self_approval`."""


class NotNow(Refused):
    """Somebody else is before: `claimed`, `already_voted`, `vote_differs`, `not_your_turn`,
    `stage_answered`.
    """
