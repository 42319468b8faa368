"""What the code of a step says of reviews: whose approvals it requires, and whether it jumps."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from runs.workflows import registry
from runs.workflows.code.fingerprint import ModuleSource, reached

JUMPS = {"Go", "Sleep"}
"""Answers of a step that may name the step they lead to."""
LEADING = {*JUMPS, "Gather"}
"""The same, with what starts child runs."""
RENAMED = {"Ask": "actions", "Outside": "ways"}
"""What their `answers` was called before."""


@dataclass(frozen=True, kw_only=True)
class ApprovalWanted:
    """A call of `require_approval` that names its step."""

    step: str
    """Its name, or the name of its function."""
    optional: bool
    place: str
    """`file, line n`."""


@cache
def required_approvals(function: Callable[..., Any]) -> Sequence[ApprovalWanted]:
    """The calls of `require_approval` in a step function and in the code of its package that it
    names, as far as they name a step by a text or by its function.
    """
    return tuple(_required(function))


def _required(function: Callable[..., Any]) -> Iterator[ApprovalWanted]:
    for module, call in _calls(function):
        if _called(call) != "require_approval" or not (of := _argument(call, "of")):
            continue
        if name := _step_of(module, of):
            optional = _argument(call, "optional", place=None)
            yield ApprovalWanted(
                step=name,
                # what is worked out when it runs is judged when it runs
                optional=optional is not None and getattr(optional, "value", True) is not False,
                place=_place(module, call),
            )


@cache
def jumps(function: Callable[..., Any]) -> bool:
    """Whether a step may end its work elsewhere than at the next step: it answers `Done`, or a `Go`
    or `Sleep` that names another step than its own.
    """
    for _, call in _calls(function):
        to = _argument(call, "to", place=None)
        if _called(call) == "Done":
            return True
        if _called(call) in JUMPS and to is not None and getattr(to, "attr", "") != "step":
            return True
    return False


@dataclass(frozen=True, kw_only=True)
class StepNamed:
    """A step that an answer leads to, as a text in the source."""

    step: str
    place: str
    """`file, line n`."""


@cache
def targets(function: Callable[..., Any]) -> Sequence[StepNamed]:
    """The steps that a step function's own answers name: `Go(to="…")`, `Sleep(to="…")`,
    `Gather(to="…")` and the answers of an `Ask`, as far as they are texts in its module.
    """
    own = getattr(function, "__module__", "")
    return tuple(
        StepNamed(step=name, place=_place(module, call))
        for module, call in _calls(function)
        if module == own
        for name in _led_to(call)
    )


@cache
def renamed(function: Callable[..., Any]) -> Sequence[str]:
    """Say where a step function still uses a keyword by its name of before."""
    return tuple(
        f"{_called(call)}'s {keyword.arg!r} is called 'answers' now ({_place(module, call)})."
        for module, call in _calls(function)
        for keyword in call.keywords
        if keyword.arg is not None and keyword.arg == RENAMED.get(_called(call))
    )


def _led_to(call: ast.Call) -> Iterator[str]:
    to = _argument(call, "to", place=None) if _called(call) in LEADING else None
    named: list[Any] = [to]
    if _called(call) == "Ask":
        answers = _argument(call, "answers", place=None)
        named += answers.values if isinstance(answers, ast.Dict) else []
    for node in named:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
            yield node.value


def _calls(function: Callable[..., Any]) -> Iterator[tuple[str, ast.Call]]:
    """The calls in all that a function reaches, each with the name of its module."""
    for code, name, _ in reached(function):
        for call in _calls_in(code, name):
            yield code.name, call


@cache
def _calls_in(code: ModuleSource, name: str) -> list[ast.Call]:
    found = (node for statement in code.bound[name] for node in ast.walk(statement))
    return [node for node in found if isinstance(node, ast.Call)]


def _place(module: str, call: ast.Call) -> str:
    file = getattr(sys.modules.get(module), "__file__", None) or module
    return f"{file}, line {call.lineno}"


def _called(call: ast.Call) -> str:
    """The last part of the name that is called."""
    return str(getattr(call.func, "attr", "") or getattr(call.func, "id", ""))


def _argument(call: ast.Call, name: str, *, place: int | None = 0) -> ast.expr | None:
    named = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    by_place = place is not None and len(call.args) > place
    return named if named is not None or not by_place else call.args[place or 0]


def _step_of(module: str, of: ast.expr) -> str:
    match of:
        case ast.Constant(value=str(name)):
            return name
        case ast.Name(id=name):
            value = getattr(sys.modules.get(module), name, None)
            return (registry.name_of(value) or "") if callable(value) else ""
    return ""
