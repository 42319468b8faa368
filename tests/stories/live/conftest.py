"""The product with the doors of LangGraph's clients, which two files speak to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.stack import SlowStack, standing_alone
from tests.stories.live.langgraph_loads import LOADS


@pytest.fixture(scope="package")
def langgraph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    with standing_alone(tmp_path_factory.mktemp("langgraph"), LOADS) as stack:
        yield stack


@pytest.fixture(scope="module")
def server(langgraph: SlowStack) -> Iterator[SlowStack]:
    """While other tests have their turn it stands still."""
    with langgraph.awake():
        yield langgraph
