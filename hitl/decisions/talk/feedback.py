"""What a step will understand of a reviewer's words, as its reader says it: the same for all doors.

Nothing is written here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from django.utils.translation import gettext

from checkpoints import store
from hitl.decisions.errors import AnswerInvalid
from runs.models import Pause
from runs.workflows import FeedbackReader, Suggestion, Understood, registry
from runs.workflows.sequence import REVISE

T = TypeVar("T")
logger = logging.getLogger(__name__)
MOST_SUGGESTED = 200


@dataclass(frozen=True)
class FeedbackBox:
    """The box for the feedback of a question. The state is read where something is asked of it."""

    pause: Pause

    @cached_property
    def reader(self) -> FeedbackReader | None:
        """That of the step that a revision leads to; None where any words will do."""
        leads_to = self.pause.answers.get(REVISE)
        steps = registry.with_sub_steps(self.pause.run.definition.steps) if leads_to else []
        function = next((step["function"] for step in steps if step["name"] == leads_to), "")
        return registry.traits_of(function).feedback if function else None

    @property
    def help(self) -> str:
        return self.reader.help if self.reader is not None else ""

    @cached_property
    def suggestions(self) -> Sequence[Suggestion]:
        reader = self.reader
        if reader is None:
            return ()
        found = self._ask(lambda state: reader.suggestions(state)) or ()
        return list(found)[:MOST_SUGGESTED]

    def read(self, words: str) -> Understood | None:
        """What is understood of these words; None where that is not known."""
        reader = self.reader
        if reader is None or not words.strip():
            return None
        return self._ask(lambda state: reader.read(state, words))

    def _ask(self, question: Callable[[Any], T]) -> T | None:
        """It is an author's code, and runs in web servers: where it breaks, nothing is known."""
        try:
            return question(store.load(self.pause.checkpoint))
        except store.CheckpointDamaged:
            return None
        except Exception:
            logger.exception("the reader of feedback at %s broke", self.pause.shown_id)
            return None


def check(pause: Pause, words: str) -> Understood | None:
    """What is understood of the words that send a question back.

    Raises AnswerInvalid where that is nothing: the round would be lost.
    """
    box = FeedbackBox(pause)
    understood = box.read(words)
    if understood is not None and understood.nothing:
        texts = "; ".join(f"“{text}”" for text in understood.not_understood)
        said = gettext("None of this was understood: %(texts)s.") % {"texts": texts}
        raise AnswerInvalid.of(
            "feedback", f"{said} {box.help}".strip(), code="feedback_not_understood"
        )
    return understood
