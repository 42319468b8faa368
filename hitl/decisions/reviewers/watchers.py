"""Which of some questions wait for which of many people: what `changes.inbox` says of one person,
for all who have their inbox open, in as many queries as for one.

The panels of the questions say whom they name, as they do for that queryset; a test holds the two
to each other.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import defaultdict
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from django.contrib.auth.models import Group

from checkpoints.database import clock
from checkpoints.database.people import NAME, User
from hitl.models import Delegation, Snooze, Vote
from runs.models import PanelMember, Pause
from runs.states import PauseStatus


class Standing(NamedTuple):
    """How a person stands to a question that they take part in, or were asked: what became of it
    is theirs to see.
    """

    waits: bool
    """It is in their inbox."""
    takes_part: bool


@dataclass
class WatchedQuestion:
    """What decides whom a question waits for, and where it stands in an inbox."""

    pk: uuid.UUID
    is_open: bool
    changed_at: dt.datetime
    deadline_at: dt.datetime | None
    closed_at: dt.datetime | None
    stage: int
    turn: int
    panel: str | None
    open_to_all: bool | None
    self_approval: bool | None
    owner: int
    team: int | None
    started_by: int | None
    standings: dict[int, Standing] = field(default_factory=dict)
    """Person → how they stand to it; who is not in it sees nothing of it."""


COLUMNS = (
    *("pk", "status", "changed_at", "deadline_at", "closed_at", "stage", "turn", "panel"),
    *("panel__open_to_all", "panel__self_approval"),
    *("run__thread__owner", "run__thread__team", "run__started_by"),
)


@dataclass(frozen=True)
class _Seat:
    """The person, or one for whom they stand in."""

    key: int
    name: str
    sees_all: bool = False
    may_take_part: bool = True
    since: dt.datetime | None = None
    only: uuid.UUID | None = None


class _Member(NamedTuple):
    """A line of a panel."""

    stage: int
    turn: int
    user: str
    group: str


class People:
    """As whom each of some people may answer, and whose teams that brings: read anew each time."""

    def __init__(self, people: Collection[int], now: dt.datetime) -> None:
        self.seats = _seats(people, now)
        self.teams: dict[int, set[int]] = defaultdict(set)
        self.groups: dict[int, set[str]] = defaultdict(set)
        keys = {seat.key for seats in self.seats.values() for seat in seats}
        of_people = Group.objects.filter(user__in=keys).values_list("user", "pk", "name")
        for member, team, group in of_people:
            self.teams[member].add(team)
            self.groups[member].add(group)

    @property
    def rights(self) -> dict[int, Hashable]:
        """Person → what changes where their rights do; who may answer nothing is not in it."""
        return {
            person: tuple((seat, frozenset(self.groups[seat.key])) for seat in seats)
            for person, seats in self.seats.items()
        }


class _Known(People):
    """What is known of the people and of the panels, read once for all questions."""

    def __init__(self, questions: list[WatchedQuestion], people: Collection[int]) -> None:
        now, pauses = clock.now(), [question.pk for question in questions]
        super().__init__(people, now)
        self.members: dict[str, list[_Member]] = defaultdict(list)
        panels = {question.panel for question in questions if question.panel is not None}
        for panel, stage, turn, user, group in PanelMember.objects.filter(
            panel__in=panels
        ).values_list("panel", "stage", "turn", "username", "group"):
            self.members[panel].append(_Member(stage, turn, user, group))
        self.voted: dict[uuid.UUID, set[int | None]] = defaultdict(set)
        for pause, voter, seat in Vote.objects.filter(pause__in=pauses).values_list(
            "pause", "voter", "seat"
        ):
            self.voted[pause] |= {voter, seat}
        self.hidden = set(
            Snooze.objects.filter(pause__in=pauses, person__in=people, until__gt=now).values_list(
                "pause", "person"
            )
        )


def _seats(people: Collection[int], now: dt.datetime) -> dict[int, list[_Seat]]:
    """The own seat of each person who may answer, first, and those that they stand in for."""
    seats = {
        key: [_Seat(key, name, sees_all=is_superuser)]
        for key, name, is_superuser in User.objects.filter(
            pk__in=people, is_active=True, service_account=None
        ).values_list("pk", NAME, "is_superuser")
    }
    given = Delegation.objects.active(now=now).filter(
        to_user__in=list(seats), from_user__service_account=None
    )
    columns = ("from_user", f"from_user__{NAME}", "from_user__is_active", "from_user__is_superuser")
    for to, key, name, is_active, is_superuser, since, only in given.values_list(
        "to_user", *columns, "starts_at", "pause"
    ):
        seat = _Seat(key, name, may_take_part=is_active or is_superuser, since=since, only=only)
        seats[to].append(seat)
    return seats


def watched(
    pauses: Collection[uuid.UUID], people: Collection[int]
) -> tuple[list[WatchedQuestion], dict[int, Hashable]]:
    """Those of some questions that there are, and how each of these people stands to them; and the
    people's rights, as `People` has them.
    """
    questions = [
        WatchedQuestion(pk, status == PauseStatus.OPEN, *more)
        for pk, status, *more in Pause.objects.filter(pk__in=pauses).values_list(*COLUMNS)
    ]
    known = _Known(questions, people)
    for question in questions:
        _stand(question, known)
    return questions, known.rights


def _stand(question: WatchedQuestion, known: _Known) -> None:
    reached = [
        member
        for member in known.members.get(question.panel or "", ())
        if member.stage <= question.stage
    ]
    asked = _Names(reached)
    in_turn = _Names([one for one in reached if not one.turn or one.turn & question.turn])
    for person, seats in known.seats.items():
        here = [seat for seat in seats if seat.only in {None, question.pk}]
        takes_part = _takes_part(question, seats[0], known)
        if takes_part or any(_was_asked(question, seat, asked, known) for seat in here):
            waits = (
                question.is_open
                and (question.pk, person) not in known.hidden
                and any(_may_answer(question, person, seat, in_turn, known) for seat in here)
            )
            question.standings[person] = Standing(waits, takes_part)


class _Names:
    """Whom some lines of a panel name."""

    def __init__(self, members: list[_Member]) -> None:
        self._users = {member.user for member in members if member.user}
        self._groups = {member.group for member in members if member.group}

    def has(self, seat: _Seat, known: _Known) -> bool:
        return seat.name in self._users or not self._groups.isdisjoint(known.groups[seat.key])


def _takes_part(question: WatchedQuestion, seat: _Seat, known: _Known) -> bool:
    """As `policy` has it: who stands in for a superuser does not see all that that one sees."""
    return seat.sees_all or (
        seat.may_take_part
        and (question.owner == seat.key or question.team in known.teams[seat.key])
    )


def _was_asked(question: WatchedQuestion, seat: _Seat, names: _Names, known: _Known) -> bool:
    ended, since = question.closed_at, seat.since
    if ended is not None and since is not None and ended < since:
        return False
    to_all = question.panel is None or question.open_to_all
    return names.has(seat, known) or bool(to_all and _takes_part(question, seat, known))


def _may_answer(
    question: WatchedQuestion, person: int, seat: _Seat, names: _Names, known: _Known
) -> bool:
    if not _was_asked(question, seat, names, known):
        return False
    if question.panel is None:
        return True
    both = {person, seat.key}
    may_approve = question.self_approval or both.isdisjoint({question.owner, question.started_by})
    return may_approve and both.isdisjoint(known.voted[question.pk])
