"""Texts with places in them: `{{revision_feedback}}`, `{{state.plan.title}}`, `{{order.request}}`.

What is not there is empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from runs.workflows.base import Context, State

_PLACE = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")
_OF_ORDER = ("id", "title", "request", "input", "repository_url", "branch")
"""What may be named of the order."""


def filled(text: str, state: State, context: Context) -> str:
    """A text with its places filled in. What is filled in is not looked through again."""
    return _PLACE.sub(lambda found: _value(found[1], state, context), text)


def _value(path: str, state: State, context: Context) -> str:
    first, *rest = path.split(".")
    found: Any = (
        state
        if first == "state"
        else {name: getattr(context.order, name) for name in _OF_ORDER}
        if first == "order"
        else None
    )
    if found is None:
        found, rest = state, [first, *rest]
    for part in rest:
        found = found.get(part) if isinstance(found, Mapping) else _item(found, part)
    if found is None:
        return ""
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def _item(value: Any, part: str) -> Any:
    return (
        value[int(part)]
        if isinstance(value, list) and part.isdigit() and int(part) < len(value)
        else None
    )
