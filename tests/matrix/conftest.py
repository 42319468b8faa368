"""The world of the matrix: made once per module, in a transaction that is taken back at its end."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from django.http import HttpRequest, HttpResponse
from django.test.utils import override_settings

from project import urls
from tests.databases.undone import undone
from tests.matrix import world as worlds
from tests.matrix.races import doors as races
from tests.matrix.world import World


@pytest.fixture(scope="module")
def world(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("matrix")
    here = override_settings(WAYSTATION_DATA=folder / "data", WAYSTATION_REPOSITORIES=[folder])
    quiet = logging.getLogger("django.request")
    before, quiet.disabled = quiet.disabled, True  # thousands of refusals
    with django_db_blocker.unblock(), here, plain_refusals(), undone():
        worlds.load_templates()
        yield worlds.build()
    quiet.disabled = before


@pytest.fixture(scope="module")
def before(world: World) -> dict[str, str]:
    """All rows as the module's tests find them: whatever one of them does is taken back."""
    return worlds.digest()


@contextmanager
def plain_refusals() -> Iterator[None]:
    """What the pages of refusals say is said elsewhere; here thousands would be rendered."""

    def refuse(status: int, request: HttpRequest, exception: Exception) -> HttpResponse:
        return HttpResponse(status=status)

    with (
        patch.object(urls, "handler403", partial(refuse, 403), create=True),
        patch.object(urls, "handler404", partial(refuse, 404), create=True),
    ):
        yield


@pytest.fixture(autouse=True)
def channels(settings: Any) -> None:
    """Every channel is open."""
    settings.WAYSTATION_REPLY_ADDRESS = "reply@ways.example"
    settings.WAYSTATION_REPLY_SECRETS = [races.SECRET]
    settings.WAYSTATION_SLACK_SIGNING_SECRET = races.SECRET
    settings.WAYSTATION_TEAMS_SECRETS = [races.TEAMS_SECRET]
    settings.WAYSTATION_TELEGRAM_SECRET = races.SECRET
