"""The world of the game: made once per file, in a transaction that is taken back at its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from django.test.utils import override_settings
from hypothesis.internal.conjecture.providers import HypothesisProvider

from tests.adversary import machine


@pytest.fixture(scope="module")
def one_world(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    here = override_settings(WAYSTATION_DATA=tmp_path_factory.mktemp("adversary"))
    # a game chooses from lists, so the numbers in the product's own source, which take seconds to
    # gather and change with it, are of no use: each game is as its seed makes it
    chosen = patch.object(HypothesisProvider, "_maybe_draw_constant", return_value=None)
    with django_db_blocker.unblock(), here, chosen, machine.one_world():
        yield
