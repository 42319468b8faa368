"""Migrations run while processes of the version before go on: each is looked at for what would stop
them (docs/how-to/upgrade.md, "Two phases").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection, models
from django.db.migrations import Migration, RunSQL
from django.db.migrations import operations as ops
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ModelState, ProjectState

from checkpoints.database.migrating import AddCheckBeside, AddIndexBeside, AddUniqueBeside

APPS = ("checkpoints", "runs", "hitl")
GROW = {
    *("checkpoints.blob", "checkpoints.checkpoint", "checkpoints.chunk", "checkpoints.event"),
    *("checkpoints.memo", "checkpoints.thread", "runs.panelmember", "runs.pause", "runs.run"),
    *("runs.workorder", "hitl.decision", "hitl.delivery", "hitl.idempotencykey", "hitl.link"),
    "hitl.vote",
}
"""Tables that grow with work: nothing may lock their writers out while an index is built."""
SECOND_PHASE: dict[str, str] = {}
"""Migration → the version that no longer used what it takes away, or why it stops nobody."""
TOLD = {"choices", "help_text", "verbose_name", "validators", "editable", "blank", "default"}
"""Parts of a field that no database knows."""


def faults(app: str, migration: Migration, state: ProjectState) -> Iterator[str]:
    """What of a migration stops processes of the version before, or locks them out.

    `state` is that of before, and becomes the one after.
    """
    made: set[str] = set()
    for operation in migration.operations:
        if isinstance(operation, ops.CreateModel):
            made.add(f"{app}.{operation.name_lower}")
        table = f"{app}.{getattr(operation, 'model_name', '').lower()}"
        if table not in made:
            yield from _of(operation, table, state, app)
        operation.state_forwards(app, state)


def _of(operation: Any, table: str, state: ProjectState, app: str) -> Iterator[str]:
    match operation:
        case (
            ops.RemoveField()
            | ops.RenameField()
            | ops.DeleteModel()
            | ops.RenameModel()
            | ops.AlterModelTable()
        ):
            yield f"{operation.describe()}: the version before still reads it"
        case ops.AddField(field=field) if not isinstance(field, models.ManyToManyField):
            if not field.null and field.db_default is models.NOT_PROVIDED:
                yield (
                    f"{operation.describe()}: the version before writes rows without it; "
                    "give it a db_default, or null"
                )
            if table in GROW and (field.unique or getattr(field, "db_index", False)):
                yield f"{operation.describe()}: its index locks writers out"
        case ops.AlterField(field=field):
            before = state.models[table.split(".")[0], table.split(".")[1]].fields[operation.name]
            yield from _altered(operation.describe(), before, field)
        case ops.AlterUniqueTogether():
            yield f"{operation.describe()}: the version before may break it"
        case AddIndexBeside() | AddCheckBeside():
            pass
        case ops.AddIndex() if table in GROW:
            yield f"{operation.describe()}: it locks writers out; use AddIndexBeside"
        case ops.AddConstraint(constraint=models.CheckConstraint()) if table in GROW:
            yield f"{operation.describe()}: it locks writers out; use AddCheckBeside"
        case AddUniqueBeside():
            yield f"{operation.describe()}: the version before may break it"
        case ops.AddConstraint(constraint=models.UniqueConstraint()):
            yield f"{operation.describe()}: the version before may break it, and it locks"
        case RunSQL():
            yield f"{operation.describe()}: nobody can say what it locks"


def _altered(what: str, before: Any, after: Any) -> Iterator[str]:
    _, _, _, old = before.deconstruct()
    _, _, _, new = after.deconstruct()
    if before.null and not after.null:
        yield f"{what}: the version before may write null"
    changed = {
        name
        for name in {*old, *new} - TOLD - {"null", "max_length", "db_default"}
        if old.get(name) != new.get(name)
    }
    if type(before) is not type(after) or changed:
        yield f"{what}: the table is written anew, or read otherwise by the version before"
    elif (after.max_length or 0) < (before.max_length or 0):
        yield f"{what}: the version before may write more"


def known() -> Iterator[tuple[str, list[str]]]:
    """Each migration of ours but the first of its app, with its faults."""
    loader = MigrationLoader(None)
    for app in APPS:
        names = sorted(name for label, name in loader.disk_migrations if label == app)
        for name in names[1:]:
            migration = loader.graph.nodes[app, name]
            before = loader.project_state([(app, name)], at_end=False)
            yield f"{app}.{name}", list(faults(app, migration, before))


@pytest.mark.django_db
def test_the_tables_are_what_djangos_migrations_make():
    """S4-75: nobody runs SQL by hand; these tables came by `migrate`, and no model says more."""
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
    executor = MigrationExecutor(connection)
    assert executor.migration_plan(executor.loader.graph.leaf_nodes()) == []


def test_no_migration_stops_the_processes_of_the_version_before():
    """Old and new code work side by side for the length of a deploy."""
    found = {name: wrong for name, wrong in known() if wrong}
    allowed = SECOND_PHASE.keys()
    assert not {name: wrong for name, wrong in found.items() if name not in allowed}
    assert allowed <= found.keys(), f"nothing is wrong with {sorted(allowed - found.keys())}"


TEXT = models.CharField(max_length=20, null=True)
STATE = ModelState(
    "runs",
    "Run",
    [("id", models.BigAutoField(primary_key=True)), ("word", TEXT), ("told", models.TextField())],
)
UNIQUE = models.UniqueConstraint(
    fields=["word"], condition=models.Q(word__isnull=False), name="note_once"
)
INDEX, CHECK = models.Index(fields=["word"], name="i"), models.Q(word="a")


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (ops.RemoveField("run", "word"), "still reads"),
        (ops.RenameField("run", "word", "said"), "still reads"),
        (ops.DeleteModel("Run"), "still reads"),
        (ops.AddField("run", "new", models.TextField(default="")), "db_default"),
        (ops.AddField("run", "new", models.IntegerField(null=True, unique=True)), "locks"),
        (ops.AddField("run", "new", models.IntegerField(null=True, db_index=True)), "locks"),
        (ops.AlterField("run", "word", models.CharField(max_length=20)), "may write null"),
        (ops.AlterField("run", "word", models.CharField(max_length=9, null=True)), "write more"),
        (ops.AlterField("run", "word", models.IntegerField(null=True)), "written anew"),
        (ops.AddIndex("run", INDEX), "AddIndexBeside"),
        (ops.AddConstraint("run", models.CheckConstraint(condition=CHECK, name="c")), "Beside"),
        (ops.AddConstraint("run", models.UniqueConstraint("word", name="u")), "and it locks"),
        (AddUniqueBeside("run", UNIQUE), "may break"),
        (RunSQL("SELECT 1"), "nobody can say"),
        (ops.AddField("run", "new", models.TextField(db_default="")), ""),
        (ops.AddField("run", "new", models.TextField(null=True)), ""),
        (ops.AlterField("run", "word", models.CharField(max_length=30, null=True)), ""),
        (AddIndexBeside("run", INDEX), ""),
        (AddCheckBeside("run", models.CheckConstraint(condition=CHECK, name="c")), ""),
        (ops.AlterModelOptions("run", {"ordering": ["word"]}), ""),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value or "fine",
)
def test_what_stops_them_is_named_and_what_does_not_is_let_by(operation, words):
    state = ProjectState()
    state.add_model(STATE.clone())
    migration = type("Next", (Migration,), {"operations": [operation]})("next", "runs")
    found = list(faults("runs", migration, state))
    assert bool(found) == bool(words) and all(words in fault for fault in found), found


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_an_index_a_unique_rule_and_a_check_come_beside_writers_and_go_again():
    """On PostgreSQL without a lock that writers wait for; on SQLite as Django makes them."""
    state = ProjectState()
    state.add_model(
        ModelState("beside", "Note", [("id", models.AutoField(primary_key=True)), ("word", TEXT)])
    )
    model = state.apps.get_model("beside", "Note")
    with connection.schema_editor() as editor:
        editor.create_model(model)
    model.objects.create(word="a")
    check = models.CheckConstraint(condition=models.Q(word__in=["a", "b"]), name="note_known")
    try:
        for operation in (AddIndexBeside("note", models.Index(fields=["word"], name="note_word")),
                          AddUniqueBeside("note", UNIQUE),
                          AddCheckBeside("note", check)):  # fmt: skip
            after = state.clone()
            operation.state_forwards("beside", after)
            with connection.schema_editor(atomic=False) as editor:
                operation.database_forwards("beside", editor, state, after)
            with connection.cursor() as cursor:
                there = connection.introspection.get_constraints(cursor, "beside_note")
            assert {"note_word", "note_once", "note_known"} & there.keys()
            with connection.schema_editor(atomic=False) as editor:
                operation.database_backwards("beside", editor, after, state)
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(model)


def test_a_session_of_the_version_before_stays_one():
    """A session names the backend that let somebody in. Where that name is gone, everybody is
    logged out by the upgrade, and what they had typed into open pages is lost: keep the older name
    beside a newer one for a version.
    """
    assert "hitl.http.logins.Backend" in settings.AUTHENTICATION_BACKENDS
