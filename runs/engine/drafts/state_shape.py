"""Whether what a step wrote is what its workflow declares of the state."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from checkpoints.state import redaction
from runs.workflows import schemas
from runs.workflows.base import StepFailed

SHOWN = 5
"""Faults that are told."""


class StateInvalid(StepFailed):
    """A step wrote what the workflow's declaration does not allow; nothing of it was kept."""

    def __init__(self, step: str, faults: Mapping[str, list[str]]) -> None:
        told = "; ".join(
            f"state.{path}: {' '.join(texts)}" for path, texts in list(faults.items())[:SHOWN]
        )
        super().__init__(
            f"The step {step!r} wrote what the workflow does not declare. {told} Nothing of the "
            "step was kept. Mend the step or the declared state, then retry.",
            code="state_not_as_declared",
        )


def check(
    schema: Mapping[str, Any], step: str, update: Mapping[str, Any], state: Mapping[str, Any]
) -> None:
    """Raise StateInvalid where a key that the step wrote is none that the schema allows.

    Only what is new is looked at, as it stands after it was merged. A value so large that its check
    would take too long passes.
    """
    known = schemas.declared(schema)
    written = {
        key: state[key]
        for key in update
        if key in known and key in state and state[key] != redaction.MARKER
    }
    faults = (
        schemas.validate_resume_payload(schema, written, longest=sys.maxsize) if written else {}
    )
    faults.pop("", None)
    if faults:
        raise StateInvalid(step, faults)
