"""`manage.py`: what an operator can mend is one sentence and exit code 1, not a traceback.

`--traceback` shows that all the same.
"""

from __future__ import annotations

import sys

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.db import Error

from checkpoints.database import outages


def main(arguments: list[str]) -> None:
    """Run a command.

    Settings that cannot hold, and a database that is away or without its tables, end it with words
    on stderr.
    """
    try:
        execute_from_command_line(arguments)
    except (ImproperlyConfigured, Error) as error:
        if "--traceback" in arguments or (message := said(error)) is None:
            raise
        sys.exit(message)


def said(error: ImproperlyConfigured | Error) -> str | None:
    """What to tell the operator; None for an error that is none of theirs."""
    if isinstance(error, ImproperlyConfigured):
        return f"Waystation cannot start: {error}"
    if outages.lacks_tables(error):
        if settings.WAYSTATION_EMPTY:
            return (
                f"There is no Waystation in {settings.WAYSTATION_DATA} yet. Start it once, or "
                "name its folder with WAYSTATION_DATA."
            )
        return (
            "The database lacks tables of this version. Run `manage.py migrate` first; nothing "
            "was changed."
        )
    if outages.is_trouble(error):
        return f"The database cannot be used: {' '.join(str(error).split())[:300]}"
    return None
