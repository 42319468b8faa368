"""Names in the OpenAPI document for choices that several of its fields share."""

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
"""Name → the enumeration, or its values; without an entry the document makes a name from a digest.
"""
