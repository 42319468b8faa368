"""What an agent is told: a template with the order's and the state's values filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from runs.workflows.base import Context, State

_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_][\w.-]*)\s*\}\}")
_HEADING = re.compile(r"(?m)^(?=#{1,6} )")
FIXED = ("request", "title", "revision_feedback", "branch", "check_command")
NESTED = ("state", "input")
FEEDBACK = "A reviewer sent the last result back with these words"
LONGEST = 60_000
"""Characters of one value."""


def unknown(template: str, *, more: Sequence[str] = ()) -> list[str]:
    """The names in a template that nothing stands for."""
    names = {match[1] for match in _VARIABLE.finditer(template)}
    return sorted(
        name
        for name in names
        if name not in (*FIXED, *more) and not ("." in name and name.partition(".")[0] in NESTED)
    )


def render(
    template: str, state: State, context: Context, *, more: Mapping[str, str] | None = None
) -> str:
    """Fill in `{{request}}` and the others of FIXED, `{{input.key}}`, `{{state.key.inner}}`, and
    what the step itself knows (`more`).

    A section, from one Markdown heading to the next, is left out where it names values and all of
    them are empty. What is filled in is not looked at again, so a value that looks like a variable
    stays what it is. A reviewer's feedback that has no place in it comes at the end: whoever asks
    for something else is heard, whatever the template says.
    """
    order = context.order
    known = {
        "request": order.request,
        "title": order.title,
        "revision_feedback": state.get("revision_feedback", ""),
        "branch": order.branch,
        "check_command": " ".join(order.check_command),
        **(more or {}),
    }

    def value(name: str) -> str:
        if name in known:
            return _words(known[name])
        root, *path = name.split(".")
        return _words(_at(state if root == "state" else order.input, path))

    text = "".join(_section(part, value) for part in _HEADING.split(template)).strip() + "\n"
    return with_feedback(text, value("revision_feedback"))


def with_feedback(text: str, feedback: str) -> str:
    """A prompt with a reviewer's words, where it does not hold them."""
    return (
        text
        if feedback.strip() in text
        else f"{text.rstrip()}\n\n# {FEEDBACK}\n\n{feedback.strip()}\n"
    )


def _section(part: str, value: Any) -> str:
    names = [match[1] for match in _VARIABLE.finditer(part)]
    if part.startswith("#") and names and not any(value(name) for name in names):
        return ""
    return _VARIABLE.sub(lambda match: value(match[1]), part)


def _at(values: Any, path: Sequence[str]) -> Any:
    """What lies at a path of keys; None where nothing does."""
    for key in path:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def _words(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return ""
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, indent=1, ensure_ascii=False, default=_plain)
    )
    return (
        text
        if len(text) <= LONGEST
        else f"{text[:LONGEST]}\n[cut here: {len(text):,} characters in all]"
    )


def _plain(value: Any) -> Any:
    """The read-only values of a state are no dicts and lists to the JSON encoder."""
    return dict(value) if isinstance(value, Mapping) else list(value)
