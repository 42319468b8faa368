"""A million checkpoints: what lists, filters, histories, the latest state and the inbox cost, and
how many queries they make.

The rows are made by the server itself with generate_series, as a history of years would be: 20 000
threads of 40 checkpoints, one of them with 200 000, each checkpoint with two events; 100 000 runs
wait with an open question. Requests go through Django's test client in this process, so the figures
hold what Django and the templates take, and no network. What the database takes of that is told
beside it. `make bench ARGS="scale BENCH_SCALE=10"` takes ten times as many threads, so ten million
checkpoints, and tells how many bytes each kind of row takes, with its indexes.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from bench.growth import Line
from bench.pages import rows
from bench.pages.rows import key
from bench.workload import TEXT, Floor, figure, percentile
from checkpoints import ids, lineage
from checkpoints.events import log
from checkpoints.models import Checkpoint, Event, Thread
from checkpoints.state import codec
from hitl.models import ApiToken
from runs import services
from runs.models import Pause, Run, WorkOrder

THREADS = int(20_000 * float(os.environ.get("BENCH_SCALE", "1")))
EACH, LONG, OPEN = 40, 200_000, 100_000
TURNS, WARM = 20, 3
BAR = 30.0
"""Bare commits that a page may take, at the 95th percentile."""
YEARS = 2


def generate() -> None:
    """The rows, by the server alone. Constraints and indexes are those of the product."""
    order = services.submit("bench-ask", by=User.objects.get(username="bench"))
    run = Run.objects.get(pk=order.latest_run_id)
    root = User.objects.create_superuser("root")
    others = User.objects.bulk_create([User(username=f"owner{number}") for number in range(200)])
    state = codec.encode({"text": "word " * 100, "n": 1})
    digest = codec.state_digest(codec.state({"text": "word " * 100, "n": 1}))
    now = int(time.time() * 1000)
    first = now - YEARS * 365 * 86_400_000
    whole = codec.encode({"state": {"text": "word " * 100, "n": 1}})
    values = {"first": first, "now": now, "body": whole, "digest": digest, "size": len(whole),
        "definition": run.definition_id,
              "template": WorkOrder.objects.get(pk=order.pk).template_id, "low": others[0].pk,
              "many": len(others), "root": root.pk,
              "threads": THREADS, "each": EACH, "long": LONG, "open": OPEN,
              "state": state}  # fmt: skip
    rows.write(STATEMENTS, values, models=(Thread, Checkpoint, Run, Pause, WorkOrder))


def _t(n: str) -> str:
    """When thread number n began, in milliseconds."""
    return f"(%(first)s + ({n})::bigint * (%(now)s - %(first)s - 3600000) / %(threads)s)"


def _c(n: str, i: str) -> str:
    """When its checkpoint number i was written."""
    return f"({_t(n)} + ({i})::bigint * 100)"


def _w(kind: str) -> str:
    """The key of what belongs to the waiting run number n."""
    return key(WAITS, f"'{kind}' || n")


def _l(i: str) -> str:
    """The key of the long thread's checkpoint number i."""
    return key(f"(%(first)s + ({i})::bigint * 1000)", f"'l' || ({i})")


WAITS = "(%(now)s - 3000000 + n::bigint * 20)"
"""When the waiting run number n began."""
LONE = key("%(first)s::bigint", "'long'")
CHECKPOINT = (
    "(id, thread_id, run_id, parent_id, status, node_id, next_step, loop_num, completed_nodes, total_nodes, is_snapshot, depth, body,"
    " schema_version, digest, size, metadata, created_at)"
)
STATUS = """CASE WHEN i = %(each)s THEN CASE WHEN n %% 2000 = 7 THEN 'failed' WHEN n %% 5 = 1 THEN
    'pending_input' ELSE 'completed' END
 ELSE 'active' END"""
