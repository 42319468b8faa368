"""The graphs that settings name or modules register; imported when one is needed, as it imports
LangGraph.

A graph comes from the code or from settings, never from a template: `WAYSTATION_GRAPHS` names the
module and attribute of a compiled graph, or of a function that gives one (or a graph to be
compiled). A function, asynchronous or not, gets what it has arguments for, as LangGraph's server
calls it: the run's `config`, and a `runtime` that says why it is called and has the store.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

from django.conf import settings
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

from checkpoints.state import codec
from extensions.langgraph.graphs import named
from extensions.langgraph.graphs.stores import AccountStore
from runs.workflows.base import StepFailed


def load(
    name: str, *, config: Mapping[str, Any] | None = None, store: AccountStore | None = None
) -> Any:
    """The compiled graph of that name.

    Raises StepFailed, which says what is wrong with it.

    Args:
        config: of the run that is to use it; None where it is only looked at.
        store: the run's.
    """
    made = named.registered(name)
    place = f"{made.__module__}:{made.__qualname__}" if made else settings.WAYSTATION_GRAPHS[name]
    module, _, attribute = place.partition(":")
    try:
        graph = made or getattr(import_module(module), attribute)
        for _ in range(2):  # a registered function may give a function
            if not isinstance(graph, Pregel | StateGraph) and callable(graph):
                graph = _made(graph, config, store)
    except (ImportError, AttributeError) as error:
        raise StepFailed(
            f"The graph {name!r} cannot be loaded from {place}: {error}.", code="graph_unavailable"
        ) from error
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


def _made(
    make: Callable[..., Any], config: Mapping[str, Any] | None, store: AccountStore | None
) -> Any:
    given = {}
    for name, wanted in inspect.signature(make).parameters.items():
        if wanted.kind in {wanted.VAR_POSITIONAL, wanted.VAR_KEYWORD}:
            continue
        if name == "runtime" or "Runtime" in str(wanted.annotation):
            given[name] = _runtime(store or AccountStore(None), works=config is not None)
        elif wanted.default is wanted.empty:
            given[name] = {"configurable": {}} if config is None else config
    graph = make(**given)
    if inspect.iscoroutine(graph):  # in a thread of its own: none of ours may see its event loop
        with ThreadPoolExecutor(1) as apart:
            graph = apart.submit(asyncio.run, graph).result()
    return graph


def _runtime(store: AccountStore, *, works: bool) -> Any:
    from langgraph_sdk import runtime  # only where a function asks for one

    if works:
        return runtime._ExecutionRuntime(access_context="threads.create_run", store=store)
    return runtime._ReadRuntime(access_context="assistants.read", store=store)


def shape_of(compiled: Any) -> str:
    """Digest of a graph's nodes and edges."""
    drawn = compiled.get_graph()
    edges = sorted([edge.source, edge.target, bool(edge.conditional)] for edge in drawn.edges)
    return codec.digest(codec.encode([sorted(drawn.nodes), edges]))
