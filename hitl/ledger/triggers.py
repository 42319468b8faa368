"""The tables of the ledger, and what the database lets happen to their rows: see
`checkpoints.models.append_only`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import apps as current
from django.apps.registry import Apps
from django.db.models import Model

from checkpoints.models import append_only
from checkpoints.models.append_only import Guard
from hitl.models import Anchor, Decision, Erasure, Ledger, ServiceAccount, Vote
from runs.workflows.sequence import CANCEL


def guards() -> tuple[Guard, ...]:
    """Of each table of the ledger."""
    return (
        Guard(
            model=Decision,
            may=_erasing(),
            freed=_freed(),
            once=[("id",), ("ledger_id", "position")],
            # who ends their own work may be a program
            never=f"NEW.\"action\" <> '{CANCEL}' AND {_of_service('decided_by', 'on_behalf_of')}",
        ),
        Guard(
            model=Vote,
            once=[
                ("id",),
                ("pause_id", "voter_id"),
                ("pause_id", "seat_id"),
                ("pause_id", "external_key"),
            ],
            never=_of_service("voter", "seat"),
            exemption=append_only.ERASE,
        ),
        Guard(model=Erasure, once=[("id",)]),
        Guard(model=Anchor, once=[("id",)]),
        Guard(model=Ledger, may='{same} AND NEW."length" >= OLD."length"', freed=("length", "tip")),
    )


def _of_service(*names: str) -> str:
    """SQL over NEW: one of these accounts has no person (decision-405)."""
    accounts = ", ".join(f'NEW."{name}_id"' for name in names)
    table = ServiceAccount._meta.db_table
    # our models' names
    return f'EXISTS (SELECT 1 FROM "{table}" WHERE "user_id" IN ({accounts}))'  # noqa: S608


def _column(name: str) -> str:
    field: Any = Decision._meta.get_field(name)
    return str(field.column)


def _freed() -> list[str]:
    return [_column(name) for name in (*Decision.ERASED, "erasure")]


def _erasing() -> str:
    """A decision may lose its words, once, to an erasure that vouches for it."""
    left = {_column(name): value for name, value in Decision.ERASED.items()}
    empty = [
        f'NEW."{column}" IS NULL' if value is None else f"NEW.\"{column}\" = '{value}'"
        for column, value in left.items()
    ]
    return " AND ".join(
        ['OLD."erasure_id" IS NULL AND NEW."erasure_id" IS NOT NULL', *empty, "{same}"]
    )


def take_off(*, plan: Sequence[Any] = (), **_: Any) -> None:
    """Before migrations: they may rewrite rows, and SQLite does not drop a column that a trigger
    names.
    """
    if plan:
        append_only.remove()


def install(*, apps: Apps = current, **_: Any) -> None:
    """After each `migrate`, unless it ended at older tables than these models'."""
    wanted = guards()
    if all(_columns(apps, guard.model) == _columns(current, guard.model) for guard in wanted):
        append_only.install(wanted)


def _columns(apps: Apps, model: type[Model]) -> set[str | None]:
    try:
        return {field.column for field in apps.get_model(model._meta.label)._meta.concrete_fields}
    except LookupError:
        return set()
