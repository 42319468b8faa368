"""Another engine that lets its runs wait here, and what becomes of its waits, for tests of more
than one module.
"""

from __future__ import annotations

from typing import Any

from rest_framework.test import APIClient

from hitl.decisions.deadlines import outcomes
from hitl.models import ApiToken, OuterRun
from runs.models import Pause

URL = "/api/v1/workflows"


def ask(client: Any, run_id: str, **changes: Any) -> Pause:
    """Open a wait for a verdict, with a deadline in an hour."""
    body = {
        "run_id": run_id,
        "node_id": "decide",
        "blocking_reason": "needs_a_word",
        "deadline": "PT1H",
        **changes,
    }
    made = client.post(f"{URL}/wait", body, format="json")
    assert made.status_code == 201, made.content
    return Pause.objects.select_related("run__thread").latest("id")


def answer(run_id: str) -> None:
    """Approve it as the person that the engine acts as, by another token than the engine's."""
    owner = OuterRun.objects.get(name=run_id).owner
    token = ApiToken.make(owner, name="answers")[1]
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {token}")
    told = client.post(f"{URL}/{run_id}/resume", {"payload": "approve"}, format="json")
    assert told.status_code == 200, told.content


def run_out(*pauses: Pause) -> None:
    """Let the deadlines of these questions pass."""
    outcomes.fire_due(now=max(pause.deadline_at for pause in pauses if pause.deadline_at))


STATES = ["waiting_external", "resumed", "waiting_external", "expired"]
"""What `live_through` leads through."""


def live_through(client: Any, run_id: str) -> int:
    """Answer a run's first wait and let its second expire; gives the number of events."""
    ask(client, run_id)
    answer(run_id)
    last = ask(client, run_id, node_id="post")
    run_out(last)
    last.run.thread.refresh_from_db()
    return last.run.thread.last_seq
