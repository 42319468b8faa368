"""The graphs that templates may name: those that modules of this server register, and those that
settings name. LangGraph is not imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.conf import settings

Make = TypeVar("Make", bound=Callable[..., Any])
_REGISTERED: dict[str, Callable[..., Any]] = {}


def graph(name: str) -> Callable[[Make], Make]:
    """Register a function that gives a graph, compiled or not, under the name that templates use.

    It is called in a worker when a step runs it, so what imports LangGraph can stand in it; it may
    take a `config` and a `runtime`, as LangGraph's server gives them. What
    WAYSTATION_GRAPHS says of the same name goes before it. Raises ValueError for a name that is
    taken.
    """

    def register(make: Make) -> Make:
        if _REGISTERED.setdefault(name, make) is not make:
            raise ValueError(f"two graphs are called {name!r}")
        return make

    return register


def names() -> list[str]:
    """Every name that a template may use, in order."""
    return sorted({*_REGISTERED, *settings.WAYSTATION_GRAPHS})


def registered(name: str) -> Callable[..., Any] | None:
    """What a module registered under the name; None where settings say it, or nobody does."""
    return None if name in settings.WAYSTATION_GRAPHS else _REGISTERED.get(name)
