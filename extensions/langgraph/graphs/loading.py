"""The graphs that settings name or modules register; imported when one is needed, as it imports
LangGraph.

A graph comes from the code or from settings, never from a template: `WAYSTATION_GRAPHS` names the
module and attribute of a compiled graph, or of a function without arguments that gives one (or a
graph to be compiled).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.conf import settings
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

from checkpoints.state import codec
from extensions.langgraph.graphs import named
from runs.workflows.base import StepFailed


def load(name: str) -> Any:
    """The compiled graph of that name.

    Raises StepFailed, which says what is wrong with it.
    """
    made = named.registered(name)
    place = f"{made.__module__}:{made.__qualname__}" if made else settings.WAYSTATION_GRAPHS[name]
    module, _, attribute = place.partition(":")
    try:
        graph = made() if made else getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise StepFailed(
            f"The graph {name!r} cannot be loaded from {place}: {error}.", code="graph_unavailable"
        ) from error
    if not isinstance(graph, Pregel | StateGraph) and callable(graph):
        graph = graph()
    compiled = graph.compile() if isinstance(graph, StateGraph) else graph
    if not isinstance(compiled, Pregel):
        raise StepFailed(f"{place} is no graph, and gives none.", code="graph_unavailable")
    if compiled.interrupt_before_nodes or compiled.interrupt_after_nodes:
        message = (
            f"The graph {name!r} is compiled with breakpoints, which nobody is asked at here. "
            "Let its nodes call interrupt()."
        )
        raise StepFailed(message, code="graph_unavailable")
    return compiled


def shape_of(compiled: Any) -> str:
    """Digest of a graph's nodes and edges."""
    drawn = compiled.get_graph()
    edges = sorted([edge.source, edge.target, bool(edge.conditional)] for edge in drawn.edges)
    return codec.digest(codec.encode([sorted(drawn.nodes), edges]))
