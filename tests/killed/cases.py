"""What `tests.killed.keys` sends to the addresses that do nothing with the table's body: each on a
world that has what it is about.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import InboundSource, InboundStart, Via
from hitl.models.outbound import Delivery
from hitl.outbound import endpoints
from hitl.wait_gate import primitives, signatures
from runs import definitions
from runs.git.samples import make_sample
from runs.models import Pause
from tests.conftest import drive, pause_of
from tests.matrix.addresses import (
    API,
    DECISION,
    DELIVERY,
    ENDPOINT,
    ORDER,
    PAUSE,
    PRINTED,
    SCHEDULE,
    START,
    THREAD,
)
from tests.matrix.walk import fill
from tests.matrix.world import BY_NAME, World, submit

OUTSIDE = "127.0.0.1"
"""Where endpoints lead; nobody listens, and nothing is sent from here."""
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass(frozen=True)
class Sent:
    """One request. `by` is a role of the matrix; "" for whoever signs it."""

    url: str
    body: Any = field(default_factory=dict)
    by: str = "owner"
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def raw(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()

    def client(self, world: World) -> Client:
        return world.client(BY_NAME[self.by]) if self.by else Client(raise_request_exception=False)


def of(world: World) -> dict[str, Sent]:
    """Address of the matrix → what is sent there.

    Makes what they are about; call where it is to stay.
    """
    settings.WAYSTATION_OUTBOUND_ALLOW = [OUTSIDE]
    ana = world.people["ana"]
    ended, paused = world.states["completed"], world.states["paused"]
    soon = timezone.now() + dt.timedelta(hours=1)
    rules: list[dict[str, Any]] = [{}, {"deadline": {"after": "PT4H"}}, {"undo": 3600}, {}]
    claimed, timed, patient, bulk = (asking(world, **review) for review in rules)
    assert (
        world.client(BY_NAME["owner"])
        .post(f"/{API}pauses/{claimed.shown_id}/claim", content_type="application/json")
        .status_code
        < 300
    )
    decision = services.decide(patient.pk, Answer("approve", Via.REST), by=ana)
    endpoint, _ = endpoints.make(ana, channel="webhook", target=f"http://{OUTSIDE}:9/")
    dead = Delivery.objects.create(
        pause=claimed,
        occasion="asked",
        channel="email",
        place="y",
        recipient=ana,
        next_at=soon,
        made_at=soon,
        status="dead",
        attempts=10,
    )
    document = (
        world.client(BY_NAME["owner"]).get(f"/{API}threads/{ended['thread_id']}/export").content
    )
    InboundSource.objects.create(name="signing", user=ana, secrets=[SECRET])
    ana.user_permissions.add(
        *Permission.objects.filter(codename__in=["add_inboundstart", "add_schedule"])
    )
    InboundStart.objects.create(
        source=InboundSource.objects.create(name="ordering", user=ana, secrets=[SECRET]),
        template="writing",
        request="a letter",
    )
    event = {"run_id": world.states["talking"]["run_id"], "payload": {"decision": "approve"}}
    wait = {
        "run_id": "outer-1",
        "node_id": "decide",
        "blocking_reason": "missing",
        "question": "Which?",
        "state": {"lines": [1, 2]},
    }
    primitives.create_checkpoint("reported", "node", {}, {}, "approval", by=ana)
    primitives.ingest_resume_event("reported", "approve", {}, by=ana)
    sample = make_sample(Path(settings.WAYSTATION_REPOSITORIES[0]) / "registered")
    trace = {"traceId": paused["run_id"], "promptId": paused["pause_id"], "response": "approve"}
    sent = {
        f"{API}work-orders/{ORDER}/erasure": Sent(
            fill(world, f"{API}work-orders/{ORDER}/erasure", "completed")[0],
            {"confirm": ended["order_id"], "reason": "asked"},
            "superuser",
        ),
        f"{API}threads/{THREAD}/erasure": Sent(
            fill(world, f"{API}threads/{THREAD}/erasure", "completed")[0],
            {"confirm": ended["thread_id"], "reason": "asked"},
            "superuser",
        ),
        f"{API}tools/explain": Sent(f"/{API}tools/explain", {"tool": "clock"}),
        f"{API}templates/workflows/<slug:slug>/copies": Sent(
            f"/{API}templates/workflows/writing/copies", {"slug": "copied"}, "superuser"
        ),
        f"{API}templates/workflows/<slug:slug>/dry-run": Sent(
            f"/{API}templates/workflows/writing/dry-run", {"request": "x"}
        ),
        f"{API}threads/import": Sent(f"/{API}threads/import", document, "superuser"),
        f"{API}pauses/bulk": Sent(
            f"/{API}pauses/bulk",
            {
                "decision": "approve",
                "pauses": [
                    {"pause_id": one.shown_id, "revision": one.revision} for one in (bulk, timed)
                ],
            },
        ),
        f"{API}pauses/{PAUSE}/release": Sent(f"/{API}pauses/{claimed.shown_id}/release"),
        f"{API}pauses/{PAUSE}/hand-over": Sent(
            f"/{API}pauses/{timed.shown_id}/hand-over", {"to": "ben", "reason": "away"}
        ),
        f"{API}pauses/{PAUSE}/comments": Sent(
            f"/{API}pauses/{timed.shown_id}/comments", {"text": "Is the date right?"}
        ),
        f"{API}pauses/{PAUSE}/extend": Sent(
            f"/{API}pauses/{timed.shown_id}/extend",
            {"until": (soon + dt.timedelta(hours=4)).isoformat(), "reason": "x"},
        ),
        f"{API}pauses/{PAUSE}/snooze": Sent(
            f"/{API}pauses/{timed.shown_id}/snooze", {"until": soon.isoformat()}
        ),
        f"{API}decisions/{DECISION}/undo": Sent(f"/{API}decisions/{decision.shown_id}/undo"),
        f"{API}endpoints": Sent(
            f"/{API}endpoints", {"channel": "webhook", "target": f"http://{OUTSIDE}:9/new"}
        ),
        f"{API}endpoints/{ENDPOINT}/secret": Sent(f"/{API}endpoints/{endpoint.shown_id}/secret"),
        f"{API}endpoints/{ENDPOINT}/test": Sent(f"/{API}endpoints/{endpoint.shown_id}/test"),
        f"{API}deliveries/{DELIVERY}/again": Sent(f"/{API}deliveries/{dead.shown_id}/again"),
        f"{API}work-orders/{ORDER}/priority": Sent(
            fill(world, f"{API}work-orders/{ORDER}/priority", "paused")[0], {"priority": -1}
        ),
        f"{API}limits": Sent(f"/{API}limits", {"template": "writing"}, "superuser"),
        f"{API}schedules": Sent(
            f"/{API}schedules",
            {"name": "daily", "template": "writing", "user_request": "x", "cron": "0 9 * * *"},
            "superuser",
        ),
        f"{API}schedules/preview": Sent(f"/{API}schedules/preview", {"cron": "0 9 * * *"}),
        # begun once; it is not gone on with, so that the one order is none with which it is done
        f"{API}batches": Sent(
            f"/{API}batches", {"action": "retry", "orders": [ended["order_id"]]}, "superuser"
        ),
        f"{API}batches/preview": Sent(
            f"/{API}batches/preview",
            {"action": "retry", "orders": [ended["order_id"]]},
            "superuser",
        ),
        f"{API}schedules/{SCHEDULE}/start": Sent(
            fill(world, f"{API}schedules/{SCHEDULE}/start", "paused")[0]
        ),
        f"{API}inbound-starts": Sent(
            f"/{API}inbound-starts", {"name": "new", "template": "writing"}, "superuser"
        ),
        f"{API}inbound-starts/{START}/secret": Sent(
            fill(world, f"{API}inbound-starts/{START}/secret", "paused")[0]
        ),
        f"{API}workflows/wait": Sent(f"/{API}workflows/wait", wait),
        f"{API}workflows/<str:run_id>/status": Sent(
            f"/{API}workflows/reported/status", {"status": "completed"}
        ),
        **{
            f"{base}repositories": Sent(f"/{base}repositories", {"url": str(sample)}, "superuser")
            for base in (API, PRINTED)
        },
        f"{API}resume": Sent(f"/{API}resume", trace),
    }
    return {
        **sent,
        f"{API}inbound/<slug:source>": signed(f"/{API}inbound/signing", event),
        f"{API}inbound/<slug:source>/start": signed(f"/{API}inbound/ordering/start", {"id": 7}),
    }


def asking(world: World, **review: Any) -> Pause:
    """The question of a new order under these rules."""
    first = {
        "step_type": "planning",
        "step_template_slug": "test-plan",
        "pause_after": True,
        "pause_phase": "awaiting_plan_approval",
    }
    last = {"step_type": "deliver", "name": "finish", "step_template_slug": "test-finish"}
    definitions.edit_template(
        "ruled", steps=[{**first, "review": review}, last], title="Ruled", needs_repository=False
    )
    return pause_of(drive(submit(world.people, Group.objects.get(name="platform"), "ruled")))


def signed(url: str, body: dict[str, Any]) -> Sent:
    """As a source sends it: its message's id is the key."""
    raw, now = json.dumps(body).encode(), timezone.now()
    signature = signatures.sign(SECRET, "msg_1", now, raw)
    return Sent(
        url,
        raw,
        "",
        {
            signatures.ID: "msg_1",
            signatures.TIMESTAMP: str(int(now.timestamp())),
            signatures.SIGNATURE: signature,
        },
    )
