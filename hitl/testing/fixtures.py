"""A pytest plugin: the engine as a fixture, on SQLite and on PostgreSQL.

In a `conftest.py`: `pytest_plugins = ["hitl.testing.fixtures"]`. By `-p` it would be read before
pytest-django has set up the settings of a project.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from hitl.testing.engine import Engine

SERVER = "WAYSTATION_TESTING_POSTGRESQL"
"""Environment variable: the URL of a server on which the kit may make databases."""


@pytest.fixture
def waystation() -> Iterator[Engine]:
    """The engine on a fresh SQLite database, which is the test's default database too."""
    yield from _in_place(Engine.on_sqlite())


@pytest.fixture
def waystation_postgresql() -> Iterator[Engine]:
    """The same on PostgreSQL; skipped where no server is named."""
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
