"""Names of choices that several fields of the OpenAPI document have under one name."""

from __future__ import annotations

from collections.abc import Sequence

NAMES: dict[str, str | Sequence[str]] = {
    "RunStatusEnum": "runs.states.RunStatus",
    "WhyCodeEnum": "runs.threads.reasons.Code",
    "CheckpointStatusEnum": "checkpoints.models.CheckpointStatus",
    "OccasionEnum": "hitl.models.outbound.Occasion",
    "PauseKindEnum": "runs.states.PauseKind",
    "PauseStatusEnum": ["active", "resolved"],
    "ReportedEnum": ["running", "completed", "failed"],
}
"""Name → the enumeration, or its values; without it the document makes one of a digest."""
