"""What the database gets for a claim, for a step and for an end: on PostgreSQL one statement, on
SQLite a few in one transaction.

Spaces and lines do not count here. `{columns}` and `{values}` are the checkpoint's, all of them.
"""

from __future__ import annotations

import re

import pytest
from django.db import connection

from checkpoints.models import Checkpoint
from runs.engine.advance import advance
from runs.engine.commit.statements import Shape, _several
from runs.workflows.base import Go
from tests.conftest import fresh
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db(transaction=True)

CLAIM = {
    "postgresql": """
        WITH held AS MATERIALIZED (
            UPDATE runs_run
            SET status = %s::text, epoch = %s::integer, lease_owner = %s::text,
                lease_until = STATEMENT_TIMESTAMP() + %s::interval,
                started_at = STATEMENT_TIMESTAMP() + %s::interval
            WHERE id = %s::uuid AND status = %s::text AND epoch = %s::integer
              AND due_at <= STATEMENT_TIMESTAMP()
            RETURNING id
        ), numbered AS (
            UPDATE checkpoints_thread SET last_seq = last_seq + %s::integer
            WHERE id = %s::uuid AND EXISTS (SELECT 1 FROM held)
            RETURNING last_seq
        ), told AS (
            INSERT INTO checkpoints_event (thread_id, seq, kind, run_id, data, at)
            SELECT %s::uuid, last_seq - 3 + place, kind, %s::uuid, data, %s::timestamptz
            FROM numbered, (VALUES (%s::text, %s::text, 1), (%s::text, %s::text, 2),
                (%s::text, %s::text, 3)) AS fact (kind, data, place)
        )
        SELECT last_seq FROM numbered
        """,
    "sqlite": """
        UPDATE runs_run
        SET epoch = %s, status = %s, lease_owner = %s, lease_until = %s, started_at = %s
        WHERE (due_at <= (%s) AND epoch = %s AND id = %s AND status = %s);
        UPDATE checkpoints_thread SET last_seq = last_seq + %s WHERE id IN (%s)
        RETURNING id, last_seq;
        INSERT INTO checkpoints_event (thread_id, seq, kind, run_id, data, at)
        VALUES (%s, %s, %s, %s, %s, %s), (%s, %s, %s, %s, %s, %s), (%s, %s, %s, %s, %s, %s)
        RETURNING id
        """,
}
STEP = {
    "postgresql": """
        WITH held AS MATERIALIZED (
            SELECT id FROM runs_run
            WHERE id = %s::uuid AND status = %s::text AND epoch = %s::integer
              AND suspend_by = ''
            FOR NO KEY UPDATE
        ), numbered AS (
            UPDATE checkpoints_thread SET last_seq = last_seq + %s::integer , head_id = %s::uuid
            WHERE id = %s::uuid AND EXISTS (SELECT 1 FROM held)
            RETURNING last_seq
        ), kept AS (
            INSERT INTO checkpoints_checkpoint ({columns}) SELECT {values}
            WHERE EXISTS (SELECT 1 FROM held)
        ), told AS (
            INSERT INTO checkpoints_event (thread_id, seq, kind, run_id, data, at)
            SELECT %s::uuid, last_seq - 4 + place, kind, %s::uuid, data, %s::timestamptz
            FROM numbered, (VALUES (%s::text, %s::text, 1), (%s::text, %s::text, 2),
                (%s::text, %s::text, 3), (%s::text, %s::text, 4)) AS fact (kind, data, place)
        )
        SELECT last_seq FROM numbered
        """,
    "sqlite": """
        UPDATE runs_run SET epoch = %s
        WHERE (epoch = %s AND id = %s AND status = %s AND suspend_by = %s);
        UPDATE checkpoints_thread SET last_seq = last_seq + %s WHERE id IN (%s)
        RETURNING id, last_seq;
        INSERT INTO checkpoints_checkpoint ({columns}) VALUES ({values});
        UPDATE checkpoints_thread SET head_id = %s WHERE id = %s;
        INSERT INTO checkpoints_event (thread_id, seq, kind, run_id, data, at)
        VALUES (%s, %s, %s, %s, %s, %s), (%s, %s, %s, %s, %s, %s),
            (%s, %s, %s, %s, %s, %s), (%s, %s, %s, %s, %s, %s)
        RETURNING id
        """,
}
END = {
    "postgresql": STEP["postgresql"]
    .replace(
        "SELECT id FROM runs_run",
        """
            UPDATE runs_run
            SET status = %s::text, ended_at = %s::timestamp with time zone, lease_owner = %s::text,
                lease_until = %s::timestamp with time zone, attempts = %s::integer,
                lost_attempts = %s::integer, deaths = %s::smallint
        """,
    )
    .replace("FOR NO KEY UPDATE", "RETURNING id"),
    "sqlite": STEP["sqlite"].replace(
        "SET epoch = %s",
        """
            SET epoch = %s, status = %s, ended_at = %s, lease_owner = %s, lease_until = NULL,
                attempts = %s, lost_attempts = %s, deaths = %s
        """,
    ),
}
STEPS_OF_SEVERAL_RUNS = """
    WITH asked AS MATERIALIZED (
        SELECT * FROM unnest(
            %s::uuid[], %s::uuid[], %s::text[], %s::integer[], %s::timestamptz[], %s::integer[],
            {values}
        ) AS asked (run_id, thread_id, fence_status, fence_epoch, at, facts, {columns})
    ), free AS MATERIALIZED (
        SELECT asked.* FROM asked
        JOIN runs_run AS run ON run.id = run_id
        JOIN checkpoints_thread AS thread ON thread.id = asked.thread_id
        WHERE run.status = fence_status AND run.epoch = fence_epoch AND run.suspend_by = ''
        FOR NO KEY UPDATE OF run, thread SKIP LOCKED
    ), held AS MATERIALIZED (
        SELECT * FROM free
    ), numbered AS (
        UPDATE checkpoints_thread AS thread SET last_seq = last_seq + facts , head_id = kept_id
        FROM held WHERE thread.id = thread_id
        RETURNING held.*, last_seq
    ), kept AS (
        INSERT INTO checkpoints_checkpoint ({columns}) SELECT {columns} FROM numbered
    ), told AS (
        INSERT INTO checkpoints_event (thread_id, seq, kind, run_id, data, at)
        SELECT thread_id, last_seq - facts + place, kind, run_id, data, at
        FROM unnest(%s::uuid[], %s::integer[], %s::text[], %s::text[])
            AS fact (of_run, place, kind, data)
        JOIN numbered ON run_id = of_run
    )
    SELECT run_id, last_seq FROM numbered
    """


