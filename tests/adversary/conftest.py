"""The world of the game: made once per file, in a transaction that is taken back at its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test.utils import override_settings

from tests.adversary import machine


@pytest.fixture(scope="module")
def one_world(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    here = override_settings(WAYSTATION_DATA=tmp_path_factory.mktemp("adversary"))
    with django_db_blocker.unblock(), here, machine.one_world():
        yield
