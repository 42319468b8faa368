"""The machine finds each hole that the product had, when it is put back: the oracle by effects, the
invariants by rows.
"""

from __future__ import annotations

import logging
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import run_state_machine_as_test

from tests.adversary import holes, schemes
from tests.adversary.holes import Hole
from tests.adversary.machine import Adversary, Game, Payments, Reviews
from tests.adversary.reviews import holes as reviews
from tests.databases.undone import undone

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.one_database,
    pytest.mark.usefixtures("one_world"),
]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture, settings: Any, tmp_path: Any) -> None:
    caplog.set_level(logging.CRITICAL)
    settings.WAYSTATION_DATA = tmp_path


GAMES = [(hole, scheme) for hole in [*holes.HOLES, *reviews.HOLES] for scheme in hole.schemes]
BOUND = hypothesis.settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
SHORT = hypothesis.settings(BOUND, max_examples=60, stateful_step_count=12)


@pytest.mark.parametrize(("hole", "name"), GAMES, ids=str)
def test_a_hole_that_is_put_back_is_found(
    hole: Hole, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: by the oracle, and by `manage.py invariants` without it."""
    with undone():
        game = Game()
        with monkeypatch.context() as patch:
            hole.open(patch)
            schemes.SCHEMES[name](game)
        assert game.breaches, f"The oracle saw nothing.{game.told()}"
        assert not hole.told or hole.told & set(game.broken()), f"{game.broken()}{game.told()}"


class Seen(BaseException):
    """A breach that ends the games at once: Hypothesis would play an exception's game again."""


def games(kind: type[Adversary], seed: int) -> type[Adversary]:
    """Games of this kind, the same ones each time."""
    return hypothesis.seed(seed)(type(kind.__name__, (kind,), {"tells": Seen}))


def test_a_game_at_random_finds_a_hole_within_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody tells the machine where the hole is: here that data are taken which were not asked
    for, and answers after the deadline.
    """
    holes.take_what_was_not_asked_for(monkeypatch)
    holes.count_for_ever(monkeypatch)
    with pytest.raises(Seen, match="The story"):
        run_state_machine_as_test(games(Payments, 12), settings=BOUND)


@pytest.mark.parametrize("hole", reviews.HOLES, ids=str)
def test_a_game_at_random_finds_each_hole_in_reviews_of_templates(
    hole: Hole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each within a bound of short games, told nothing."""
    hole.open(monkeypatch)
    with pytest.raises(Seen, match="The story"):
        run_state_machine_as_test(games(Reviews, hole.seed), settings=SHORT)
