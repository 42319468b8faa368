"""A connection out of the pool works, also right after the server was restarted.

With `CONN_HEALTH_CHECKS` Django has the pool try each connection before it gives it out, and the
pool waits after each that is broken: nothing, one second, two, four. Whoever asked first after a
restart went through all that an idle host had kept, was told 503 after ten seconds, and the server
had been back for nine of them.
"""

from __future__ import annotations

from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg_pool import ConnectionPool


class DatabaseWrapper(base.DatabaseWrapper):
    """Expects `OPTIONS["pool"]`, and `CONN_HEALTH_CHECKS` to be off."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        try:
            ConnectionPool.check_connection(connection)
        except psycopg.Error:
            # where one is broken all are: the others go too, and the pool makes new ones
            self.pool.putconn(connection)
            self.pool.drain()
            connection = super().get_new_connection(conn_params)
        return connection
