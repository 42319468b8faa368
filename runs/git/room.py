"""A disk without room: one code and one sentence, whoever noticed it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from runs.workflows.base import StepFailed

_ERRORS = {errno.ENOSPC, errno.EDQUOT}
_SAID = ("No space left on device", "Disk quota exceeded", "Out of diskspace")
"""What git says of these; it is asked to speak English."""
MESSAGE = (
    "The disk with the workspaces has no room, so the order's files could not be written. Nothing "
    "is lost: retry once an operator has made room."
)


@contextmanager
def asked_for() -> Iterator[None]:
    """Raise StepFailed (`disk_full`) where the disk had no room for what is done within."""
    try:
        yield
    except OSError as error:
        if error.errno not in _ERRORS:
            raise
        raise StepFailed(MESSAGE, code="disk_full") from error
    except StepFailed as error:
        if not any(words in str(error) for words in _SAID):
            raise
        raise StepFailed(MESSAGE, code="disk_full") from error
