"""A connection works when it is given out, also right after the server was restarted, and it is
with the server that takes writes: not with one that only reads by now, nor with an old primary.

Where connections are kept (`OPTIONS["pool"]`), `CONN_HEALTH_CHECKS` is to be off. With it Django
has the pool try each connection before it gives it out, and the pool waits after each that is
broken: nothing, one second, two, four. Whoever asked first after a restart went through all that an
idle host had kept, was told 503 after ten seconds, and the server had been back for nine of them.
"""

from __future__ import annotations

from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg_pool import ConnectionPool

from checkpoints.database import timeline


class DatabaseWrapper(base.DatabaseWrapper):
    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        if self.pool:
            connection = self._that_works(connection, conn_params)
        try:
            timeline.look(connection, several="," in str(self.settings_dict["HOST"]))
        except psycopg.Error:
            connection.close()
            if self.pool:
                self.pool.putconn(connection)
            raise
        return connection

    def _that_works(self, connection: Any, conn_params: dict[str, Any]) -> Any:
        try:
            ConnectionPool.check_connection(connection)
        except psycopg.Error:
            # where one is broken all are: the others go too, and the pool makes new ones
            self.pool.putconn(connection)
            self.pool.drain()
            connection = super().get_new_connection(conn_params)
        return connection

    def is_usable(self) -> bool:
        """Not where the server answers and takes no writes any more: another one may by now."""
        if self.connection is None:
            return False
        try:
            answer = self.connection.execute("SHOW transaction_read_only").fetchone()
        except psycopg.Error:
            return False
        return bool(answer == ("off",))
