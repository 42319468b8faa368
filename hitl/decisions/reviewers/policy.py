"""Who may answer a question, and how: the rules of `Pause.review`, for every door.

`services.decide` asks here, and so do pages and API.

- **Reviewers**: whom the rules name, with the stages of escalation that were reached; where they
  name no reviewers, whoever takes part in the thread (owner, team, superusers). Others look and do
  not answer. A superuser is bound like everybody.
- **Who asked for the work** (owner of the thread, creator of the order, who began the run) may
  always cancel it. Under `self_approval: false` nothing else that lets the run go on: not in
  person, not through a delegate, not as somebody's delegate.
- **Quorum**: every answer but revise and cancel is an approval and needs that many different
  people, who all give the same one. Revise and cancel decide alone, also by somebody who voted
  before.
- **Stages**: where the rules name several groups of reviewers, each answers when it is its turn
  (`hitl.decisions.reviewers.turns`). One person approves at one stage.
- **Seats**: a person answers for himself, or for somebody who delegated to him. One person has one
  vote, and so has one seat.
- **Claims** bind all others while they last.
- **Service accounts** answer nothing, whatever rules or delegations name them. Each may cancel
  what it asked for itself.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Q, QuerySet
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import User, called
from checkpoints.text import dates
from hitl import models
from hitl.decisions.reviewers import delegations, outsiders, turns
from hitl.decisions.reviewers.outsiders import Outsider
from hitl.decisions.reviewers.refusals import NotAllowed as NotAllowed
from hitl.decisions.reviewers.refusals import NotNow as NotNow
from hitl.decisions.reviewers.refusals import Refused as Refused
from hitl.decisions.reviewers.seats import Seat as Seat
from hitl.decisions.reviewers.seats import seats_of as seats_of
from hitl.decisions.reviewers.turns import Turn
from hitl.decisions.reviewers.waiting import asked_of as asked_of
from hitl.decisions.reviewers.waiting import waiting_for as waiting_for
from hitl.models import Delegation, Vote, is_service
from runs.models import Pause
from runs.workflows.reviews import stages
from runs.workflows.reviews.review import Actors
from runs.workflows.sequence import CANCEL, REVISE

Actor = User | Outsider
"""Who answers: by an account, or by a link that was sent outside
(`hitl.decisions.reviewers.external_access`).
"""


def approves(action: str) -> bool:
    """Whether an answer lets the run go on, so that quorum and self-approval are about it."""
    return action not in {REVISE, CANCEL}


def quorum(pause: Pause) -> int:
    """How many people must approve, at all stages together."""
    return stages.quorum(pause.review)


def name_of(user: Actor | AbstractBaseUser) -> str:
    return user.address if isinstance(user, Outsider) else models.name_of(user)


def free_for(by: Actor | None, *, now: dt.datetime) -> Q:
    """Of questions that nobody else has claimed at that time."""
    free = Q(claimed_until=None) | Q(claimed_until__lte=now)
    return free | Q(claimed_by=by.pk) if isinstance(by, User) else free


def named(pause: Pause) -> list[Actors]:
    """Whom the rules name beside those that take part: reviewers whose turn it is, and the stages
    of escalation that were reached.
    """
    return [*turns.asked_now(pause), *escalated(pause)]


def escalated(pause: Pause) -> list[Actors]:
    """Whom the stages of the escalation added that were reached."""
    added: list[Actors] = pause.review.get("escalation", [])[: pause.stage]
    return added


def open_to_all(pause: Pause) -> bool:
    """Whether whoever takes part in the thread may answer: the rules name no reviewers."""
    return not turns.staged(pause) and not any(pause.review.get("reviewers", {}).values())


def askers(pause: Pause) -> set[int]:
    """Who asked for the work."""
    run = pause.run
    order = run.work_order
    return {
        run.thread.owner_id,
        *([order.created_by_id] if order else []),
        *([run.started_by_id] if run.started_by_id else []),
    }


class ReviewContextBase(Turn):
    """How whoever answers, by an account or from outside, stands to a question at one moment, as
    far as that is the same for both.
    """

    def __init__(self, pause: Pause, by: Actor) -> None:
        self.pause, self.by, self.now = pause, by, clock.now()

    @cached_property
    def votes(self) -> list[Vote]:
        if quorum(self.pause) < 2:
            return []
        if "votes" in getattr(self.pause, "_prefetched_objects_cache", {}):
            return sorted(self.pause.votes.all(), key=lambda vote: vote.pk)
        return list(
            Vote.objects.filter(pause=self.pause).select_related("voter", "seat").order_by("pk")
        )

    @property
    def holder(self) -> User | None:
        """Somebody else who has claimed the question."""
        pause = self.pause
        live = pause.claimed_until is not None and pause.claimed_until > self.now
        return pause.claimed_by if live and pause.claimed_by != self.by else None

    def check_claim(self) -> None:
        """Raise NotNow where somebody else has claimed it."""
        if (holder := self.holder) is not None and self.pause.claimed_until is not None:
            until = dates.told(self.pause.claimed_until)
            raise NotNow(
                "claimed",
                gettext(
                    "%(holder)s has claimed this question until %(until)s; answer "
                    "after that, or when it is released."
                )
                % {"holder": name_of(holder), "until": until},
            )

    @property
    def known(self) -> Any:
        """The data that the form begins with: after a vote, the data of that vote."""
        first = next(iter(self.said), None)
        return self.asked.known if first is None or first.payload is None else first.payload

    @property
    def progress(self) -> str:
        return f"{len(self.votes)} of {quorum(self.pause)} approvals"


class ReviewContext(ReviewContextBase):
    """How a person stands to a question at one moment.

    The pause has its run, thread and work order with it.
    """

    by: User

    def __init__(
        self,
        pause: Pause,
        by: User,
        *,
        seats: Sequence[Seat] | None = None,
        takes_part: bool = False,
    ) -> None:
        """With `takes_part` the caller knows that the person takes part in the thread."""
        super().__init__(pause, by)
        self.takes_part = takes_part or by.is_superuser or by.pk == pause.run.thread.owner_id
        self._given_seats = seats

    @cached_property
    def all_seats(self) -> Sequence[Seat]:
        """The person's own, and those of whom they stand in for here."""
        seats = self._given_seats
        if seats is None:
            seats = seats_of(self.by, now=self.now)
        return [seat for seat in seats if seat.only in {None, self.pause.pk}]

    @cached_property
    def seats(self) -> list[User]:
        """As whom the person may answer."""
        if is_service(self.by):
            return []
        if self.pause.panel_id is None and self.takes_part:
            return [self.by]  # the usual, found without a query
        if turns.staged(self.pause):
            return [seat.user for seat in self.all_seats if self.stage in self._stages_of(seat)]
        return [seat.user for seat in self.all_seats if self._sits(seat)]

    @cached_property
    def stages(self) -> list[str]:
        if not turns.staged(self.pause) or is_service(self.by):
            return []
        theirs = {name for seat in self.all_seats for name in self._stages_of(seat)}
        return [stage["name"] for stage in stages.of(self.pause.review) if stage["name"] in theirs]

    def _stages_of(self, seat: Seat) -> set[str]:
        """Whom the escalation added answers at whichever stage is open."""
        theirs = {
            stage["name"]
            for stage in stages.of(self.pause.review)
            if _names(stage.get("reviewers", {}), seat)
        }
        if any(_names(actors, seat) for actors in escalated(self.pause)):
            theirs |= {stage["name"] for stage in turns.open_now(self.pause)}
        return theirs

    @cached_property
    def asked_for_it(self) -> bool:
        return self.by.pk in askers(self.pause)

    @cached_property
    def handed_to(self) -> str | None:
        """The username of who answers this question in the person's place; None where nobody."""
        if "delegations" in getattr(self.pause, "_prefetched_objects_cache", {}):
            of_pause = list(self.pause.delegations.all())
        else:
            of_pause = delegations.at(self.pause)
        return next(
            (
                handed.to_user.get_username()
                for handed in of_pause
                if handed.from_user_id == self.by.pk and handed.ends_at > self.now
            ),
            None,
        )

    def _sits(self, seat: Seat) -> bool:
        within = self.pause.review.get("within")  # of a question that was narrowed
        asked = turns.asked_now(self.pause) if within is None or _names(within, seat) else []
        if any(_names(actors, seat) for actors in [*asked, *escalated(self.pause)]):
            return True
        thread = self.pause.run.thread
        part = (
            thread.owner_id == seat.user.pk
            or thread.team_id in seat.teams
            or (seat.since is None and seat.user.is_superuser)
        )
        return open_to_all(self.pause) and part

    @property
    def holds(self) -> bool:
        """Whether the claim is this person's own."""
        until = self.pause.claimed_until
        return self.pause.claimed_by_id == self.by.pk and until is not None and until > self.now

    def seat_for(self, action: str) -> User:
        """As whom the person gives this answer: himself where he may. Raises Refused."""
        if action == CANCEL and self.asked_for_it:
            self.check_claim()
            return self.by
        seats = self.seats
        if not seats and not approves(action):  # who approved may change their mind
            seats = [vote.seat for vote in self.votes if self._gave(vote) and vote.seat is not None]
        if not seats:
            raise self._no_reviewer()
        left = self._approving() if approves(action) else seats
        self.check_claim()
        return left[0]

    def _gave(self, vote: Vote) -> bool:
        return vote.voter_id == self.by.pk

    def _approving(self) -> list[User]:
        """The seats that may approve."""
        left = self.seats
        if not self.pause.review.get("self_approval", True):
            if self.asked_for_it:
                raise NotAllowed(
                    "self_approval",
                    gettext(
                        "You asked for this work, so somebody else must approve it. You may "
                        "send it back or cancel."
                    ),
                )
            asked = askers(self.pause)
            left = [user for user in left if user.pk not in asked]
            if not left:
                raise NotAllowed(
                    "self_approval",
                    gettext(
                        "You stand in for who asked for this work, so somebody else must "
                        "approve it."
                    ),
                )
        self._check_not_voted()
        mine = outsiders.key_of(self.by.email) if self.by.email else ""
        if mine and any(vote.external_key == mine for vote in self.votes):
            raise NotNow(
                "already_voted",
                gettext("Your vote was given by the link that was sent to %(email)s; %(progress)s.")
                % {"email": self.by.email, "progress": self.progress},
            )
        taken = {vote.seat_id for vote in self.votes}
        left = [user for user in left if user.pk not in taken]
        if not left:
            raise NotNow(
                "already_voted",
                gettext("Your vote was given by who stands in for you; %(progress)s.")
                % {"progress": self.progress},
            )
        return left

    def _check_not_voted(self) -> None:
        if any(map(self._gave, self.votes)):
            raise NotNow(
                "already_voted",
                gettext(
                    "You have voted already; %(progress)s. You may still send it back or cancel."
                )
                % {"progress": self.progress},
            )

    def check_may_approve(self) -> None:
        """Raise Refused unless the person could approve it, whoever has claimed it."""
        if not self.seats:
            raise self._no_reviewer()
        self._approving()

    def _no_reviewer(self) -> Refused:
        if is_service(self.by):
            return NotAllowed(
                "service_account",
                gettext(
                    "A service account decides nothing: it asks, "
                    "orders and reads. Nothing was decided: let a person answer."
                ),
            )
        if self.stages:
            self._check_not_voted()
            return self.not_asked()
        return NotAllowed(
            "not_a_reviewer",
            gettext("You may look at this question, but not answer it. Reviewers: %(who)s.")
            % {"who": self.who},
        )

    def refusal(self, action: str) -> Refused | None:
        """Why the person may not give this answer; None where he may."""
        try:
            self.seat_for(action)
        except Refused as error:
            return error
        return None

    @property
    def who(self) -> str:
        return who_answers(self.pause)