NODE = "CASE WHEN n %% 4000 = 11 AND i = 5 THEN 'rare' ELSE (ARRAY['planning','execute','review','deliver'])[1 + i %% 4] END"
STATEMENTS = [
    f"""INSERT INTO checkpoints_thread (id, owner_id, title, last_seq, created_at)
        SELECT {key(_t("n"), "'t' || n")}, %(low)s + n %% %(many)s, 'Thread ' || n, 2 * %(each)s,
        to_timestamp({_t("n")} / 1000.0)
        FROM generate_series(1, %(threads)s) AS n""",
    f"""INSERT INTO checkpoints_checkpoint {CHECKPOINT}
        SELECT {key(_c("n", "i"), "'c' || n || '.' || i")}, {key(_t("n"), "'t' || n")},
        {key(_t("n"), "'r' || n")},
               CASE WHEN i > 1 THEN {key(_c("n", "i - 1"), "'c' || n || '.' || (i - 1)")} END,
               {STATUS}, {NODE}, 'execute', 1, 1, 4, true, 0, %(body)s, 2, %(digest)s, CASE WHEN n
               %% 3000 = 5 THEN 50000 ELSE %(size)s END,
               '{{}}', to_timestamp({_c("n", "i")} / 1000.0)
        FROM generate_series(1, %(threads)s) AS n, generate_series(1, %(each)s) AS i""",
    f"""UPDATE checkpoints_thread SET head_id =
        {key(_c("n", "%(each)s"), "'c' || n || '.' || %(each)s")}
        FROM generate_series(1, %(threads)s) AS n WHERE id = {key(_t("n"), "'t' || n")}""",
    f"""INSERT INTO checkpoints_thread (id, owner_id, title, last_seq, created_at)
        SELECT {LONE}, %(root)s, 'The long one', 2 * %(long)s, to_timestamp(%(first)s::bigint /
        1000.0)""",
    f"""INSERT INTO checkpoints_checkpoint {CHECKPOINT}
        SELECT {_l("i")}, {LONE}, {key("%(first)s::bigint", "'lr'")},
               CASE WHEN i > 1 THEN {_l("i - 1")} END,
               'active', 'execute', 'execute', i, 1, 4, true, 0, %(body)s, 2, %(digest)s, %(size)s,
               '{{}}',
               to_timestamp((%(first)s + i::bigint * 1000) / 1000.0)
        FROM generate_series(1, %(long)s) AS i""",
    f"""UPDATE checkpoints_thread SET head_id = {_l("%(long)s")}
        WHERE id = {LONE}""",
    """INSERT INTO checkpoints_event (thread_id, seq, kind, run_id, data, at)
        SELECT thread_id, 2 * row_number() OVER w - half, CASE half WHEN 1 THEN 'step_completed'
        ELSE 'checkpoint_created' END, run_id,
               CASE half WHEN 1 THEN '{"step":"execute"}' ELSE
               '{"checkpoint_id":"generated","node_id":"execute"}' END, created_at
        FROM checkpoints_checkpoint, generate_series(0, 1) AS half
        WHERE thread_id IN (SELECT id FROM checkpoints_thread WHERE title LIKE 'Thread %%')
        WINDOW w AS (PARTITION BY thread_id, half ORDER BY checkpoints_checkpoint.id)""",
    f"""INSERT INTO checkpoints_thread (id, owner_id, title, last_seq, created_at)
        SELECT {_w("w")},
               CASE WHEN n %% 100 = 1 THEN %(low)s ELSE %(low)s + 1 + n %% (%(many)s - 1) END,
               'Waiting ' || n, 0, to_timestamp({WAITS} / 1000.0)
        FROM generate_series(1, %(open)s) AS n""",
    f"""INSERT INTO checkpoints_checkpoint {CHECKPOINT}
        SELECT {_w("wc")}, {_w("w")},
               {_w("wr")}, NULL, 'pending_input', 'planning', '', 1, 1, 2, true, 0, %(body)s, 2,
               %(digest)s, %(size)s, '{{"blocking_reason":"awaiting_plan_approval"}}',
               to_timestamp({WAITS} / 1000.0)
        FROM generate_series(1, %(open)s) AS n""",
    f"""INSERT INTO runs_run (id, thread_id, definition_id, status, input, child_name, optional,
        depth, awaited, queue, epoch, lease_owner,
            lost_attempts, due_at, attempts, suspend_by, interrupt_before, interrupt_after, reason,
            error, failure_code, created_at)
        SELECT {_w("wr")}, {_w("w")},
               %(definition)s, 'paused', '{{}}', '', false, 0, 0, 'steps', 1, '', 0, now(), 0, '',
               '[]', '[]', '', '', '', now()
        FROM generate_series(1, %(open)s) AS n""",
    f"""INSERT INTO runs_pause (id, run_id, checkpoint_id, step, phase, status, question, content,
        patch_digest, facts, effects,
            content_digest, revision, max_revisions, ways, labels, opened_at)
        SELECT {_w("wp")}, {_w("wr")},
               {_w("wc")}, 'planning', 'awaiting_plan_approval', 'open',
               'Waiting for Plan Approval', 'Go on?', '', '[]', '[]', '', 1, 3,
               '{{"approve":"execute"}}', '{{}}', now()
        FROM generate_series(1, %(open)s) AS n""",
    f"""UPDATE checkpoints_thread SET head_id = {_w("wc")}
        FROM generate_series(1, %(open)s) AS n WHERE id = {_w("w")}""",
]


