"""Everybody makes every move in any order, and nothing is done behind a review without its
reviewers (P6, P1, P11).
"""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck
from hypothesis.stateful import run_state_machine_as_test

from tests.adversary import schemes
from tests.adversary.machine import TOTALS, Adversary, Game
from tests.adversary.world import MAIL_DOMAIN, SECRET, TEAMS_SECRET
from tests.databases.undone import undone

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("one_world")]

CHECKS = [
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.function_scoped_fixture,
    HealthCheck.filter_too_much,
]
QUICK = hypothesis.settings(
    max_examples=8,
    stateful_step_count=30,
    deadline=None,
    database=None,
    derandomize=True,
    print_blob=False,
    suppress_health_check=CHECKS,
)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture, settings: Any) -> None:
    """Thousands of refusals, and steps that fail on purpose."""
    caplog.set_level(logging.CRITICAL)
    settings.WAYSTATION_REPLY_ADDRESS = f"reply@{MAIL_DOMAIN}"
    settings.WAYSTATION_REPLY_SECRETS = [SECRET]
    settings.WAYSTATION_SLACK_SIGNING_SECRET = SECRET
    settings.WAYSTATION_TEAMS_SECRETS = [TEAMS_SECRET]
    settings.WAYSTATION_TELEGRAM_SECRET = SECRET


def test_nothing_is_done_behind_a_review_without_its_reviewers(
    tmp_path: Any, settings: Any
) -> None:
    """P6, P1, P11, C20: and the product's invariants and its ledger's verification say so too."""
    settings.WAYSTATION_DATA = tmp_path
    minutes = float(os.environ.get("ADVERSARY_MINUTES", "0"))
    if not minutes:
        run_state_machine_as_test(Adversary, settings=QUICK)
        return
    until = time.monotonic() + 60 * minutes
    longer = hypothesis.settings(QUICK, derandomize=False, max_examples=10, stateful_step_count=50)
    breaches = 1
    try:
        while time.monotonic() < until:
            run_state_machine_as_test(Adversary, settings=longer)
        breaches = 0
    finally:
        told = {name: TOTALS.pop(name, 0) for name in ("games", "moves", "effects", "decisions")}
        summary = {**told, "breaches": breaches, "by_door": dict(TOTALS.most_common())}
        Path(os.environ["ADVERSARY_SUMMARY"]).write_text(json.dumps(summary))


@pytest.mark.parametrize("name", schemes.SCHEMES)
def test_a_scheme_comes_to_nothing(name: str, tmp_path: Any, settings: Any) -> None:
    """Each attack that was done to the product once, and each that stands beside one."""
    settings.WAYSTATION_DATA = tmp_path
    with undone():
        game = Game()
        schemes.SCHEMES[name](game)
        if game.breaches:
            pytest.fail(game.told() + "\nInvariants: " + str(game.broken()), pytrace=False)
        assert game.broken() == []
