"""State keys that nobody hands in: the engine's own, which say what was decided and by whom a run
goes on, and those in which a kind of step keeps what it alone knows.

An answer, new input or a wait's state that names one is refused at every door, by `named`: a state
that says "decided" is no decision. A state that a person edits as a whole holds them too; what may
be changed of those is said where that is done (`runs.services.forks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runs.workflows import tool_calls

RESUME_CONTEXT = "_resume_context"
"""The offer to resume a failed run, for the steps of the new one: `{"checkpoint_id",
"failed_at"}`.
"""
BY_ANSWERS = frozenset(
    {"decided", "decided_content", "revision_feedback", "gathered", tool_calls.DECISIONS}
)
"""Written with every answer, also where another engine's run waits here."""
ENGINES = BY_ANSWERS | {RESUME_CONTEXT, "approved"}
"""The engine's own, whatever kinds of steps there are."""


@dataclass(frozen=True, kw_only=True)
class Keeps:
    """A state key in which a kind of step keeps what it alone knows: a declaration of the step."""

    reducer: str = "replace"
    """How what the step writes joins the state, in every template."""
    answered: bool = False
    """Whether an answer to the step's question brings it: then it may be handed in."""
    per_turn: bool = False
    """Whether it ends with its turn, and the next turn of the thread begins without it."""
    remembered: bool = False
    """Whether the next thread with the same user in the same session begins with it."""
    imported: bool = False
    """Whether a run that goes on from imported work may rely on it."""


_KEPT: dict[str, Keeps] = {}


def declare(kept: Mapping[str, Keeps]) -> None:
    """Make a step's own keys known; `runs.workflows.registry.step` does.

    Raises ValueError: a key is the engine's, or another kind of step keeps something else in it.
    """
    for key, keeps in kept.items():
        if key in ENGINES or _KEPT.setdefault(key, keeps) != keeps:
            raise ValueError(f"the state key {key!r} is kept by somebody else")


def kept() -> Mapping[str, Keeps]:
    """The keys that kinds of steps keep for themselves."""
    return _KEPT


def keys() -> frozenset[str]:
    """All state keys that nobody hands in."""
    return ENGINES.union(key for key, keeps in _KEPT.items() if not keeps.answered)


def named(given: Iterable[str] | None, *, elsewhere: bool = False) -> list[str]:
    """Give those of the keys that nobody hands in.

    Args:
        elsewhere: the state is another engine's, which only waits here: what no answer writes into
            it is free there.
    """
    return sorted((BY_ANSWERS if elsewhere else keys()) & set(given or ()))


def refusal(found: list[str]) -> str:
    """Say so to whoever hands such keys in."""
    return (
        f"{', '.join(found)}: these names are the engine's own, and what was decided is written "
        "by answers alone. Leave them out."
    )
