"""Votes, claims and undos through every door at once: one outcome, no server error, every loser
told (P1, F0, F8).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from hitl.models import UNDO, Decision, Vote
from runs.models import Pause, Run, WorkOrder
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.matrix.races.doors import (
    DOORS,
    OVER,
    Question,
    Racer,
    Told,
    ask,
    outside_of,
    page,
    people,
    rest,
)
from tests.matrix.races.starters import LATE, ready
from tests.worlds.histories.whole_story import broken

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("file_database"),
    pytest.mark.both_databases,
]

VOTES = (
    "page",
    "rest",
    "rest, of the order",
    "socket",
    "link",
    "link, outside",
    "reply to a mail",
    "button in Slack",
    "words in Teams",
    "button in Telegram",
    "message",
    "command",
)
"""Doors that approve, one each."""
Ask = Callable[..., WorkOrder]


def whole() -> None:
    assert broken(deep=False, late=LATE) == {}


def through(at: Question, names: tuple[str, ...], who: list[Racer]) -> list[Told]:
    told = at_once(
        *(partial(DOORS[name].go, at, person) for name, person in zip(names, who, strict=True))
    )
    assert not [one for one in told if isinstance(one, Exception) or one.status >= 500], told
    return told


@pytest.mark.parametrize("ends", ["", "page, cancel", "expiry"])
def test_of_votes_through_every_door_the_quorum_closes_the_question_once(
    make_order: Ask, ends: str
) -> None:
    """P1, F0: page × REST × socket × links × message × command, with a cancel or the deadline among
    them.
    """
    names = (*VOTES, *([ends] if ends else []))
    who = people(len(names))
    at = ask(ready(make_order, who[0]), who)
    rules = {**Pause.objects.get(pk=at.key).review, "quorum": 3}
    Pause.objects.filter(pk=at.key).update(review=rules)
    told = through(at, names, who)
    pause, votes = Pause.objects.get(pk=at.key), list(Vote.objects.filter(pause=at.key))
    decisions = list(Decision.objects.filter(pause=at.key))
    if pause.status == "expired":
        assert decisions == []
    elif decisions[0].action == "cancel":
        assert pause.status == "cancelled"
    else:
        assert (len(votes), len(decisions[0].votes), pause.status) == (3, 3, "answered")
    assert len(votes) == pause.approvals <= 3
    voted = {vote.voter.username if vote.voter else vote.external for vote in votes}
    for name, person, one in zip(names, who, told, strict=True):
        counted = (
            outside_of(person.user) if DOORS[name].outside else person.user.username
        ) in voted
        late = any(
            words in one.words
            for words in ("lready", "expired", "closed", "answered first", "decided_by", OVER)
        )
        assert name == ends or counted or late or one.done, f"{name} was told {one}"
    whole()


def test_of_claims_and_answers_at_once_one_holds(make_order: Ask) -> None:
    """F0: who claims, who answers, who comes too late; a claim that was won keeps the others out,
    whichever their door.
    """
    who = people(6)
    at = ask(ready(make_order, who[0]), who)
    claims = [
        partial(page, at, who[0], f"/pauses/{at.pause}/claim"),
        partial(rest, at, who[1], f"pauses/{at.pause}/claim"),
    ]
    doors = [
        partial(DOORS[name].go, at, person)
        for name, person in zip(("page", "socket", "link", "link, outside"), who[2:], strict=True)
    ]
    told = at_once(*claims, *doors)
    assert not [one for one in told if isinstance(one, Exception) or one.status >= 500], told
    pause, decisions = Pause.objects.get(pk=at.key), Decision.objects.filter(pause=at.key).count()
    answered, claimed = sum(one.done for one in told[2:]), sum(one.done for one in told[:2])
    assert decisions == answered == (pause.status == "answered")
    assert answered or claimed == 1, told
    assert claimed <= 1
    refusals = [one for one in told if not one.done]
    assert all(refusal.status in {403, 409, 410} and refusal.words for refusal in refusals), (
        refusals
    )
    whole()


def test_of_undos_cancels_and_the_run_at_once_one_holds(make_order: Ask) -> None:
    """An answer is taken back once, or the order ended, or the run went on: never two of them."""
    who = people(3)
    for turn in range(4):
        at = ask(ready(make_order, who[0]), who)
        Pause.objects.filter(pk=at.key).update(review={"undo": 60}, outside={})
        assert DOORS["rest"].go(at, who[0]).done
        given = Decision.objects.get(pause=at.key)
        jobs: list[Callable[[], Any]] = [
            partial(rest, at, who[0], f"decisions/{given.shown_id}/undo"),
            partial(page, at, who[0], f"/decisions/{given.shown_id}/undo"),
            partial(rest, at, who[1], f"work-orders/{at.order}/cancel"),
        ]
        told = at_once(*(jobs[turn % 2 :] if turn < 3 else jobs[:2]))
        assert not [one for one in told if isinstance(one, Exception) or one.status >= 500], told
        undone = Decision.objects.filter(undoes=given, action=UNDO).count()
        run = Run.objects.get(thread__runs__pk=Pause.objects.get(pk=at.key).run_id)
        again = Pause.objects.filter(run=run).exclude(pk=at.key)
        assert undone <= 1 and again.count() == undone
        assert (run.status == "paused") == again.filter(status="open").exists()
        assert run.status in {"paused", "cancelled"}
        late = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=2)
        assert Run.objects.filter(pk=run.pk, due_at__gt=late).count() == 0
    whole()
