"""What the question about a patch of 3 000 lines in 50 files costs: the server's time, the first
paint in a browser on a desk, and what the page holds before anybody scrolls.

`tests/hitl/views/test_patch_pages.py` holds the counts.
"""

from __future__ import annotations

import os
import re
import statistics
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import sync_playwright

from bench import pages
from bench.workload import as_shipped, figure
from checkpoints import store
from runs.models import Pause, WorkOrder
from tests.programs.browser import launch
from tests.worlds.large_patch import large_patch

THREADS, TURNS = 50, 5
SERVER, PAINTED, ELEMENTS = 150.0, 600.0, 4_000
"""Milliseconds, milliseconds and elements."""


def measure() -> Iterator[dict[str, Any]]:
    pages.generate(threads=THREADS, each=7, orders=THREADS)
    order = WorkOrder.objects.get(title="Order 25")
    asked = Pause.objects.filter(run__work_order=order, status="open")
    asked.update(patch_digest=store.put_blob(large_patch().encode()))
    client, home = pages.browser("reader"), f"/work-orders/{order.shown_id}/"
    pieces = re.findall(r'data-later="([^"]+)"', client.get(home).content.decode())
    for case, path in (("page", home), ("next lines", pieces[0].replace("&amp;", "&"))):
        times = pages.taken(pages.getting(client, path))
        yield {
            **figure(f"patch, {case}, p50", times["wall"], "ms", bar=SERVER),
            **{name: round(times[name], 1) for name in ("p95", "cpu", "database")},
            "queries": times["queries"],
        }
    yield from _painted(home, client.cookies["sessionid"].value)


def _painted(home: str, session: str) -> Iterator[dict[str, Any]]:
    # Playwright's loop runs in this process; the queries here are in nobody's way
    os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    painted, elements = [], 0
    with as_shipped() as stack, sync_playwright() as playwright:
        stack.web()
        chromium = launch(playwright)
        for _ in range(TURNS):
            context = chromium.new_context(
                base_url=stack.url, viewport={"width": 1280, "height": 900}
            )
            context.add_cookies([{"name": "sessionid", "value": session, "url": stack.url}])
            page = context.new_page()
            page.goto(home)
            painted.append(page.evaluate(pages.PAINT))
            elements = page.evaluate("document.querySelectorAll('*').length")
            context.close()
        chromium.close()
    yield {
        **figure("patch, first paint, p50", statistics.median(painted), "ms", bar=PAINTED),
        "worst": round(max(painted), 1),
    }
    yield figure("patch, elements before scrolling", elements, "elements", bar=ELEMENTS)
