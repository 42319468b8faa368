"""A migration of data in batches: a person looks at the first batch, then the rest follow. Where a
batch cannot be migrated, people say whether to go on once it is mended, or to drop what was made.

Each batch is a step of its own, with a checkpoint: whoever dies, the migration goes on with the
batch at which it stood. `convert` says what a row becomes; replace `source` and `target`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from pydantic import BaseModel, Field

from runs.workflows import (
    Choice,
    Context,
    Done,
    Go,
    Outcome,
    Report,
    Review,
    State,
    StepFailed,
    effect,
    read,
    step,
    use,
    workflow,
)

FOLDER = Path(__file__).parent / "data"
"""Has `<table>.jsonl`, a row in each line; batches are written to `<table>.new/`."""


class Migration(BaseModel):
    table: str = Field(pattern=r"^[a-z_]{1,40}$")
    batch: int = Field(default=1000, ge=1, le=100_000, description="Rows in a batch")


def source(table: str, offset: int, count: int) -> list[dict[str, object]]:
    """So many rows from an offset; fewer at the end."""
    try:
        lines = (FOLDER / f"{table}.jsonl").read_text().splitlines()
    except FileNotFoundError as error:
        raise StepFailed(
            f"There is no table {table}: no file {FOLDER / table}.jsonl. Nothing was migrated.",
            code="no_such_table",
        ) from error
    return [json.loads(line) for line in lines[offset : offset + count]]


def convert(row: dict[str, object]) -> dict[str, object]:
    """What a row becomes."""
    return {**row, "name": str(row.get("name", "")).strip().title()}


def target(table: str, number: int, rows: list[dict[str, object]]) -> int:
    """Write a batch under its number, so that writing it again changes nothing."""
    folder = FOLDER / f"{table}.new"
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / f"{number:06}.jsonl").write_text(text)
    return len(rows)


def migrate(context: Context, number: int) -> int:
    """Migrate one batch; gives its number of rows, 0 after the last one."""
    wanted = read(Migration, context.order.input)
    rows = source(wanted.table, number * wanted.batch, wanted.batch)
    if not rows:
        return 0
    context.progress(number * wanted.batch + len(rows), unit="rows")
    changed = [convert(row) for row in rows]
    context.once(f"batch-{number}", lambda: target(wanted.table, number, changed))
    return len(changed)


@step("migration.first")
def first(state: State, context: Context) -> Outcome:
    """Migrate the first batch and show some rows, before and after."""
    wanted = read(Migration, context.order.input)
    rows = source(wanted.table, 0, 5)
    done = migrate(context, 0)
    examples = "\n".join(f"- `{json.dumps(row)}` → `{json.dumps(convert(row))}`" for row in rows)
    report = Report(
        content=f"The first batch of **{wanted.table}** is migrated.\n\n{examples}",
        facts={"Rows in it": done},
        material={"table": wanted.table, "batch": wanted.batch},
        effects=[
            effect(f"All other rows of {wanted.table} are migrated.", undo="drop the new table.")
        ],
    )
    return Go(update={"batches": 1, "rows": done}, report=report)


@step("migration.rest", loops=True)
def rest(state: State, context: Context) -> Outcome:
    """Migrate one more batch, and come again until none is left."""
    wanted = read(Migration, context.order.input)
    context.require_approval("migration.first", {"table": wanted.table, "batch": wanted.batch})
    done = migrate(context, state["batches"])
    if not done:
        return Done()
    update = {"batches": state["batches"] + 1, "rows": state["rows"] + done}
    return Go(update=update, to="rest")


@step("migration.stopped")
def stopped(state: State, context: Context) -> Outcome:
    """Say which batch cannot be migrated, and why."""
    assert context.failure is not None  # nothing else leads here
    content = f"Batch {state['batches'] + 1} failed: {context.failure.message}"
    drops = effect("The new table is dropped.", undo="migrate again.")
    return Go(report=Report(content=content, effects=[drops]))


@step("migration.drop")
def drop(state: State, context: Context) -> Outcome:
    """Drop what was migrated so far."""
    wanted = read(Migration, context.order.input)
    context.require_approval("migration.stopped")
    context.once("drop", lambda: shutil.rmtree(FOLDER / f"{wanted.table}.new", ignore_errors=True))
    return Done(update={"conclusion": "The new table was dropped"})


migration = workflow(
    "data-migration",
    title="Migrate a table",
    input=Migration,
    steps=[
        use(first, pause_after=True, review=Review(reviewers={"groups": ["data"]})),
        use(
            rest,
            max_loops=1000,
            retry={"attempts": 3, "errors": ["OSError"]},
            on_failure="stopped",
        ),
        use(
            stopped,
            pause_after=True,
            question="Drop the new table {table}?",
            choices=[Choice(name="go_on", label="Go on with this batch", to="rest")],
            review=Review(reviewers={"groups": ["data"]}),
        ),
        drop,
    ],
)
