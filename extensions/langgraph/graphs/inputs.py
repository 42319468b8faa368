"""What a graph goes on with, for the step that says so and the runner that hands it in; and what
all modules of graphs share.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

QUESTION = "langgraph.question"
"""The step that asks one of several interrupts, in a child run of its own."""
GRAPH_RUNS = "graph_runs"
"""State key that says where the graph of each step stands: `SavedGraphPosition`, by step."""
REQUIREMENTS = "extensions/langgraph/requirements.txt"


def installed() -> bool:
    return importlib.util.find_spec("langgraph") is not None


@dataclass(frozen=True, kw_only=True)
class GraphInput:
    """What a graph goes on with: its input, the answers to interrupts, or nothing."""

    input: Mapping[str, Any] | None = None
    answers: Mapping[str, Any] = field(default_factory=dict)
    """An interrupt's id → the value that it gives."""
    back_to: str = ""
    """The checkpoint to branch off; "" for where the graph stands."""


@dataclass(frozen=True, kw_only=True)
class SavedGraphPosition:
    """Where a step's graph stands, as our state says."""

    space: str
    """Of its checkpoints on the thread."""
    checkpoint: str
    """LangGraph's id."""
    status: Literal["asked", "halted", "done"]
    shape: str
    """Digest of the graph's nodes and edges: who goes on with another graph is told."""
    interrupt: str = ""
    digest: str = ""
    """Of what was asked."""
    asked: Sequence[Sequence[str]] = field(default_factory=list)
    """What child runs ask at once: the name of each, the interrupt's id, and the digest of what is
    asked. A list, since what joins the state takes the place of a list, and is merged with an
    object."""
