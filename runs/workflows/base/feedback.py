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
    """What it will do for them."""
    not_understood: Sequence[str] = ()
    """The parts of the words that mean nothing to it."""

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
    """What the page calls it."""
    group: str = ""
    """Under which heading it stands; "" for none."""


class FeedbackReader:
    """How a step that runs again for a reviewer's words will read them.

    Pages, REST and links ask it before a revision is sent. Words of which nothing is understood are
    refused (422 `feedback_not_understood`) and use up no round; where a part is, that is shown
    first. Its methods are pure and quick: they run in web servers, and know nothing but the state
    at the question.
    """

    help = ""
    """What is understood, in a sentence for the page."""

    def read(self, state: Mapping[str, Any], words: str) -> Understood | None:
        """What the words mean at this state; None where only the step itself can say it."""
        return None

    def suggestions(self, state: Mapping[str, Any]) -> Sequence[Suggestion]:
        """Feedback that fits this state."""
        return ()
