"""What a step works through inside, as its page draws it: for kinds of steps that run a graph of
their own. Plain data.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

START, END = "__start__", "__end__"
"""Names of where a graph begins and ends."""
At = Literal["", "now", "waits", "failed"]
"""Whether the run is at the step, waits there for an answer, or stopped there."""


@dataclass(frozen=True, kw_only=True)
class InnerEdge:
    source: str
    target: str
    conditional: bool = False
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class InnerNode:
    name: str
    note: str = ""
    """What is known of it: that it asks people, that it decides where it goes."""
    state: str = ""
    """`done`, `now`, `asks`, `failed` or `todo` in a run's picture; else ""."""
    inner: InnerGraph | None = None
    """The graph that it runs."""


@dataclass(frozen=True, kw_only=True)
class InnerGraph:
    name: str
    nodes: Sequence[InnerNode] = ()
    """With START and END. Empty where nothing is known of it."""
    edges: Sequence[InnerEdge] = ()
    left_out: int = 0
    """Nodes that it has beside these."""
    remark: str = ""
    """Why it is not drawn, or not as it is now; where it stands, in words."""

    def standing(self, states: Mapping[str, str], *, ended: bool) -> InnerGraph:
        """The same with the states of its nodes; those that are not named are to come."""
        ends = {START: "done" if states else "todo", END: "done" if ended else "todo"}
        nodes = [
            replace(node, state=ends.get(node.name, states.get(node.name, "todo")))
            for node in self.nodes
        ]
        return replace(self, nodes=nodes)


@dataclass(frozen=True, kw_only=True)
class Stand:
    """Where a run stands, for those who draw its steps."""

    thread: uuid.UUID
    step: str
    at: At
    state: Mapping[str, Any] = field(default_factory=dict)
    """Of the thread's head; empty where it cannot be read."""


class StepPicture:
    """How a kind of step says what it works through inside; most work through nothing."""

    def drawn(self, config: Mapping[str, Any], stand: Stand | None = None) -> InnerGraph | None:
        """The graph of a step that is configured so, with where a run stands in it. It reads what
        was kept, and runs no code of an author.
        """
        return None

    def look(self) -> None:
        """Load what there is to draw, and keep it; when a worker starts."""