def who_answers(pause: Pause) -> str:
    """Names of the reviewers, in words: `ana, ben, group auditors`."""
    actors = named(pause)
    users = sorted({name for actor in actors for name in actor.get("users", [])})
    groups = sorted({name for actor in actors for name in actor.get("groups", [])})
    parts = [*users, *map(turns.group_words, groups)]
    if open_to_all(pause):
        team = pause.run.thread.team
        parts = [
            name_of(pause.run.thread.owner),
            *([turns.group_words(str(team))] if team else []),
            *parts,
        ]
    return ", ".join([*parts, *pause.outside.get("to", [])])


def _names(actors: Actors, seat: Seat) -> bool:
    """Whether the rules name whoever sits there, or one of their groups."""
    return seat.user.get_username() in actors.get("users", []) or bool(
        set(seat.teams.values()) & set(actors.get("groups", []))
    )


def answerers(pause: Pause) -> QuerySet[User]:
    """The people who may answer an open question now, with those who stand in for them: whom to
    tell of it.

    Without those who voted already, and under `self_approval: false` without who asked for the
    work.
    """
    reviewers = _named_by(named(pause))
    if (within := pause.review.get("within")) is not None:
        theirs = User.objects.filter(_named_by([within]))
        reviewers = _named_by(turns.asked_now(pause)) & Q(pk__in=theirs.values("pk"))
        reviewers |= _named_by(escalated(pause))
    thread = pause.run.thread
    if open_to_all(pause):
        reviewers |= Q(pk=thread.owner_id) | (Q(groups=thread.team_id) if thread.team_id else Q())
    people = User.objects.filter(reviewers, is_active=True, service_account=None)
    seats = people.exclude(
        pk__in=Vote.objects.filter(pause=pause, seat__isnull=False).values("seat")
    )
    barred = [] if pause.review.get("self_approval", True) else askers(pause)
    standing_in = Delegation.objects.active(now=clock.now()).filter(
        Q(pause=None) | Q(pause=pause), from_user__in=seats.exclude(pk__in=barred).values("pk")
    )
    able = User.objects.filter(
        Q(pk__in=seats.values("pk")) | Q(pk__in=standing_in.values("to_user")),
        is_active=True,
        service_account=None,
    )
    return able.exclude(
        pk__in=Vote.objects.filter(pause=pause, voter__isnull=False).values("voter")
    ).exclude(pk__in=barred)


def _named_by(actors: Sequence[Actors]) -> Q:
    """Of the people whom rules name, or whose groups they name."""
    users = {name for actor in actors for name in actor.get("users", [])}
    groups = {name for actor in actors for name in actor.get("groups", [])}
    return called(*users) | Q(groups__name__in=groups)
