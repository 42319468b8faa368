"""State keys that are the engine's own: what was decided, by whom a run goes on, what an agent
knows. Nobody hands them in.

An answer, new input or a wait's state that names one is refused at every door, by `named`: a state
that says "decided" is no decision (F6). A state that a person edits as a whole holds them too; what
may be changed of those is said where that is done (`runs.services.forks`).
"""

from __future__ import annotations

from collections.abc import Iterable

from runs.workflows import tool_calls

AGENT, AGENT_TURNS = "agent", "agent_turns"
"""What agents know, and which turn they are in: `runs.agents.memory`."""
GRAPH_RUNS = "graph_runs"
"""Where the graph of each step stands: `runs.langgraph.step.SavedGraphPosition`, by step."""
RESUME_CONTEXT = "_resume_context"
"""The offer to resume a failed run, for the steps of the new one: `{"checkpoint_id",
"failed_at"}`.
"""
BY_ANSWERS = frozenset(
    {"decided", "decided_content", "revision_feedback", "gathered", tool_calls.DECISIONS}
)
"""Written with every answer, also where another engine's run waits here."""
KEYS = BY_ANSWERS | {GRAPH_RUNS, AGENT, AGENT_TURNS, RESUME_CONTEXT, "approved"}


def named(given: Iterable[str] | None, *, elsewhere: bool = False) -> list[str]:
    """Those of the keys that are the engine's own.

    Args:
        elsewhere: the state is another engine's, which only waits here: what no answer writes into
        it is free there.
    """
    return sorted((BY_ANSWERS if elsewhere else KEYS) & set(given or ()))


def refusal(found: list[str]) -> str:
    """What is said to who hands such keys in."""
    return (
        f"{', '.join(found)}: these names are the engine's own, and what was decided is written "
        "by answers alone. Leave them out."
    )
