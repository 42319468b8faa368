"""What a graph goes on with, for the step that says so and the runner that hands it in; and what
all modules of graphs share.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GRAPH_RUNS = "graph_runs"
"""State key that says where the graph of each step stands: `SavedGraphPosition`, by step."""
REQUIREMENTS = "extensions/langgraph/requirements.txt"


def installed() -> bool:
    return importlib.util.find_spec("langgraph") is not None


@dataclass(frozen=True, kw_only=True)
class GraphInput:
    """What a graph goes on with: its input, the answer to an interrupt, or nothing."""

    input: Mapping[str, Any] | None = None
    answer: tuple[str, Any] | None = None
    """An interrupt's id, and the value that it gives."""
    back_to: str = ""
    """The checkpoint to branch off; "" for where the graph stands."""
