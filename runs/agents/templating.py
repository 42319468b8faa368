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
    value: Any = (
        state
        if first == "state"
        else {name: getattr(context.order, name) for name in _OF_ORDER}
        if first == "order"
        else None
    )
    if value is None:
        value, rest = state, [first, *rest]
    for part in rest:
        value = value.get(part) if isinstance(value, Mapping) else _item(value, part)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _item(value: Any, part: str) -> Any:
    return (
        value[int(part)]
        if isinstance(value, list) and part.isdigit() and int(part) < len(value)
        else None
    )
