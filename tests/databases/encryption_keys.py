"""Keys for tests, and what lies in the database as a dump would show it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.apps import apps
from django.conf import settings
from django.db import connection

from checkpoints.state import encryption

OLD, NEW = encryption.new_key(), encryption.new_key()


@contextmanager
def keys(*texts: str) -> Iterator[None]:
    """Encrypt with the first of these keys, and know the others, as a process that was started
    so.
    """
    encryption.configure(texts)
    try:
        yield
    finally:
        encryption.configure(settings.WAYSTATION_ENCRYPTION_KEYS)


def dump() -> str:
    """Every value of every table of ours, as the database holds it."""
    values: list[str] = []
    with connection.cursor() as cursor:
        for model in apps.get_models():
            if model._meta.app_label in {"checkpoints", "runs", "hitl"}:
                cursor.execute(f"SELECT * FROM {model._meta.db_table}")
                values += [_text(value) for row in cursor.fetchall() for value in row]
    return "\n".join(values)


def _text(value: object) -> str:
    return bytes(value).decode("latin-1") if isinstance(value, bytes | memoryview) else str(value)