@pytest.fixture
def seen(order_that):
    """What the commits of a run with two steps and an end say to the database, in their order."""
    order = order_that(lambda state, context: Go())
    commits: list[list[str]] = []

    def hear(execute, sql, params, many, context):
        if sql.startswith(("WITH held", 'UPDATE "runs_run"')):
            commits.append([])
        if commits and not sql.startswith("BEGIN"):
            commits[-1].append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(hear):
        assert advance(order.latest_run.pk, budget=60) == []
    assert fresh(order).status == "completed"
    return [shown(";".join(commit)) for commit in commits]


def shown(sql: str) -> str:
    """A text without names of tables before columns, quotes, lines, and a checkpoint's columns."""
    sql = re.sub(r'"(runs_run|checkpoints_\w+)"\."', '"', sql).replace('"', "")
    names = [str(field.column) for field in Checkpoint._meta.concrete_fields]
    for columns in (names, [f"kept_{name}" for name in names]):
        sql = sql.replace(", ".join(columns), "{columns}")
    one = r"%s(::[a-z ]+(\[\])?)?"
    values = rf"{one}(, {one}){{{len(names) - 1}}}"
    before = r"(?<=checkpoint \(\{columns\}\)\n    SELECT )|(?<=\{columns\}\) VALUES \()"
    sql = re.sub(rf"({before}){values}", "{values}", sql)
    sql = re.sub(rf"(?<=integer\[\], ){values}(?=\) AS asked)", "{values}", sql)
    return plain(sql)


def plain(sql: str) -> str:
    spaced = " ".join(sql.split())
    return spaced.replace("( ", "(").replace(" )", ")").replace("; ", ";")


def test_a_claim(seen):
    assert seen[0] == plain(CLAIM[connection.vendor])


def test_a_step_whose_worker_goes_on(seen):
    assert seen[1:-1] == [plain(STEP[connection.vendor])] * 2


def test_an_end(seen):
    assert seen[-1] == plain(END[connection.vendor])


@pytest.mark.one_database  # SQLite has one writer
def test_steps_of_several_runs_at_once():
    text = _several(Shape(fields=(), suspendable=True, due=False, kept=True))
    assert shown(text) == plain(STEPS_OF_SEVERAL_RUNS)
