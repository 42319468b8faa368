"""Keeps where a step failed, for the page of failures."""

from __future__ import annotations

import logging

from django.db import DatabaseError

from checkpoints.database import clock, outages
from checkpoints.state import codec
from runs.models import Run, StepTraceback

logger = logging.getLogger(__name__)

LONGEST = 20_000
"""Characters that are kept of a traceback: of a longer one its beginning and its end."""


def keep(run: Run, step: str, text: str) -> None:
    """Keep a scrubbed traceback as the run's latest, in a statement of its own.

    A run fails with or without it: where the database refuses the row, the server's log has the
    text. An outage is the caller's, like any other.
    """
    readable: str = codec.readable(text).strip()
    row = StepTraceback(run=run, step=step[:100], text=_ends_of(readable), at=clock.now())
    try:
        StepTraceback.objects.bulk_create(
            [row],
            update_conflicts=True,
            unique_fields=["run"],
            update_fields=["step", "text", "at"],
        )
    except DatabaseError as error:
        if outages.is_trouble(error):
            raise
        logger.warning("the traceback of %s was not kept: %s", run.shown_id, error)


def _ends_of(text: str) -> str:
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]}\n…\n{text[-half:]}"
