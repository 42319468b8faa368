"""How a step reads a reviewer's words, as it says so itself: before they are sent, and before they
cost a round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Understood:
    """What a step makes of a reviewer's words, in short texts."""

    applied: Sequence[str] = ()
    not_understood: Sequence[str] = ()

    @property
    def nothing(self) -> bool:
        """Whether the words change nothing: a round for them would be lost."""
        return bool(self.not_understood) and not self.applied


@dataclass(frozen=True)
class Suggestion:
    """Feedback that is ticked in place of being written."""

    words: str
    """What is sent, as the step reads it."""
    label: str
    group: str = ""


class FeedbackReader:
    """How a step that runs again for a reviewer's words will read them.

    Web servers ask it whenever a person is about to send some: its methods are pure and quick, and
    know nothing but the state at the question.
    """

    help = ""
    """What is understood, in a sentence for the page."""

    def read(self, state: Mapping[str, Any], words: str) -> Understood | None:
        """What the words mean at this state; None where only the step itself can say it."""
        return None

    def suggestions(self, state: Mapping[str, Any]) -> Sequence[Suggestion]:
        """Feedback that fits this state."""
        return ()
