"""What pages and REST lists cost on a server in use: 120 000 checkpoints, 10 000 open questions,
5 000 work orders, all of which the reader may see.

Requests go through Django's test client in this process, so a figure holds what Django, its
templates and the database take, and no network. `floor` is an empty request (every middleware, no
row) in the same run. `queries` are the numbers of queries that were seen: one number is a fixed
one. Last comes the inbox in a browser like a phone's (processor four times slower, 4G), and the
frames of one on a desk while somebody goes through it by keys.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from playwright.sync_api import sync_playwright

from bench.pages import rows
from bench.pages.rows import key
from bench.workload import as_shipped, figure, percentile
from checkpoints import ids
from checkpoints.models import Checkpoint, Event, Thread
from checkpoints.state import codec
from hitl.live.inbox_feed import SHOWN
from hitl.models import ApiToken, Decision
from runs import services
from runs.models import Pause, Run, WorkOrder
from tests.programs.browser import launch

THREADS, EACH, ORDERS = 10_000, 12, 5_000
TURNS, WARM = 40, 5
PHONE_TURNS, SLOWER = 5, 4
FOUR_G = {"latency": 40, "downloadThroughput": 9e6 / 8, "uploadThroughput": 4.5e6 / 8}
"""Milliseconds; bytes a second."""
BARS = {
    "inbox": 45.0,
    "inbox, of a superuser": 45.0,
    "order page": 45.0,
    "REST pauses": 20.0,
    "REST open pauses": 20.0,
    "admin checkpoints": 40.0,
}
"""Milliseconds at the median."""


def measure() -> Iterator[dict[str, Any]]:
    began = time.perf_counter()
    generate()
    counts = (model.objects.count() for model in (Checkpoint, Pause, WorkOrder, Event, Decision))
    names = ("checkpoints", "questions", "orders", "events", "decisions")
    yield {
        **figure("rows made in", time.perf_counter() - began, "s"),
        **dict(zip(names, counts, strict=True)),
    }
    client = browser("reader")
    empty = statistics.median(taken(lambda: client.get("/favicon.ico"))["wall"] for _ in range(5))
    yield figure("empty request, p50", empty, "ms")
    for case, act in cases():
        yield line(case, taken(act), empty)
    yield from first_paint()
    yield from frames()


def generate(*, threads: int = THREADS, each: int = EACH, orders: int = ORDERS) -> None:
    """So many threads with so many checkpoints each, seven at least, and an open question; the
    first of them are of orders, with an answered question more.
    """
    order = services.submit("bench-ask", by=User.objects.get(username="bench"))
    run = Run.objects.get(pk=order.latest_run_id)
    state = {"text": "word " * 100, "n": 1}
    body = codec.encode({"state": state})
    team = Group.objects.create(name="everybody")
    reader = User.objects.create_user("reader")
    reader.groups.add(team)
    User.objects.create_superuser("root")
    others = User.objects.bulk_create([User(username=f"owner{number}") for number in range(200)])
    values = {
        "now": int(time.time() * 1000),
        "threads": threads,
        "each": each,
        "orders": orders,
        "low": others[0].pk,
        "many": len(others),
        "team": team.pk,
        "reader": reader.pk,
        "definition": run.definition_id,
        "template": WorkOrder.objects.get(pk=order.pk).template_id,
        "body": body,
        "size": len(body),
        "digest": codec.state_digest(codec.state(state)),
    }
    rows.write(STATEMENTS, values, models=(Thread, Checkpoint, Run, Pause, WorkOrder, Decision))


BEGAN = "(%(now)s - 3000 * %(threads)s::bigint + n::bigint * 2000)"
"""When thread number n began, in milliseconds."""


def _key(kind: str, i: str = "0") -> str:
    """The key of what belongs to thread number n, at its checkpoint number i."""
    return key(f"({BEGAN} + ({i})::bigint * 100)", f"'{kind}' || n || '.' || ({i})")


OWNER = "%(low)s + n %% %(many)s"
EVERY = "generate_series(1, %(threads)s) AS n"
OF_ORDERS = "generate_series(1, %(orders)s) AS n"
PAUSE = (
    "(id, run_id, checkpoint_id, step, phase, status, question, content, content_digest, ways,"
    " opened_at, closed_at, changed_at, deadline_at, extendable_until)"
)
STATEMENTS = [
    f"""INSERT INTO checkpoints_thread (id, owner_id, team_id, title, last_seq, created_at)
        SELECT {_key("t")}, {OWNER}, %(team)s, 'Thread ' || n, 2 * %(each)s,
               to_timestamp({BEGAN} / 1000.0) FROM {EVERY}""",
    f"""INSERT INTO checkpoints_checkpoint (id, thread_id, run_id, parent_id, status, node_id,
            next_step, loop_num, completed_nodes, total_nodes, is_snapshot, depth, body,
            schema_version, digest, size, metadata, created_at)
        SELECT {_key("c", "i")}, {_key("t")}, {_key("r")},
               CASE WHEN i > 1 THEN {_key("c", "i - 1")} END,
               CASE WHEN i = %(each)s THEN 'pending_input' ELSE 'active' END,
               CASE WHEN i = 1 THEN '' ELSE 'planning' END,
               CASE WHEN i = %(each)s THEN '' ELSE 'planning' END,
               greatest(i - 1, 1), 0, 2, true, 0, %(body)s, 2, %(digest)s, %(size)s,
               CASE WHEN i = %(each)s THEN '{{"blocking_reason":"awaiting_plan_approval"}}'
               ELSE '{{}}' END, to_timestamp(({BEGAN} + i::bigint * 100) / 1000.0)
        FROM {EVERY}, generate_series(1, %(each)s) AS i""",
    f"""UPDATE checkpoints_thread SET head_id = {_key("c", "%(each)s")}
        FROM {EVERY} WHERE id = {_key("t")}""",
    f"""INSERT INTO checkpoints_event (thread_id, seq, kind, run_id, data, at)
        SELECT {_key("t")}, seq, CASE seq %% 2 WHEN 1 THEN 'step_started' ELSE 'step_completed' END,
               {_key("r")}, '{{"step":"planning"}}',
               to_timestamp(({BEGAN} + seq::bigint * 50) / 1000.0)
        FROM {EVERY}, generate_series(1, 2 * %(each)s) AS seq""",
    f"""INSERT INTO runs_workorder (id, thread_id, template_id, definition_id, title, created_by_id,
            latest_run_id, author, repository_url, created_at)
        SELECT {_key("w")}, {_key("t")}, %(template)s, %(definition)s, 'Order ' || n, {OWNER},
               {_key("r")}, 'Bench <bench@example.com>', '', to_timestamp({BEGAN} / 1000.0)
        FROM {OF_ORDERS}""",
    f"""INSERT INTO runs_run (id, thread_id, work_order_id, definition_id, status, epoch, due_at,
            started_at, created_at)
        SELECT {_key("r")}, {_key("t")}, CASE WHEN n <= %(orders)s THEN {_key("w")} END,
               %(definition)s, 'paused', 1, now(), to_timestamp({BEGAN} / 1000.0),
               to_timestamp({BEGAN} / 1000.0) FROM {EVERY}""",
    f"""INSERT INTO runs_pause {PAUSE}
        SELECT {_key("p", "%(each)s")}, {_key("r")}, {_key("c", "%(each)s")}, 'planning',
               'awaiting_plan_approval', 'open', 'Waiting for Plan Approval', 'Go on?', '',
               '{{"approve":"execute","revise":"planning"}}',
               to_timestamp(({BEGAN} + %(each)s * 100) / 1000.0), NULL, now(),
               CASE WHEN n %% 3 = 0 THEN now() + n * interval '1 minute' END,
               CASE WHEN n %% 3 = 0 THEN now() + n * interval '2 minutes' END FROM {EVERY}""",
    f"""INSERT INTO runs_pause {PAUSE}
        SELECT {_key("p", "6")}, {_key("r")}, {_key("c", "6")}, 'planning',
               'awaiting_plan_approval', 'answered', 'Waiting for Plan Approval', 'Go on?', '',
               '{{"approve":"execute","revise":"planning"}}',
               to_timestamp(({BEGAN} + 600) / 1000.0), to_timestamp(({BEGAN} + 700) / 1000.0),
               now(), NULL, NULL FROM {OF_ORDERS}""",
    "INSERT INTO hitl_ledger (name, length, tip) VALUES ('bench', %(orders)s, '')",
    f"""INSERT INTO hitl_decision (id, pause_id, action, feedback, decided_by_id, decided_at, via,
            revision, content_digest, ledger_id, position, previous, digest)
        SELECT {_key("d", "6")}, {_key("p", "6")}, 'revise', 'Shorter, please.', %(reader)s,
               to_timestamp(({BEGAN} + 700) / 1000.0), 'page', 1, '',
               'bench', n, '', md5('d' || n)
        FROM {OF_ORDERS}""",
]


def cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    reader, root = browser("reader"), browser("root")
    token = ApiToken.make(User.objects.get(username="reader"), name="bench")[1]
    order = WorkOrder.objects.filter(title="Order 2500").get()
    thread = Thread.objects.filter(title="Thread 7500").get()
    run = ids.show("run", order.latest_run_id)
    yield "inbox", getting(reader, "/")
    yield "inbox, of a superuser", getting(root, "/")
    yield "order page", getting(reader, f"/work-orders/{order.shown_id}/")
    yield "list of orders", getting(reader, "/work-orders/")
    yield "list of threads", getting(reader, "/threads/")
    yield "thread page", getting(reader, f"/threads/{thread.shown_id}/")
    yield "history of a thread", getting(reader, f"/threads/{thread.shown_id}/history")
    for name, path in {
        "pauses": "pauses",
        "open pauses": "pauses?open=1",
        "work orders": "work-orders",
        "threads": "threads",
        "runs": "runs",
        "checkpoints": f"runs/{run}/checkpoints",
        "history": f"threads/{thread.shown_id}/history",
        "messages": f"threads/{thread.shown_id}/messages",
        "events": f"threads/{thread.shown_id}/events",
    }.items():
        yield f"REST {name}", getting(reader, f"/api/v1/{path}", token)
    yield "admin checkpoints", getting(root, "/admin/checkpoints/checkpoint/")
    yield "admin runs", getting(root, "/admin/runs/run/")
    yield "admin questions", getting(root, "/admin/runs/pause/")


def browser(name: str) -> Client:
    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.get(username=name))
    return client


def getting(client: Client, path: str, token: str = "") -> Callable[[], Any]:
    headers = {"authorization": f"Bearer {token}"} if token else {}

    def get() -> None:
        response = client.get(path, headers=headers)
        assert response.status_code == 200, (path, response.status_code)

    return get


def taken(act: Callable[[], Any]) -> dict[str, Any]:
    """Milliseconds of one request at the median, and how many queries it made."""
    wall, busy, database, queries = [], [], [], set()
    gc.collect()
    for turn in range(WARM + TURNS):
        spent: list[float] = []

        def watch(execute: Any, *words: Any, spent: list[float] = spent) -> Any:
            start = time.perf_counter()
            try:
                return execute(*words)
            finally:
                spent.append(time.perf_counter() - start)

        start, began = time.perf_counter(), time.process_time()
        with connection.execute_wrapper(watch):
            act()
        if turn >= WARM:
            wall.append((time.perf_counter() - start) * 1000)
            busy.append((time.process_time() - began) * 1000)
            database.append(sum(spent) * 1000)
            queries.add(len(spent))
    return {
        "wall": statistics.median(wall),
        "p95": percentile(wall, 0.95),
        "cpu": statistics.median(busy),
        "database": statistics.median(database),
        "queries": sorted(queries),
    }


def line(case: str, times: dict[str, Any], empty: float) -> dict[str, Any]:
    bar = BARS.get(case)
    more = {name: round(times[name], 1) for name in ("p95", "cpu", "database")}
    return {
        **figure(f"{case}, p50", times["wall"], "ms", bar=bar, floor=empty),
        **more,
        "against_empty": round(times["wall"] / empty, 1),
        "queries": times["queries"],
    }


def first_paint() -> Iterator[dict[str, Any]]:
    """A whole page of the inbox on a phone: request → first contentful paint, in a new context
    each time, so that nothing is in its cache.
    """
    # Playwright's loop runs in this process; the queries here are in nobody's way
    os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    session = browser("reader").cookies["sessionid"].value
    painted, size = [], 0
    with as_shipped() as stack, sync_playwright() as playwright:
        stack.web()
        chromium = launch(playwright)
        for _ in range(PHONE_TURNS):
            context = chromium.new_context(base_url=stack.url, **playwright.devices["Pixel 5"])
            context.add_cookies([{"name": "sessionid", "value": session, "url": stack.url}])
            page = context.new_page()
            phone = context.new_cdp_session(page)
            phone.send("Network.enable")
            phone.send("Network.emulateNetworkConditions", {"offline": False, **FOUR_G})
            phone.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
            page.goto("/")
            assert page.locator("[data-row]").count() == SHOWN
            painted.append(page.evaluate(PAINT))
            size = page.evaluate(SIZE)
            context.close()
        chromium.close()
    yield {
        **figure("inbox on a phone, first paint, p50", statistics.median(painted), "ms"),
        "worst": round(max(painted), 1),
        "kib": round(size / 1024, 1),
    }


def frames() -> Iterator[dict[str, Any]]:
    """Milliseconds between the browser's frames while somebody goes up and down the inbox and
    scrolls it; 16.7 are sixty in a second.
    """
    os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    session = browser("reader").cookies["sessionid"].value
    with as_shipped() as stack, sync_playwright() as playwright:
        stack.web()
        chromium = launch(playwright)
        context = chromium.new_context(base_url=stack.url, viewport={"width": 1280, "height": 800})
        context.add_cookies([{"name": "sessionid", "value": session, "url": stack.url}])
        page = context.new_page()
        page.goto("/")
        assert page.locator("[data-row]").count() == SHOWN
        for what in ("no hand on it", "keys", "wheel"):
            page.evaluate(WATCH_FRAMES)
            for turn in range(FRAME_TURNS):
                match what:
                    case "keys":
                        page.keyboard.press("x" if turn % 5 == 4 else "jk"[turn // 20 % 2])
                    case "wheel":
                        page.mouse.wheel(0, 200 if turn // 20 % 2 == 0 else -200)
                page.wait_for_timeout(30)
            gaps = page.evaluate("window.gaps.splice(0)")
            yield {
                **figure(f"inbox, {what}: a frame, p50", statistics.median(gaps), "ms"),
                "p95": round(percentile(gaps, 0.95), 1),
                "worst": round(max(gaps), 1),
                "late": round(sum(gap > LATE for gap in gaps) / len(gaps), 3),
                "frames": len(gaps),
            }
        chromium.close()


FRAME_TURNS = 80
LATE = 25.0
"""Milliseconds: a frame was left out."""
WATCH_FRAMES = """() => {
  window.gaps = [];
  if (window.watching) return;
  window.watching = true;
  let before = performance.now();
  const look = (now) => {
    window.gaps.push(now - before);
    before = now;
    requestAnimationFrame(look);
  };
  requestAnimationFrame((now) => { before = now; requestAnimationFrame(look); });
}"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
SIZE = """[...performance.getEntriesByType('navigation'),
    ...performance.getEntriesByType('resource')].reduce((sum, one) => sum + one.transferSize, 0)"""
