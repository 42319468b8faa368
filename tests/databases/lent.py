"""Threads of tests take a connection to PostgreSQL that another one has given back.

A new one plans all its queries anew: 12 ms of a processor. The product sees connections that are
opened and closed, as without a pool.
"""

from __future__ import annotations

import select
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

import psycopg
from django.db import connection as default
from django.db.backends.postgresql.base import DatabaseWrapper
from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus

PLAIN = (str, int, float, type(None))
_idle: defaultdict[tuple[object, ...], list[psycopg.Connection]] = defaultdict(list)
"""By what they were opened with."""


@contextmanager
def lending() -> Iterator[None]:
    """Meanwhile; then all are closed: PostgreSQL drops no database that somebody is in."""
    base: Any = DatabaseWrapper
    connect, close = base.get_new_connection, base._close
    # other servers are killed and come back as standbys, other databases are copied
    own = default.settings_dict["HOST"], default.settings_dict["NAME"]

    def lend(wrapper: Any, given: dict[str, Any]) -> Any:
        if wrapper.pool or (given.get("host"), given["dbname"]) != own:
            return connect(wrapper, given)
        key = tuple((name, one) for name, one in sorted(given.items()) if isinstance(one, PLAIN))
        with suppress(IndexError):
            while True:
                connection = _idle[key].pop()
                if _works(connection):
                    wrapper.isolation_level = IsolationLevel.READ_COMMITTED
                    return connection
                connection.close()
        connection = connect(wrapper, given)
        connection.lent_as = key
        return connection

    def take_back(wrapper: Any) -> None:
        connection = wrapper.connection
        key = getattr(connection, "lent_as", None)
        try:
            if key is None or connection.info.transaction_status != TransactionStatus.IDLE:
                close(wrapper)
                return
            connection.autocommit = True
            connection.execute("RESET ALL; SELECT pg_advisory_unlock_all()", prepare=False)
        except psycopg.Error:
            close(wrapper)
        else:
            wrapper.connection = None
            _idle[key].append(connection)

    with patch.multiple(base, get_new_connection=lend, _close=take_back):
        yield
    for connections in _idle.values():
        for connection in connections:
            connection.close()
    _idle.clear()


def _works(connection: psycopg.Connection) -> bool:
    """Whether neither end has closed it: where the server has, there is something to read."""
    if connection.closed:
        return False
    reading = select.poll()
    reading.register(connection.fileno(), select.POLLIN)
    return not reading.poll(0)
