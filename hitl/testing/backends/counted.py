"""What the kit adds to a connection: it may be opened where a test plugin forbids the project's own
database, and each of its commits is a moment at which a worker may die.
"""

from __future__ import annotations

from typing import Any

from hitl.testing import moments

READS = ("SELECT", "BEGIN", "SAVEPOINT", "RELEASE", "PRAGMA", "SET")


class Counted:
    """A mixin for a `DatabaseWrapper` of Django's."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.execute_wrappers: list[Any] = [self._around]

    def ensure_connection(self: Any) -> None:
        """Connect.

        pytest-django replaces this method of Django's class to keep tests from the database of
        their project; a database of the kit is none.
        """
        if self.connection is None:
            if self.in_atomic_block and self.closed_in_transaction:
                raise moments.Killed
            with self.wrap_database_errors:
                self.connect()

    def _around(self: Any, run: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        """Let a statement that commits itself be a moment, as an open transaction's COMMIT is."""
        if self.in_atomic_block or sql.lstrip().upper().startswith(READS):
            return run(sql, params, many, context)
        moments.tick(moments.BEFORE_COMMIT)
        result = run(sql, params, many, context)
        moments.tick(moments.AFTER_COMMIT)
        return result

    def _commit(self: Any) -> None:
        try:
            moments.tick(moments.BEFORE_COMMIT)
        except moments.Killed:
            self._rollback()  # else Django's way out of the block would commit
            raise
        super()._commit()  # type: ignore[misc]
        moments.tick(moments.AFTER_COMMIT)
