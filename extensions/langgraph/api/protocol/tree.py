"""A run, and the runs that work for it, as the protocol's tree of agents."""

from __future__ import annotations

import uuid
from typing import Any

from runs.models import Run
from runs.states import CANCELLED, COMPLETED, EXPIRED, FAILED, PAUSED, PENDING

MOST = 200
"""Children of one run that are shown."""
STATUS: dict[str, str] = {
    PENDING: "started",
    PAUSED: "interrupted",
    COMPLETED: "completed",
    FAILED: "failed",
    EXPIRED: "failed",
    CANCELLED: "failed",
}


def of(run: Run, namespace: tuple[str, ...] = ()) -> dict[str, Any]:
    """The run's node, with those below it; of very many the last."""
    below = Run.objects.filter(parent=run).order_by("-id")
    children = reversed(below[:MOST])
    return {
        "namespace": list(namespace),
        "status": STATUS.get(run.status, "running"),
        "graph_name": run.frozen.template_slug or "",
        "children": [
            of(child, (*namespace, namespace_part(child.child_name, child.pk)))
            for child in children
        ],
    }


def namespace_part(name: str, key: uuid.UUID) -> str:
    """A child run in a namespace; a client reads the name up to the first colon."""
    return f"{name.replace(':', '-')}:{key.hex}"
