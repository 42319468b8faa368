"""Whether the code at hand still does what a frozen step was frozen with."""

from __future__ import annotations

from typing import Literal

from runs.workflows.code.fingerprint import fingerprint
from runs.workflows.registry import UnknownStep, find
from runs.workflows.sequence import FrozenStep

Verdict = Literal["missing", "changed", "unknown", "compatible"]
VERDICTS: tuple[Verdict, ...] = ("missing", "changed", "unknown", "compatible")
"""Worst first.

`missing`: the code has no such step function; `unknown`: the step was frozen before fingerprints
were, or has no source.
"""
BAD: frozenset[Verdict] = frozenset({"missing", "changed"})


def current(step: FrozenStep) -> str | None:
    """The fingerprint of the step's function as it is now; "" where its source cannot be read, None
    where there is no such function.
    """
    try:
        return fingerprint(find(step["function"], step.get("function_version", 1)))
    except UnknownStep:
        return None


def judge(step: FrozenStep) -> Verdict:
    """Compare one step with the code at hand, without its sub-steps."""
    now, frozen = current(step), step.get("fingerprint", "")
    if now is None:
        return "missing"
    if not frozen or not now:
        return "unknown"
    return "compatible" if frozen == now else "changed"
