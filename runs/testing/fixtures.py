"""A pytest plugin: the engine as a fixture, on SQLite and on PostgreSQL.

`pytest -p runs.testing.fixtures`, or in a `conftest.py`: `pytest_plugins =
["runs.testing.fixtures"]`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from runs.testing.engine import Engine

SERVER = "WAYSTATION_TESTING_POSTGRESQL"
"""Environment variable: the URL of a server on which the kit may make databases."""


@pytest.fixture
def waystation() -> Iterator[Engine]:
    """The engine on a fresh SQLite database, which is the test's default database too."""
    from runs.testing.engine import Engine  # here: a plugin is read before Django is set up

    yield from _in_place(Engine.on_sqlite())


@pytest.fixture
def waystation_postgresql() -> Iterator[Engine]:
    """The same on PostgreSQL; skipped where no server is named."""
    from runs.testing.engine import Engine  # as above

    if not os.environ.get(SERVER):
        pytest.skip(f"{SERVER} names no server, such as postgresql://user@host/postgres")
    yield from _in_place(Engine.on_postgresql(os.environ[SERVER]))


@pytest.fixture(params=["waystation", "waystation_postgresql"], ids=["sqlite", "postgresql"])
def waystation_anywhere(request: pytest.FixtureRequest) -> Engine:
    """Each of the two, one after the other."""
    engine: Engine = request.getfixturevalue(request.param)
    return engine


def _in_place(engine: Engine) -> Iterator[Engine]:
    try:
        with engine.placed():
            yield engine
    finally:
        engine.close()
