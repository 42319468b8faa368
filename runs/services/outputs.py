"""What the steps of a work order showed to people, for whoever reads the order."""

from __future__ import annotations

import uuid
from typing import Any

from checkpoints.store.prepared_queries import Prepared
from runs.models import Pause, WorkOrder
from runs.states import STOPS

_asked = Prepared(
    lambda key: (
        Pause.objects.filter(run__work_order=key, run__parent__isnull=True)
        .exclude(phase__in=STOPS)
        .order_by("id")
    ),
    uuid.UUID,
)


def shown_by_steps(order: WorkOrder) -> dict[str, dict[str, Any]]:
    """Step → what it showed last to whoever was asked about it, in the order of the first
    questions; stops show nothing of a step.
    """
    return {
        pause.step: {
            "pause_id": pause.shown_id,
            "revision": pause.revision,
            "content": pause.content,
        }
        for pause in _asked.get(order.pk)
    }
