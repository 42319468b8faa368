"""Where a declaration stands, and what is refused there, with its file and line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from types import FrameType
from typing import Any, NotRequired, Required, get_origin, get_type_hints

from runs.workflows import refusals

HERE = "runs.workflows"
WITHIN_A_LINE = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
"""Frames that belong to the line in which they stand."""


class WorkflowInvalid(Exception):
    """A declaration cannot be used. The message begins with the file and the line."""

    def __init__(self, place: str, words: str) -> None:
        super().__init__(f"{place}: {words}")
        self.place = place
        self.words = words


def declaring() -> FrameType:
    """The frame outside of this package that the declaration comes from."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(HERE):
        frame = frame.f_back
    return frame


def place() -> str:
    """The file and line of the declaration."""
    frame = declaring()
    return f"{frame.f_code.co_filename}, line {frame.f_lineno}"


def module_of(frame: FrameType) -> tuple[str, bool]:
    """The file of the module that declares in this frame while it is imported ("" where none is),
    and whether it does so at its top level.
    """
    at: FrameType | None = frame
    while at is not None and at.f_code.co_name in WITHIN_A_LINE:
        at = at.f_back
    if at is not None and at.f_code.co_name == "<module>":
        return at.f_code.co_filename, True
    while at is not None and at.f_code.co_name != "<module>":
        at = at.f_back
    return (at.f_code.co_filename, False) if at is not None else ("", False)


def check_keywords(
    where: str, function: Callable[..., object], unknown: Mapping[str, object]
) -> dict[str, object]:
    """Give a function's parameters with their defaults; refuse what is none of them."""
    parameters = signature(function).parameters.values()
    names = {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.kind is not parameter.VAR_KEYWORD
    }
    for name in unknown:
        raise WorkflowInvalid(
            where, f"{function.__name__}(…): {refusals.unknown('keyword', name, names)}"
        )
    return names


def check_keys(keyword: str, given: Sequence[Any], kind: Any, place: str) -> None:
    """Refuse objects of a keyword that lack a key, or have one that nobody reads."""
    for values in given:
        known = kind.__annotations__
        if not isinstance(values, Mapping):
            raise WorkflowInvalid(place, f"{keyword}: {values!r:.60} is no object.")
        for name in values:
            if name not in known:
                raise WorkflowInvalid(
                    place, f"{keyword}: {refusals.unknown('key', str(name), known)}"
                )
        for name in known:
            if name not in values and _is_required(kind, name):
                raise WorkflowInvalid(place, f"{keyword}: {name!r} is missing.")


def _is_required(kind: Any, name: str) -> bool:
    """Whether an object of a TypedDict has to have a key; its annotations are texts here."""
    marked = get_origin(get_type_hints(kind, include_extras=True)[name])
    return marked is Required or (kind.__total__ and marked is not NotRequired)
