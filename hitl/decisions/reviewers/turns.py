"""Whose turn it is, where the rules of a question name stages: which of them are open, and what
each of them is asked.

What counts are the votes. `Pause.turn` is written with each of them, under the row's lock, so that
lists and counts need no look at them.
"""

from __future__ import annotations

import copy
import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from django.utils.translation import gettext, ngettext

from checkpoints.database import clock
from hitl.decisions.reviewers.refusals import NotAllowed, NotNow, Refused
from hitl.models import Vote
from runs.models import Pause
from runs.workflows.reviews import stages
from runs.workflows.reviews.review import Actors, ReviewStage
from runs.workflows.reviews.stages import Status


def staged(pause: Pause) -> bool:
    return bool(stages.of(pause.review))


def open_now(pause: Pause) -> list[ReviewStage]:
    """The stages that wait for approvals, in the order of the rules."""
    return stages.within(pause.review, pause.turn)


def statuses(pause: Pause, votes: Iterable[Vote]) -> dict[str, Status]:
    """How each stage stands after these votes; {} where there are none."""
    return stages.statuses(pause.review, [vote.stage for vote in votes])


def asked_now(pause: Pause) -> list[Actors]:
    """Whom the rules ask at the moment, without the stages of the escalation."""
    if staged(pause):
        return [stage.get("reviewers", {}) for stage in open_now(pause)]
    return [pause.review.get("reviewers", {})]


def group_words(name: str) -> str:
    return gettext("group %(name)s") % {"name": name}


def asked(stage: ReviewStage) -> list[str]:
    """Whom a stage names, in words: `ana`, `group legal`, an address."""
    reviewers = stage.get("reviewers", {})
    groups = [group_words(name) for name in reviewers.get("groups", [])]
    return [*reviewers.get("users", []), *groups, *stage.get("external", [])]


def titles(pause: Pause, names: Iterable[str]) -> str:
    """These stages, as people see them: `Legal and Finance`."""
    wanted = set(names)
    titled = [stages.titled(stage) for stage in stages.of(pause.review) if stage["name"] in wanted]
    return gettext(" and ").join(filter(None, [", ".join(titled[:-1]), *titled[-1:]]))


def before(pause: Pause, name: str) -> list[str]:
    """The stages that one comes directly after."""
    return next(
        (stage.get("after", []) for stage in stages.of(pause.review) if stage["name"] == name), []
    )


def each_brings_its_own(pause: Pause) -> bool:
    """Whether each stage brings data of its own.

    What is decided of tool calls is the same for all: the first vote says it.
    """
    return staged(pause) and bool(pause.required_inputs) and not pause.calls


def brought(votes: Iterable[Vote]) -> dict[str, Any]:
    """The data of all stages so far, by their names."""
    parts = (vote.payload for vote in votes if isinstance(vote.payload, Mapping))
    return {name: value for part in parts for name, value in part.items()}


def asked_at(pause: Pause, stage: str) -> Pause:
    """The question as one stage is asked it: with its part of the data alone.

    It is a copy to read from; "" is whoever has no turn.
    """
    if not each_brings_its_own(pause):
        return pause
    part = copy.copy(pause)
    part.required_inputs = stages.inputs(pause.required_inputs, stage)
    part.known = {name: value for name, value in pause.known.items() if name == stage}
    return part


class Turn(ABC):
    """How whoever answers stands to the stages of a question's review."""

    pause: Pause
    now: dt.datetime
    wanted = ""
    """The stage that an answer names."""

    def look_again(self) -> None:
        """Read anew how the question stands; who answers, and what they named, stays."""
        for name in ("votes", "stage", "seats", "stages"):
            self.__dict__.pop(name, None)
        self.pause.refresh_from_db()
        self.now = clock.now()

    @property
    @abstractmethod
    def votes(self) -> list[Vote]:
        """The approvals so far, in the order in which they were given."""

    @property
    @abstractmethod
    def stages(self) -> list[str]:
        """The stages of the review at which whoever answers may approve, whether or not it is their
        turn; [] where the rules name none.
        """

    @cached_property
    def stage(self) -> str:
        """The stage at which an approval counts now: the one that was named, or else the first; ""
        where it is not their turn.
        """
        mine = self.stages
        return next(
            (
                stage["name"]
                for stage in open_now(self.pause)
                if stage["name"] in mine and self.wanted in ("", stage["name"])
            ),
            "",
        )

    @property
    def asked(self) -> Pause:
        """The question as they are asked it: with the data that their stage brings."""
        return asked_at(self.pause, self.stage)

    @property
    def said(self) -> list[Vote]:
        """The votes whose data theirs must be the same as."""
        if not each_brings_its_own(self.pause):
            return self.votes
        return [vote for vote in self.votes if vote.stage == self.stage]

    def not_asked(self) -> Refused:
        """Why somebody has no turn at any stage, or not at the one that they named."""
        theirs = [name for name in self.stages if self.wanted in ("", name)]
        if not theirs:
            return NotAllowed(
                "not_a_reviewer",
                gettext(
                    "You are asked at no stage of this review, or not at the one that you named; "
                    "nothing was decided."
                ),
            )
        standing = statuses(self.pause, self.votes)
        for name in theirs:
            if standing[name] == "waiting":
                missing = [
                    other for other in before(self.pause, name) if standing[other] != "complete"
                ]
                return NotNow(
                    "not_your_turn",
                    ngettext(
                        "It is not your turn yet: %(stage)s is asked once %(missing)s has "
                        "approved.",
                        "It is not your turn yet: %(stage)s is asked once %(missing)s have "
                        "approved.",
                        len(missing),
                    )
                    % {
                        "stage": titles(self.pause, [name]),
                        "missing": titles(self.pause, missing),
                    },
                )
        who = ", ".join(vote.who for vote in self.votes if vote.stage in theirs)
        return NotNow(
            "stage_answered",
            gettext("%(pause)s has approved already (%(who)s); nothing was decided twice.")
            % {"pause": titles(self.pause, theirs), "who": who},
        )
