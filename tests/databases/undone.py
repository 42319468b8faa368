"""Cases of one test that each begin with the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.cache import cache
from django.db import transaction


@contextmanager
def undone() -> Iterator[None]:
    """What is written within is taken back at the end; the product may begin durable transactions,
    as in the test around it. For tests that are rolled back themselves.
    """
    cache.clear()  # it counts requests
    block: Any = transaction.atomic()
    block._from_testcase = True  # as Django's TestCase marks its own
    with block:
        yield
        transaction.set_rollback(True)
