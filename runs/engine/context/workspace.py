"""The folder that the steps of a run work in."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from django.conf import settings

from runs.git import housekeeping
from runs.git.workspace import GitWorkspace, WorkspaceLimits
from runs.models import Run
from runs.workflows.base import Order


def opener(run: Run, order: Order) -> Callable[..., GitWorkspace]:
    """Give what opens the folder of a run for one of its steps.

    What the settings say of it is looked up here, once for all steps.
    """
    return partial(
        GitWorkspace,
        housekeeping.workspace_path(run),
        order,
        limits=_limits(),
        protocols=settings.WAYSTATION_GIT_SCHEMES,
        passed_on=_passed_on,
        sandbox=settings.WAYSTATION_COMMAND_SANDBOX,
        mirror=housekeeping.mirror_of(order.repository_url),
        make_room=housekeeping.make_room,
        umask_outside=settings.WAYSTATION_UMASK_OUTSIDE,
    )


def _passed_on() -> dict[str, str]:
    names = settings.WAYSTATION_COMMAND_ENVIRONMENT
    return {name: os.environ[name] for name in names if name in os.environ}


def _limits() -> WorkspaceLimits:
    return WorkspaceLimits(
        clone_seconds=settings.WAYSTATION_CLONE_SECONDS,
        clone_bytes=settings.WAYSTATION_CLONE_BYTES,
        command_seconds=settings.WAYSTATION_COMMAND_SECONDS,
        folder_bytes=settings.WAYSTATION_WORKSPACE_BYTES,
    )
