"""Everything between a run and its followers breaks, at full size: 50 clients and 10 000 events, or
`BENCH_TORTURE=10,300`.

Two clients are cut at every single event. What counts is that nobody misses anything or sees it
twice; see tests/servers/torture.py.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User

from bench.workload import figure
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import ApiToken, Via
from hitl.wait_gate import primitives
from tests.servers import torture
from tests.servers.private import Redis
from tests.servers.stack import Stack


def measure() -> Iterator[dict[str, Any]]:
    clients, events = (
        int(number) for number in os.environ.get("BENCH_TORTURE", "50,10000").split(",")
    )
    user = User.objects.get(username="bench")
    pause = primitives.create_checkpoint("torture", "decide", {}, {}, "approval", by=user).pause
    token, thread = ApiToken.make(user, name="torture")[1], pause.run.thread
    with tempfile.TemporaryDirectory(
        prefix="waystation-bench-", ignore_cleanup_errors=True
    ) as folder:
        redis = Redis(Path(folder))
        redis.start()
        kept = {
            name: os.environ[name]
            for name in ("DATABASE_URL", "DJANGO_SETTINGS_MODULE", "WAYSTATION_DATA")
        }
        stack = Stack(Path(folder), {**kept, "REDIS_URL": redis.url})

        def cancel() -> None:
            services.decide(pause.pk, Answer("cancel", Via.PAGE), by=user)

        async def follow() -> list[torture.Client]:
            async with torture.Proxy(stack.port, rate=0.01, seed=1).open() as proxy:
                following = torture.clients(
                    clients,
                    port=proxy.port,
                    run=pause.run.shown_id,
                    token=token,
                    late=thread.last_seq,
                )
                writing = torture.WRITE.format(
                    thread=thread.shown_id, run=pause.run.shown_id, count=events, pause=0.002
                )
                stack.start("writer", "manage.py", "shell", "-c", writing)
                storm = torture.storm(
                    stack, server, redis, following, events=thread.last_seq + events, end=cancel
                )
                await torture.follow_all(following, while_=storm, seconds=1800)
            return following

        try:
            server = stack.web()
            began = time.monotonic()
            following = asyncio.run(follow())
            took = time.monotonic() - began
        finally:
            stack.stop()
            redis.kill()
    thread.refresh_from_db()
    faults = torture.faults(following, last=thread.last_seq)
    for fault in faults[:10]:
        yield figure(fault, 1, "fault")
    name = f"{clients} clients, {events} events, each cut, Redis and server restarted"
    yield figure(f"{name}: clients with a gap or a double", len(faults), "clients", bar=0)
    yield figure(
        f"{name}: connections", sum(client.attempts for client in following), "connections"
    )
    yield figure(f"{name}: took", took, "s")
