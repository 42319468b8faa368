"""Check that the store of checkpoints can keep what the product promises: at every start, and by
`manage.py check`.

The settings are checked always; the server or folder behind them at the start of a worker and by
`check --deploy`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured

from checkpoints.backends.file import FileStore
from checkpoints.contract import configured
from checkpoints.database import older_database

logger = logging.getLogger(__name__)
OURS = ("checkpoints", "runs", "hitl")
"""Tags of the checks that our commands begin with. Only `manage.py check` runs Django's own, which
read all pages and addresses: they took two fifths of a short command's time.
"""


@register("checkpoints")
def as_set_up(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Check the settings alone."""
    several = bool(getattr(settings, "REDIS_URL", ""))
    try:
        configured.readable()
        store = configured.primary()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="checkpoints.E001")]
    if not store.durable and several:
        message = (
            "Checkpoints are kept in the memory of one process, but web and workers are several "
            "(REDIS_URL is set)."
        )
        return [
            Error(
                message,
                hint="Use database:, redis: or file: in CHECKPOINTS_URL.",
                id="checkpoints.E002",
            )
        ]
    if not store.durable:
        message = (
            "Checkpoints are kept in memory: every run under way is lost with this process. For "
            "tests and for trying out only."
        )
        return [Warning(message, id="checkpoints.W007")]
    if isinstance(store, FileStore) and several:
        message = (
            f"Checkpoints are files in {store.folder}: every host with a worker or a web "
            "process must share that folder."
        )
        return [
            Warning(
                message,
                hint="Silence this where they do, or all are on one host.",
                id="checkpoints.W008",
            )
        ]
    return []


@register("checkpoints")
def people_have_what_it_takes(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Check that people of the model that AUTH_USER_MODEL names can be asked, told and given
    rights.
    """
    from checkpoints.database import people  # not on top: models are not loaded then

    if not (lacking := people.lacking()):
        return []
    message = f"AUTH_USER_MODEL is {settings.AUTH_USER_MODEL}, which lacks {', '.join(lacking)}."
    return [
        Error(
            message,
            hint="A subclass of AbstractUser has all of it; see docs/how-to/embedding.md.",
            id="checkpoints.E009",
        )
    ]


@register("checkpoints")
def database_is_of_this_version(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Check that this version can use the database, if there is one already."""
    refusal = older_database.refusal()
    return [Error(refusal, id="checkpoints.E010")] if refusal else []


@register("checkpoints", deploy=True)
def as_it_is(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Check what the server or folder behind the settings promises; this connects to it."""
    try:
        weaknesses = configured.primary().weaknesses()
    except ImproperlyConfigured:
        return []  # `as_set_up` says so
    return [(Error if ".E" in key else Warning)(text, id=key) for key, text in weaknesses.items()]


def at_start(*, reach: bool) -> None:
    """Log weaknesses, and stop this process where the store or the database cannot be used.

    For processes in which Django's own checks do not run.
    """
    if problem := older_database.refusal():
        raise SystemExit(problem)
    stop_for(
        [*as_set_up(), *(as_it_is() if reach else [])],
        "The store of checkpoints cannot be used as it is set up; see above.",
    )


def stop_for(messages: Sequence[CheckMessage], words: str) -> None:
    """Log messages, and end this process with these words where one of them is serious."""
    for message in messages:
        if not message.is_silenced():
            logger.log(message.level, "%s (%s)", message.msg, message.id)
    if any(message.is_serious() and not message.is_silenced() for message in messages):
        raise SystemExit(words)
