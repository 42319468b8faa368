"""What `make up` is on a laptop: one process with SQLite and no Redis, 50 orders at work and five
browsers that look at them.

A browser is a plain HTTP client with a session, one page a second, which follows an order's
events beside that as a page does: Chromium itself would take the processors from what is measured.
`BENCH_ORDERS=20` takes fewer orders.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.workload import figure, percentile
from tests.servers.stack import ROOT, Stack, until

ORDERS, STEPS, BROWSERS = int(os.environ.get("BENCH_ORDERS", "50")), 60, 5
PAGE_BAR, STEPS_BAR = 300.0, 150.0
"""Milliseconds at the 95th percentile; steps a second, at least."""
LOCKED = ("database is locked", "database table is locked")


def measure() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(
        prefix="waystation-bench-", ignore_cleanup_errors=True
    ) as folder:
        stack = Stack(
            Path(folder), {"DJANGO_SETTINGS_MODULE": "bench.settings", "BENCH_STEPS": str(STEPS)}
        )
        for name in ("LEASE", "SWEEP", "PATIENCE"):
            del stack.environment[f"WAYSTATION_{name}_SECONDS"]
        try:
            keys = json.loads(done_by_client(stack, {"do": "prepare"}))
            stack.standalone()
            alone = _drain(stack, keys["token"])
            yield _rate("steps per second, nobody looks", alone)
            with ThreadPoolExecutor(1) as pool:
                wish = {"do": "browse", "port": stack.port, "browsers": BROWSERS, **keys}
                looks = pool.submit(done_by_client, stack, wish)
                rate = _drain(stack, keys["token"])
                (stack.folder / "over").touch()
                seen = json.loads(looks.result())
            yield _rate(f"steps per second, {BROWSERS} browsers look", rate)
            p95 = percentile(seen["pages"], 0.95)
            case = f"pages of {BROWSERS} browsers, {ORDERS} orders at work"
            yield {
                **figure(f"{case}, p95", p95, "ms", bar=PAGE_BAR),
                "p50": round(percentile(seen["pages"], 0.5), 1),
                "pages": len(seen["pages"]),
                "events": seen["events"],
            }
            yield figure("pages and streams that failed", seen["failed"], "requests", bar=0)
            log = stack.log_tail() + (stack.folder / "standalone.log").read_text(errors="replace")
            yield figure("lock errors", sum(map(log.count, LOCKED)), "errors", bar=0)
        finally:
            stack.stop()


def _rate(case: str, rate: float) -> dict[str, Any]:
    """More is better here, so what is judged is the bar over the rate."""
    return {
        **figure(case, rate, "1/s", ratio=STEPS_BAR / rate, bar=1.0),
        "orders": ORDERS,
        "steps": STEPS,
    }


def _drain(stack: Stack, token: str) -> float:
    """Steps per second of ORDERS orders, from the first request to the last step."""
    body = {"template": "bench-steps"}
    before, began = _steps(stack), time.perf_counter()
    for _ in range(ORDERS):
        status, answer = stack.call("POST", "/api/v1/work-orders", body, token=token)
        assert status == 201, answer
    wanted = before + ORDERS * STEPS
    until(lambda: _steps(stack) >= wanted, seconds=90, what="all steps", every=0.1)
    return ORDERS * STEPS / (time.perf_counter() - began)


def _steps(stack: Stack) -> int:
    """How many steps have been done, read beside the server, which that does not hold up."""
    place = stack.folder / "data" / "waystation.sqlite3"
    reading = sqlite3.connect(f"file:{place}?mode=ro", uri=True)
    try:
        done = "SELECT count(*) FROM checkpoints_checkpoint WHERE node_id <> ''"
        return int(reading.execute(done).fetchone()[0])
    finally:
        reading.close()


def done_by_client(stack: Stack, wish: dict[str, Any]) -> str:
    """One of the things that `bench.standalone.clients` does; gives what it says."""
    return subprocess.run(
        [sys.executable, "-m", "bench.standalone.clients"],
        cwd=ROOT,
        env={**stack.environment, "LOG_LEVEL": "ERROR"},
        input=json.dumps({**wish, "folder": str(stack.folder)}),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
