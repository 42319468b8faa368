"""Whether what is to stand around command line agents can do so: what is said at the start of a
worker, and by `manage.py check`.
"""

from __future__ import annotations

import os
import platform
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register

from checkpoints import checks
from runs.processes import sandbox
from runs.workflows.code import extras


@register("runs")
def as_set_up(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """What the setting alone tells."""
    problem = sandbox.wrong(settings.WAYSTATION_COMMAND_SANDBOX)
    messages: list[CheckMessage] = (
        [Error(f"WAYSTATION_COMMAND_SANDBOX: {problem}", id="runs.E001")] if problem else []
    )
    model = settings.WAYSTATION_MODEL
    if lacking := extras.missing(model.provider):
        messages.append(
            Warning(
                f"WAYSTATION_MODEL is {model.model}, but no agent can ask it here. {lacking}",
                id="runs.W003",
            )
        )
    return messages


@register("runs", deploy=True)
def memory(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Whether the memory of a step can be bounded here."""
    if not settings.WAYSTATION_STEP_MEMORY or platform.system() == "Linux":
        return []
    words = "WAYSTATION_STEP_MEMORY bounds nothing on this system: only Linux counts it."
    return [Warning(words, id="runs.W004")]


@register("runs", deploy=True)
def as_it_is(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Whether a program can be run behind it on this machine; that is tried."""
    wall = settings.WAYSTATION_COMMAND_SANDBOX
    if not wall or sandbox.wrong(wall):
        return []
    problem = sandbox.trial(wall, search_path=os.environ.get("PATH", os.defpath))
    if not problem:
        return []
    hint = (
        "Where workers run in containers, these must allow user namespaces; see "
        "docs/how-to/sandbox.md."
    )
    return [
        Error(
            f"WAYSTATION_COMMAND_SANDBOX: nothing can be run behind {wall[0]}: {problem}",
            hint=hint,
            id="runs.E002",
        )
    ]


def at_start() -> None:
    """For workers, which Django's own checks do not run in: rather none than one whose orders fail
    one after the other.
    """
    checks.stop_for(
        [*as_set_up(), *as_it_is()],
        "Command line agents cannot be run as this is set up; see above.",
    )
