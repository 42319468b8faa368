"""What the steps of a work order showed to people, for whoever reads the order (S4-17)."""

from __future__ import annotations

from typing import Any

from runs.models import Pause, WorkOrder
from runs.states import STOPS


def shown_by_steps(order: WorkOrder) -> dict[str, dict[str, Any]]:
    """Step → what it showed last to whoever was asked about it, in the order of the first
    questions; stops show nothing of a step.
    """
    asked = (
        Pause.objects.filter(run__work_order=order, run__parent__isnull=True)
        .exclude(phase__in=STOPS)
        .order_by("id")
    )
    return {
        pause.step: {
            "pause_id": pause.shown_id,
            "revision": pause.revision,
            "content": pause.content,
        }
        for pause in asked
    }
