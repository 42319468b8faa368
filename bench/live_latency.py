"""From a commit to the callback in a browser's page, which follows with `run-stream.js`: Chromium,
Daphne, Redis, PostgreSQL.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client

from bench.workload import figure, percentile
from checkpoints.events import log
from checkpoints.models import EventKind
from runs.threads import turns
from tests.programs.browser import chromium
from tests.servers.stack import Stack

WARM, EVENTS, EVERY = 10, 200, 0.05  # seconds apart: each is seen before the next is sent
FOLLOW = """async ({ thread }) => {
  const { openStream } = await import("/static/js/run-stream.js");
  window.heard = {};
  const onEvent = ({ seq }) => { window.heard[seq] = performance.timeOrigin + performance.now(); };
  await new Promise((live) => openStream({ thread, onEvent, onState: (state) => state === "live" && live() }));
}"""


def measure() -> Iterator[dict[str, Any]]:
    # Playwright's loop runs in this process; the queries here are in nobody's way
    os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    user = User.objects.get(username="bench")
    client = Client()
    client.force_login(user)
    thread = turns.open_thread(by=user)
    with tempfile.TemporaryDirectory(
        prefix="waystation-bench-", ignore_cleanup_errors=True
    ) as folder:
        kept = {
            name: os.environ[name]
            for name in ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "WAYSTATION_DATA")
        }
        stack = Stack(Path(folder), kept)
        try:
            stack.web()
            with chromium() as browser:
                context = browser.new_context(base_url=stack.url)
                context.add_cookies(
                    [
                        {
                            "name": "sessionid",
                            "value": client.cookies["sessionid"].value,
                            "url": stack.url,
                        }
                    ]
                )
                page = context.new_page()
                page.goto("/static/favicon.svg")
                page.goto("/login")
                page.evaluate(FOLLOW, {"thread": thread.shown_id})
                committed = {}
                for _ in range(WARM + EVENTS):
                    with transaction.atomic():
                        [event] = log.append(
                            thread.pk, None, [(EventKind.LOG, {"message": "x" * 200})]
                        )
                    committed[event.seq] = time.time() * 1000
                    time.sleep(EVERY)  # so many events a second
                page.wait_for_function(
                    "count => Object.keys(window.heard).length === count", arg=WARM + EVENTS
                )
                heard = {int(seq): at for seq, at in page.evaluate("window.heard").items()}
        finally:
            stack.stop()
    waits = [max(0.0, heard[seq] - at) for seq, at in list(committed.items())[WARM:]]
    yield figure("commit → browser callback, p50", percentile(waits, 0.5), "ms", bar=12)
    yield figure("commit → browser callback, p99", percentile(waits, 0.99), "ms", bar=50)
