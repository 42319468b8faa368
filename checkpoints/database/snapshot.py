"""Reading of several rows as they were at one moment, for pages whose parts must not contradict
each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction


@contextmanager
def one_moment() -> Iterator[None]:
    """Let every query inside see the database as the first one sees it.

    Only for reads; nothing is locked by it, and nobody waits.

    Without it, a page that reads an order and then its questions may say "Running" above a question
    that was opened in between. Inside another transaction, that one decides what is seen.
    """
    if connection.in_atomic_block:
        yield
        return
    wrapper: Any = connection  # SQLite's has a mode, which its stubs do not know
    usual = getattr(wrapper, "transaction_mode", None)
    if usual is not None:
        # the usual mode is for writers: it would wait for its turn to write
        wrapper.transaction_mode = "DEFERRED"
    try:
        with transaction.atomic():
            if usual is not None:
                wrapper.transaction_mode = usual
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield
    finally:
        if usual is not None:
            wrapper.transaction_mode = usual
