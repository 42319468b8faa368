"""A house with books, suppliers and purchase orders."""

from __future__ import annotations

import pytest

from tests.worlds.books.booking import House


@pytest.fixture
def house(make_order, settings, tmp_path, ana):
    settings.WAYSTATION_SHARED = tmp_path / "shared"
    settings.WAYSTATION_FILES = [tmp_path / "inbox"]
    return House(make_order, tmp_path, ana)
