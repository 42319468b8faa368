"""Tables that the database itself keeps append-only, by triggers: an UPDATE, a DELETE and a
TRUNCATE are refused, whoever sends them.

Doors stand in them, each open for one transaction only: values may be sealed anew (`key_rotation`),
rows that an erasure takes along may go, and a database may be emptied by who says so (tests). A row
of `checkpoints_guard` opens one; it is gone before the commit, so no other transaction ever sees
it. Who owns the tables may drop the triggers, which no database can forbid: for that there are
digests (`hitl.ledger.verification`).

The triggers follow the models' columns, so they are made after every `migrate`; SQLite loses them
where a migration makes a table anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection, models

from checkpoints.models.fields import SealedField
from checkpoints.state import codec

RESEAL, EMPTY, ERASE = "reseal", "empty", "erase"


@dataclass(frozen=True, kw_only=True)
class Guard:
    """What may happen to the rows of a table after they were written."""

    model: type[models.Model]
    may: str = "FALSE"
    """SQL over NEW and OLD: the UPDATE that is allowed.

    `{same}` in it stands for: all columns but those in `freed` are as they were.
    """
    freed: Sequence[str] = ()
    """Columns that `may` speaks of itself."""
    once: Sequence[Sequence[str]] = ()
    """Sets of columns by which SQLite's INSERT OR REPLACE would take another row's place."""

    never: str = ""
    """SQL over NEW: the INSERT that is refused, whoever sends it; "" where all are taken."""
    exemption: str = EMPTY
    """What opens it for DELETE, beside EMPTY."""

    @property
    def table(self) -> str:
        return self.model._meta.db_table


@contextmanager
def open_exemption(exemption: str) -> Iterator[None]:
    """Open an exemption in all guards until the block ends.

    Call inside a transaction, which an error in the block must roll back.
    """
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO checkpoints_guard (opens) VALUES (%s)", [exemption])
    yield
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM checkpoints_guard WHERE opens = %s", [exemption])


def install(guards: Iterable[Guard]) -> None:
    """Make the triggers of these tables what they should be; one query where they are."""
    wanted = {name: statements for guard in guards for name, statements in _triggers(guard).items()}
    there = _there()
    if set(there) == set(wanted):
        return
    with connection.cursor() as cursor:
        for name in set(there) - set(wanted):
            cursor.execute(_dropping(name, there[name]))
        for name in set(wanted) - set(there):
            for statement in wanted[name]:
                cursor.execute(statement)


def remove() -> None:
    """Drop all triggers of ours: what an owner of the database could do."""
    with connection.cursor() as cursor:
        for name, table in _there().items():
            cursor.execute(_dropping(name, table))


def missing(guard: Guard) -> bool:
    """Whether a table is not guarded as it should be."""
    return not set(_triggers(guard)) <= set(_there())


def _there() -> dict[str, str]:
    """Name → table of the triggers that are there and in force."""
    if connection.vendor == "postgresql":
        sql = """SELECT tgname, relname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
            WHERE tgname LIKE 'guard\\_%' AND tgenabled IN ('O', 'A') AND
            pg_table_is_visible(pg_class.oid)"""
    else:
        sql = (
            "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger' AND name LIKE "
            "'guard\\_%' ESCAPE '\\'"
        )
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return dict(cursor.fetchall())


def _dropping(name: str, table: str) -> str:
    return (
        f'DROP TRIGGER "{name}" ON "{table}"'
        if connection.vendor == "postgresql"
        else f'DROP TRIGGER "{name}"'
    )


def _triggers(guard: Guard) -> dict[str, list[str]]:
    """Name → statements.

    A name holds the digest of what the trigger says, so that another one is another name.
    """
    made = {}
    for kind, statements in (
        _postgresql(guard) if connection.vendor == "postgresql" else _sqlite(guard)
    ).items():
        name = f"guard_{guard.table}_{kind}_{codec.digest(''.join(statements))[:8]}"
        made[name] = [statement.replace("{name}", name) for statement in statements]
    return made


def _open(exemption: str) -> str:
    # a constant
    return f"EXISTS (SELECT 1 FROM checkpoints_guard WHERE opens = '{exemption}')"  # noqa: S608


def _allowed(guard: Guard) -> str:
    """SQL over NEW and OLD: the UPDATEs that pass."""
    fields = guard.model._meta.concrete_fields
    plain = [field.column for field in fields if not isinstance(field, SealedField)]
    may = guard.may.replace(
        "{same}", _same(field.column for field in fields if field.column not in guard.freed)
    )
    sealed = f"{_open(RESEAL)} AND {_same(plain)}" if len(plain) < len(fields) else "FALSE"
    return f"({may}) OR ({sealed})"


def _same(columns: Iterable[str | None]) -> str:
    equals = "IS NOT DISTINCT FROM" if connection.vendor == "postgresql" else "IS"
    return " AND ".join(f'NEW."{column}" {equals} OLD."{column}"' for column in columns)


def _postgresql(guard: Guard) -> dict[str, list[str]]:
    function = f"""
        CREATE OR REPLACE FUNCTION guard_{guard.table}() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_OP = 'INSERT' THEN
                IF {guard.never or "FALSE"} THEN
                    RAISE EXCEPTION '{guard.table} takes no such row' USING ERRCODE =
                    'restrict_violation';
                END IF;
                RETURN NEW;
            ELSIF TG_OP = 'UPDATE' THEN
                IF {_allowed(guard)} THEN RETURN NEW; END IF;
            ELSIF {_open(guard.exemption)} OR {_open(EMPTY)} THEN
                IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
                RETURN NULL;
            END IF;
            RAISE EXCEPTION '{guard.table} is append-only: % refused', TG_OP USING ERRCODE =
            'restrict_violation';
        END $$"""
    calls = f"EXECUTE FUNCTION guard_{guard.table}()"
    events = "INSERT OR UPDATE OR DELETE" if guard.never else "UPDATE OR DELETE"
    return {
        "row": [
            function,
            (f'CREATE TRIGGER "{{name}}" BEFORE {events} ON "{guard.table}" FOR EACH ROW {calls}'),
        ],
        "all": [
            function,
            (
                f'CREATE TRIGGER "{{name}}" BEFORE TRUNCATE ON "{guard.table}" FOR EACH '
                f"STATEMENT {calls}"
            ),
        ],
    }


def _sqlite(guard: Guard) -> dict[str, list[str]]:
    def refusing(event: str, unless: str) -> list[str]:
        message = f"{guard.table} is append-only: {event} refused"
        return [
            f'CREATE TRIGGER "{{name}}" BEFORE {event} ON "{guard.table}" WHEN NOT '
            f"COALESCE({unless}, FALSE) "
            f"BEGIN SELECT RAISE(ABORT, '{message}'); END"
        ]

    made = {
        "update": refusing("UPDATE", f"({_allowed(guard)})"),
        "delete": refusing("DELETE", f"({_open(guard.exemption)} OR {_open(EMPTY)})"),
    }
    if guard.once:
        taken = " OR ".join(
            " AND ".join(f'"{column}" = NEW."{column}"' for column in columns)
            for columns in guard.once
        )
        # our models' names
        made["insert"] = refusing(
            "INSERT",
            f'NOT EXISTS (SELECT 1 FROM "{guard.table}" WHERE {taken})',  # noqa: S608
        )
    if guard.never:
        made["never"] = [
            f'CREATE TRIGGER "{{name}}" BEFORE INSERT ON "{guard.table}" WHEN {guard.never} '
            f"BEGIN SELECT RAISE(ABORT, '{guard.table} takes no such row'); END"
        ]
    return made
