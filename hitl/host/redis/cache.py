"""One pool of connections to Redis for the cache of a process.

Django makes its cache anew for each request that ASGI serves, and a pool with it: each request
would connect to Redis, and its connection stay open until the next garbage collection.
"""

from __future__ import annotations

import functools
from typing import Any

from redis import ConnectionPool


@functools.cache
def _pool(url: str, **options: Any) -> ConnectionPool:
    return ConnectionPool.from_url(url, **options)


class SharedPool:
    """`pool_class` of Django's RedisCache."""

    from_url = staticmethod(_pool)
