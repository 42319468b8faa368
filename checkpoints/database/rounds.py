"""A round goes through rows, and one of them never ends it for the others.

What goes wrong with a row is logged with its name, and whoever goes through them leaves it for a
later time. A database that is away is wrong with no row: it ends the round, and the next one begins
anew.
"""

from __future__ import annotations

import logging
from types import TracebackType

from django.db import InterfaceError, OperationalError

from checkpoints.database import outages

AWAY: tuple[type[Exception], ...] = (OperationalError, InterfaceError)
"""What is wrong with the server, not with a row; but for a row that others hold."""


class RoundItem:
    """`with Row(logger, "pause pse_…") as row:` one row's turn; then `row.error` says what went
    wrong with it, or is None.

    Args:
        row: named in the log; never with what a person wrote.
        but: errors that are answered by whoever goes through the rows.
    """

    def __init__(
        self, logger: logging.Logger, row: object, *, but: tuple[type[Exception], ...] = ()
    ) -> None:
        self.logger, self.row, self.but = logger, row, but
        self.error: Exception | None = None

    def __enter__(self) -> RoundItem:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, self.but):
            return False
        away = isinstance(error, AWAY) or outages.is_trouble(error)
        if away and not outages.is_about_rows(error):
            return False
        self.error = error
        self.logger.error(
            "%s was passed over in this round: %s", self.row, type(error).__name__, exc_info=error
        )
        return True
