"""Waystation's checkpoints behind a LangGraph graph:
`builder.compile(checkpointer=DjangoSaver(owner=user))`.

LangGraph is an optional dependency (`extensions/langgraph/requirements.txt`): nothing here is
imported before somebody asks for the saver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from extensions.langgraph.saver.saver import DjangoSaver, with_thread_id
    from extensions.langgraph.saver.serializer import PayloadRefused, StrictSerializer

__all__ = ["DjangoSaver", "PayloadRefused", "StrictSerializer", "with_thread_id"]
_MODULES = {
    "DjangoSaver": "saver",
    "PayloadRefused": "serializer",
    "StrictSerializer": "serializer",
    "with_thread_id": "saver",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from importlib import import_module

    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in {"langgraph", "langchain_core", "ormsgpack"}:
            from checkpoints.text import extras  # here, as all of this: nothing else needs it

            line = extras.install("langgraph", "extensions/langgraph/requirements.txt")
            raise ImportError(f"LangGraph is not installed: {line}") from error
        raise