def measure() -> Iterator[dict[str, Any]]:
    began = time.perf_counter()
    generate()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT reltuples::bigint FROM pg_class WHERE relname = 'checkpoints_checkpoint'"
        )
        yield figure("checkpoints generated", cursor.fetchone()[0], "rows", floor=None)
    yield figure("generating them took", time.perf_counter() - began, "s")
    yield from bytes_of_rows()
    floor = Floor()
    yield from steps(floor)
    for case, act in cases():
        yield from one(case, act, floor)


def bytes_of_rows() -> Iterator[dict[str, Any]]:
    """Of each kind, on the disk: the row itself, and what its indexes take beside it."""
    for model in (Checkpoint, Event, Thread, Run, Pause):
        table = model._meta.db_table
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT reltuples::bigint, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class"
                " WHERE relname = %s",
                [table],
            )
            many, rows_, indexes = cursor.fetchone()
        yield figure(f"{table}, {many} rows: a row", rows_ / many, "B")
        yield figure(f"{table}, {many} rows: its place in indexes", indexes / many, "B")


def steps(floor: Floor) -> Iterator[dict[str, Any]]:
    """What writing goes through the indexes of all that."""
    line = Line()
    taken = []
    for number in range(300):
        began = time.perf_counter()
        line.step({"messages": [f"{number} {TEXT}"]})
        if number >= 50:
            taken.append((time.perf_counter() - began) * 1000)
    bare, step = floor.sample() * 1000, statistics.median(taken)
    yield figure("a step of a new thread, p50", step, "ms", floor=bare, ratio=step / bare)


def one(case: str, act: Callable[[], Any], floor: Floor) -> Iterator[dict[str, Any]]:
    taken, worked, in_database, queries = [], [], [], set()
    gc.collect()
    for turn in range(WARM + TURNS):
        spent = [0.0, 0]

        def watch(
            execute: Any,
            sql: str,
            params: Any,
            many: bool,
            context: Any,
            spent: list[float] = spent,
        ) -> Any:
            start = time.perf_counter()
            try:
                return execute(sql, params, many, context)
            finally:
                spent[0] += time.perf_counter() - start
                spent[1] += 1

        start, busy = time.perf_counter(), time.process_time()
        with connection.execute_wrapper(watch):
            act()
        if turn >= WARM:
            taken.append((time.perf_counter() - start) * 1000)
            worked.append((time.process_time() - busy) * 1000)
            in_database.append(spent[0] * 1000)
            queries.add(int(spent[1]))
    bare = floor.sample() * 1000
    p95 = percentile(taken, 0.95)
    line = figure(f"{case}, p95", p95, "ms", floor=bare, ratio=p95 / bare, bar=BAR)
    more = {
        "p50": statistics.median(taken),
        "cpu_p50": statistics.median(worked),
        "database_p50": statistics.median(in_database),
    }
    yield {
        **line,
        **{name: round(value, 2) for name, value in more.items()},
        "queries": sorted(queries),
    }


def cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    desk, person = browser("root"), browser("owner0")
    token = ApiToken.make(User.objects.get(username="owner0"), name="bench")[1]
    some = Checkpoint.objects.filter(status="completed").order_by("-pk")[100]
    long = Thread.objects.get(title="The long one")
    ordinary = Thread.objects.filter(owner__username="owner0", title__startswith="Thread").order_by(
        "-pk"
    )[0]
    middle = lineage.history(long.pk, limit=1)[0]
    lists = "/admin/checkpoints/checkpoint/"
    api = f"/api/v1/threads/{ordinary.shown_id}"
    deep = {"before": str(Checkpoint.objects.order_by("pk")[2 * EACH].pk)}
    yield "admin list of checkpoints", getting(desk, lists)
    yield "admin list, 998 000 rows further on", getting(desk, lists, **deep)
    yield "admin list, by thread", getting(desk, lists, q=ordinary.shown_id)
    yield "admin list, of the thread of 200 000", getting(desk, lists, q=long.shown_id)
    yield "admin list, by run", getting(desk, lists, q=ids.show("run", some.run_id))
    yield "admin list, status failed (1 in 100 000)", getting(desk, lists, status="failed")
    yield "admin list, a rare node", getting(desk, lists, node="rare")
    yield "admin list, a node of a thread", getting(desk, lists, node="rare", q=long.shown_id)
    yield "admin list, of an age", getting(desk, lists, age="older")
    yield "admin list, from 10 KB", getting(desk, lists, size="10k")
    yield (
        "admin list, all filters",
        getting(desk, lists, size="10k", node="rare", status="failed", age="month"),
    )
    yield "admin list of events", getting(desk, "/admin/checkpoints/event/")
    yield "admin list of threads", getting(desk, "/admin/checkpoints/thread/")
    yield "admin list of runs", getting(desk, "/admin/runs/run/")
    yield "admin list of questions", getting(desk, "/admin/runs/pause/")
    yield "admin page of a checkpoint", getting(desk, f"{lists}{some.pk}/change/")
    yield (
        "admin page of a thread",
        getting(desk, f"/admin/checkpoints/thread/{ordinary.pk}/change/"),
    )
    yield (
        "admin page of the thread of 200 000",
        getting(desk, f"/admin/checkpoints/thread/{long.pk}/change/"),
    )
    yield "log of a thread, by call", lambda: log.after(ordinary.pk, 0)
    yield "runs to take back, by call", lambda: list(Run.objects.lost(now=timezone.now())[:50])
    yield "history, REST", getting(person, f"{api}/history", token)
    yield "branches, REST", getting(person, f"{api}/branches", token)
    yield "latest, REST", getting(person, f"{api}/state", token)
    yield "latest, by call", lambda: lineage.latest(long.pk)
    yield "history of 200 000, by call", lambda: lineage.history(long.pk, before=middle.pk)
    yield "chain of 200 000, by call", lambda: lineage.chain(middle.pk)
    yield "inbox of one with 1 000 open questions", getting(person, "/")
    yield "inbox of one who sees all 100 000", getting(desk, "/")
    yield "open questions, REST", getting(person, "/api/v1/pauses?open=1", token)


def browser(name: str) -> Client:
    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.get(username=name))
    return client


def getting(client: Client, path: str, token: str = "", **query: str) -> Callable[[], Any]:
    headers = {"authorization": f"Bearer {token}"} if token else {}

    def get() -> None:
        response = client.get(path, query or None, headers=headers)
        assert response.status_code == 200, (path, response.status_code)

    with CaptureQueriesContext(connection) as captured:
        get()
    assert not any(
        "COUNT(*) AS" in query["sql"] and 'FROM "checkpoints_checkpoint"' in query["sql"]
        for query in captured
    ), "a count of a big table"
    return get
