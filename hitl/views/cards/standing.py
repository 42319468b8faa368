"""What the pause card says of people: who answers, who has voted, who is on it, and why this person
may or may not.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.conf import settings
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext

from checkpoints.database.people import User
from checkpoints.text import invisible
from hitl.decisions.reviewers import delegations, external_access, policy, suspending, turns
from hitl.decisions.reviewers.policy import ReviewContext
from hitl.models import Vote, name_of
from hitl.rendering import word_diff
from hitl.rendering.own_words import own
from runs.definitions import compatibility, due_times
from runs.models import Pause
from runs.workflows.reviews import stages
from runs.workflows.reviews.stages import Status
from runs.workflows.sequence import APPROVE, CANCEL, REVISE


@dataclass(frozen=True, kw_only=True)
class StageLine:
    """A stage of the review, as the card shows it."""

    name: str
    title: str
    question: str
    status: Status
    who: str
    """Whom its rules name."""
    wanted: int
    """How many of them must approve."""
    votes: Sequence[Vote]
    waits_for: str
    """The stages that must be complete first and are not, in words."""
    yours: bool
    due: dt.datetime | None
    """When it must be complete, where it is open and has a deadline of its own."""


@dataclass(frozen=True)
class Card:
    """How a person stands to an open question, in words; an empty reason is none."""

    pause: Pause
    standing: ReviewContext

    @cached_property
    def approve(self) -> str:
        """Why an answer that lets the run go on is refused."""
        return self._why(APPROVE)

    @cached_property
    def revise(self) -> str:
        return self._why(REVISE)

    @cached_property
    def cancel(self) -> str:
        return self._why(CANCEL)

    def _why(self, action: str) -> str:
        if self.pause.overdue:
            return gettext("The time to answer is over; by its rules the question is settled now.")
        return str(self.standing.refusal(action) or "")

    @property
    def whys(self) -> list[str]:
        """Each reason once."""
        return list(dict.fromkeys(filter(None, (self.approve, self.revise, self.cancel))))

    @property
    def key(self) -> str:
        """Changes with what may be pressed, and with who has claimed it."""
        holder = self.holder.pk if self.holder is not None else "own" if self.holds else ""
        may = "".join("-" if why else "+" for why in (self.approve, self.revise, self.cancel))
        return f"{may}{holder}"

    @property
    def shown(self) -> bool:
        """Whether there is more to say than that whoever sees it answers."""
        return (
            self.pause.panel_id is not None
            or bool(self.outside)
            or bool(self.on_behalf_of)
            or self.handed_to is not None
            or bool(self.colleagues)
        )

    @property
    def handed_to(self) -> str | None:
        return self.standing.handed_to

    @cached_property
    def colleagues(self) -> list[User]:
        """To whom the person may hand the question over, as far as the form offers them."""
        own = not self.approve and self.standing.by in self.standing.seats
        return self.of_own_teams if own else []

    @cached_property
    def of_own_teams(self) -> list[User]:
        """People of the person's teams, as many as forms offer; read once for all of them."""
        return delegations.offered(self.standing.by)

    @cached_property
    def offers(self) -> SafeString:
        """They, as the options of a form: two forms of a card have all of them."""
        return options(self.of_own_teams)

    @property
    def who(self) -> str:
        return self.standing.who

    @cached_property
    def changed_code(self) -> list[compatibility.ChangedStep]:
        """The steps ahead whose code has changed, or is missing, since the work was asked for."""
        return compatibility.changed_ahead(self.pause)

    @property
    def held_code(self) -> list[str]:
        """Titles of those of them before which the run waits for an operator."""
        return [step.title for step in self.changed_code if step.held]

    @cached_property
    def outside(self) -> list[str]:
        """Addresses of people without an account who may answer too."""
        return external_access.asked(self.pause)

    @property
    def quorum(self) -> int:
        return policy.quorum(self.pause)

    @property
    def votes(self) -> list[Vote]:
        return self.standing.votes

    @property
    def asked(self) -> Pause:
        """The question as this person is asked it."""
        return self.standing.asked

    @property
    def stage(self) -> str:
        """The stage of the review at which this person's approval counts; "" where none."""
        return self.standing.stage

    @property
    def choices(self) -> list[StageLine]:
        """The open stages that this person may choose from, where there are several; those that
        bring data of their own are shown one at a time.
        """
        if self.approve or turns.each_brings_its_own(self.pause):
            return []
        mine = self.standing.stages
        named = [stage for stage in self.stages if stage.name in mine and stage.status == "open"]
        return named if len(named) > 1 else []

    @property
    def your_stage(self) -> StageLine | None:
        return next((stage for stage in self.stages if stage.yours), None)

    @cached_property
    def stages(self) -> list[StageLine]:
        """The stages of the review, in the order of the rules."""
        standing, due = turns.statuses(self.pause, self.votes), due_times.of_stages(self.pause)
        return [
            StageLine(
                name=stage["name"],
                title=stages.titled(stage),
                question=stage.get("question", ""),
                status=standing[stage["name"]],
                who=", ".join(turns.asked(stage)),
                wanted=stage.get("quorum", 1),
                votes=[vote for vote in self.votes if vote.stage == stage["name"]],
                waits_for=turns.titles(
                    self.pause,
                    [name for name in stage.get("after", []) if standing[name] != "complete"],
                ),
                yours=self.stage == stage["name"] and not self._voted_at(stage["name"]),
                due=due.get(stage["name"]) if standing[stage["name"]] == "open" else None,
            )
            for stage in stages.of(self.pause.review)
        ]

    def _voted_at(self, stage: str) -> bool:
        seats = {self.standing.by.pk, *(seat.pk for seat in self.standing.seats)}
        return any(vote.stage == stage and vote.seat_id in seats for vote in self.votes)

    @property
    def self_approval(self) -> bool:
        return bool(self.pause.review.get("self_approval", True))

    @property
    def on_behalf_of(self) -> User | None:
        """For whom this person would answer, where that is not himself."""
        seats = self.standing.seats
        return seats[0] if seats and seats[0] != self.standing.by else None

    @property
    def holder(self) -> User | None:
        return self.standing.holder

    @property
    def holds(self) -> bool:
        return self.standing.holds

    @cached_property
    def may_claim(self) -> bool:
        """Whether claiming is of use: others may answer too."""
        return (
            not self.approve
            and not self.holds
            and not turns.staged(self.pause)
            and (self.pause.panel_id is not None or self.pause.run.thread.team_id is not None)
        )

    @property
    def claim_minutes(self) -> int:
        return max(1, round(settings.WAYSTATION_CLAIM_SECONDS / 60))

    @property
    def may_take_over(self) -> bool:
        if self.holder is None or not self.standing.by.is_superuser:
            return False
        try:
            self.standing.check_may_approve()
        except policy.Refused:
            return False
        return True

    @property
    def known(self) -> Any:
        return self.standing.known

    @property
    def asks_why(self) -> list[str]:
        """The answers, as their buttons say, that need a reason; a revision always has its
        words.
        """
        return [own(self.pause.labels.get(name, name.capitalize())) for name in self._need_reason]

    @property
    def _need_reason(self) -> list[str]:
        return [
            name
            for name in self.pause.review.get("reason_required", [])
            if name in {*self.pause.answers, CANCEL} - {REVISE}
        ]

    @property
    def reason_goes_with(self) -> str:
        """The one answer that the field for a reason belongs to; "" where there are several, or
        where it is a cancellation, which asks on its own.
        """
        return _only([name if name != CANCEL else "" for name in self._need_reason])

    @property
    def data_goes_with(self) -> str:
        """The one answer that the fields of the question belong to; "" where there are several, and
        where each of several calls has a choice of its own.
        """
        if self.pause.calls:
            return ""
        return _only([name for name in self.pause.answers if name not in {REVISE, CANCEL}])

    @property
    def cancel_asks_why(self) -> bool:
        return CANCEL in self.pause.review.get("reason_required", [])

    @property
    def may_edit(self) -> bool:
        return (
            bool(self.pause.review.get("edits"))
            and APPROVE in self.pause.answers
            and not self.votes
        )

    @property
    def edited(self) -> list[word_diff.DiffLine]:
        """What the votes changed in the content."""
        first = next(iter(self.votes), None)
        return (
            word_diff.compare(self.pause.content, first.edited_content)
            if first is not None and first.edited_content
            else []
        )


def options(people: Iterable[User]) -> SafeString:
    """People as options, each by the username and with the name."""
    named = [(escape(person.get_username()), invisible.html(name_of(person))) for person in people]
    rows = [f'<option value="{username}">{name}</option>' for username, name in named]
    return mark_safe("".join(rows))  # noqa: S308  # both are escaped


def _only(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ""


def of(pause: Pause, by: User, *, takes_part: bool = False) -> Card:
    """`takes_part` is as for `ReviewContext`."""
    return Card(pause, suspending.context_of(pause, by, takes_part=takes_part))
