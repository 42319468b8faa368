"""The machine's own limit: what one bare commit costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.workload import Floor, figure


def measure() -> Iterator[dict[str, Any]]:
    yield figure("bare commit, p50", Floor().sample(1000) * 1000, "ms")
