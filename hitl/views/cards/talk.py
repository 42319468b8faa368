"""What the pause card shows of what people say to each other at the question."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from django.utils.safestring import SafeString

from checkpoints.database.people import User
from hitl.decisions.reviewers.delegations import OFFERED
from hitl.decisions.talk import comments
from hitl.models import Comment
from hitl.views.cards.standing import Card, options
from runs.models import Pause


@dataclass(frozen=True)
class Talk:
    """The comments at a question, as one person sees them."""

    pause: Pause
    by: User
    card: Card
    longest = comments.LONGEST

    @cached_property
    def said(self) -> list[Comment]:
        return comments.at(self.pause)

    @cached_property
    def standing(self) -> list[Comment]:
        """Those that a revision may take along."""
        return [comment for comment in self.said if comment.withdrawn_at is None]

    @cached_property
    def earlier(self) -> list[Comment]:
        """What was said at earlier revisions."""
        return comments.earlier(self.pause) if self.pause.revision > 1 else []

    @property
    def last(self) -> str:
        """The shown id of the last comment that a revision may take along; "" where there is
        none.
        """
        return self.standing[-1].shown_id if self.standing else ""

    @property
    def may_ask(self) -> bool:
        return comments.may_ask(self.card.standing)

    @cached_property
    def offers(self) -> SafeString:
        """Colleagues whose opinion may be asked, as options of a form; "" for nobody."""
        if not self.may_ask:
            return SafeString("")
        if self.by.is_superuser:
            return options(comments.colleagues(self.by)[:OFFERED])
        return self.card.offers


def of(pause: Pause, by: User, card: Card) -> Talk:
    return Talk(pause, by, card)
