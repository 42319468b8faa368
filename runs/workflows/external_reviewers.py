"""People without an account who are asked too: by mail, each by a signed link of their own, whose
holder answers under that address.

A step's rules name them (`review["external"]`), or the step that asks does (`Ask.outside`). Where
an address comes from decides what it may do (`counts`): rules are a template's, which who asks for
work does not write; a step finds addresses in states and inputs, which they do, so whoever holds
such a link may be just them. It brings data, and approves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from runs.workflows.base import Outside, StepFailed
from runs.workflows.refusals import in_json

MOST = 20
"""Addresses that one question goes to."""
LONGEST = 254
ADDRESS = (
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,63}"
)


def is_address(text: Any) -> bool:
    """Whether a text is a plain mail address: one line, no name, no comment."""
    return (
        isinstance(text, str) and len(text) <= LONGEST and re.fullmatch(ADDRESS, text) is not None
    )


def counts(review: Mapping[str, Any], address: str) -> bool:
    """Whether an answer under this address decides and counts as an account's does: only where the
    step's frozen rules name it.
    """
    return address.lower() in {other.lower() for other in named(review)}


def named(review: Mapping[str, Any]) -> list[str]:
    """The addresses that the rules name, for the whole review or for a stage."""
    stages = review.get("stages", [])
    return [
        *review.get("external", []),
        *(address for stage in stages for address in stage.get("external", [])),
    ]


def asked(
    outside: Outside | None,
    review: Mapping[str, Any],
    answers: Mapping[str, str],
    *,
    high_risk: bool,
) -> dict[str, Any]:
    """Give what a question keeps of who is asked outside, as `{"to", "question", "content",
    "answers"}`; {} where nobody is.

    Addresses are in lower case, each once. What is of high risk is asked of nobody outside. Raises
    StepFailed (`outside_invalid`).
    """
    addresses = [*(outside.to if outside else ()), *named(review)]
    if wrong := [address for address in addresses if not is_address(address)]:
        raise StepFailed(
            f"{in_json(str(wrong[0]), 100)} is no mail address, so nobody can be asked there.",
            code="outside_invalid",
        )
    to = list(dict.fromkeys(address.lower() for address in addresses))
    if len(to) > MOST:
        raise StepFailed(
            f"{len(to)} people outside are asked; up to {MOST} can be.", code="outside_invalid"
        )
    if not to or high_risk:
        return {}
    given = _given(outside.answers if outside else (), answers)
    return {
        "to": to,
        "question": outside.question if outside else "",
        "content": outside.content if outside else None,
        "answers": given,
    }


def _given(wanted: Sequence[str], answers: Mapping[str, str]) -> list[str]:
    if unknown := [action for action in wanted if action not in answers]:
        raise StepFailed(
            f"{in_json(unknown[0], 60)} is no answer of this question.", code="outside_invalid"
        )
    return [name for name in answers if name in wanted or not wanted]
