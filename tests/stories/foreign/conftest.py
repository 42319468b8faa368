"""What those who use the pages of others decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.databases.copies import TOKENS
from tests.servers.stack import SlowStack

Decided = Callable[[], list[tuple[Any, ...]]]


@pytest.fixture
def decided(server: SlowStack) -> Decided:
    """What Ana sees that was decided since the test began: how, by whom, through which door, with
    which words.
    """

    def rows() -> list[Any]:
        path = "/api/v1/decisions?sort=oldest"
        return list(server.call("GET", path, token=TOKENS["ana"])[1]["results"])

    before = len(rows())
    return lambda: [
        (one["action"], one["decided_by"], one["via"], one["edited_content"] or one["feedback"])
        for one in rows()[before:]
    ]
