"""What programs in processes of their own walk with: the settings that DJANGO_SETTINGS_MODULE
names, whichever project's they are.
"""

from __future__ import annotations

import io
import json
from typing import Any


def said(name: str, *arguments: str) -> str:
    """What a command prints."""
    # here, as below: whoever only starts such a program has other settings
    from django.core.management import call_command

    out = io.StringIO()
    call_command(name, *arguments, stdout=out)
    return out.getvalue()


def drive(order: str) -> str:
    """Take an order as far as it goes, as a worker would; its run's status."""
    from checkpoints import ids
    from runs.engine.advance import advance
    from runs.models import WorkOrder

    run = WorkOrder.objects.shown().get(pk=ids.parse(WorkOrder.PREFIX, order)).latest_run
    assert run is not None
    while advance(run.pk, budget=60):
        pass
    run.refresh_from_db()
    return run.status


class Api:
    """The REST interface of whichever project this is, with a token."""

    def __init__(self, prefix: str, token: str) -> None:
        self.prefix, self.token = prefix, token

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        from django.test import Client

        headers = {"Authorization": f"Bearer {self.token}"}
        answer = Client().generic(
            method,
            f"{self.prefix}{path}",
            json.dumps(body or {}),
            content_type="application/json",
            headers=headers,
        )
        return answer.status_code, json.loads(answer.content)

    def approved(self, order: str) -> str:
        """Approve whatever an order asks, until it asks nothing any more; its status."""
        while (came := drive(order)) == "paused":
            status, answer = self.call(
                "POST", f"work-orders/{order}/resume", {"decision": "approve"}
            )
            assert status == 200, answer
        return came
