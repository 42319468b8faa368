"""One question, every door, at once: one outcome, no server error, every loser told who was first
(P1, P2, F0).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection

from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.matrix.races.doors import DOORS, TWICE, Tally, ask, one_question, people, race
from tests.matrix.races.starters import (
    LATE,
    Ask,
    ready,
)
from tests.worlds.histories.whole_story import broken

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("file_database"),
    pytest.mark.both_databases,
]


def held(tally: Tally) -> None:
    assert not tally.wrong, "\n".join(tally.wrong[:20])
    assert broken(deep=False, late=LATE) == {}


def test_of_any_two_doors_one_wins(make_order: Ask) -> None:
    """P1, F0, F8, F23: each door with itself and with some others, since most doors are alike;
    `make bench ARGS=races` has all pairs, twenty at a time.
    """
    tally, two, names = Tally(), people(2), list(DOORS)
    pairs = [
        (name, names[(at + far) % len(names)])
        for at, name in enumerate(names)
        for far in ((0, 1, 7) if connection.vendor == "postgresql" else (1,))
    ]
    for pair in (pair for pair in pairs if set(pair) != TWICE):
        race(ask(ready(make_order, two[0]), two), pair, two, at_once, tally)
    held(tally)


@pytest.mark.one_database
def test_who_comes_late_is_told_who_was_first(make_order: Ask) -> None:
    """P1: through every door after each of five outcomes, one after the other at the same question,
    so no matter of the database; those that end the order come last.
    """
    tally, everybody = Tally(), people(len(DOORS) + 1)
    late = sorted(DOORS, key=lambda name: (DOORS[name].ends, not DOORS[name].answers))
    for first in ("rest", "page, revise", "page, cancel", "link, outside", "expiry"):
        names = one_question([first, *late]) if first == "expiry" else [first, *late]
        racers = everybody[: len(names)]
        race(ask(ready(make_order, racers[0]), racers), names, racers, one_by_one, tally)
    held(tally)


def one_by_one(*jobs: Callable[[], object]) -> list[object]:
    return [job() for job in jobs]


def test_of_all_doors_at_once_one_wins(make_order: Ask) -> None:
    """P1, F0: one person through each door, again and again; every other time the deadline comes
    too.
    """
    tally, everybody = Tally(), people(len(DOORS))
    for turn in range(4 if connection.vendor == "postgresql" else 2):
        names = list(DOORS)[turn:] + list(DOORS)[:turn]
        names = one_question(names) if turn % 2 else [name for name in names if name != "expiry"]
        race(
            ask(ready(make_order, everybody[0]), everybody),
            names,
            everybody[: len(names)],
            at_once,
            tally,
        )
    held(tally)
