"""People, templates and a question that are made once for a file of tests; what a test changes is
taken back.

A file imports all six names; a test of it may not commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test.utils import override_settings

from runs import services as runs
from runs.models import Pause, WorkOrder
from tests.conftest import drive, fresh
from tests.databases import cleaning
from tests.matrix.world import undone
from tests.worlds.people import group, person


@pytest.fixture(scope="module")
def made(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkOrder]:
    """An order of Ana's that waits for its plan's approval."""
    folder = tmp_path_factory.mktemp("once")
    here = override_settings(WAYSTATION_DATA=folder / "data", WAYSTATION_REPOSITORIES=[folder])
    with django_db_blocker.unblock(), here, undone():
        cleaning.load_templates()
        team = group("platform")
        for name, more in {"ana": {"last_name": "Ruiz"}, "ben": {}}.items():
            person(name, first_name=name.title(), **more).groups.add(team)
        order = drive(runs.submit("writing", by=User.objects.get(username="ana"), team=team))
        Pause.objects.update(told=1)  # else the last tests of a slow file find it late
        yield order


@pytest.fixture
def templates(made: WorkOrder, db: None) -> None:
    pass


@pytest.fixture
def team(templates: None) -> Group:
    return Group.objects.get(name="platform")


@pytest.fixture
def ana(templates: None) -> User:
    return User.objects.get(username="ana")


@pytest.fixture
def ben(templates: None) -> User:
    return User.objects.get(username="ben")


@pytest.fixture
def paused(made: WorkOrder, templates: None) -> WorkOrder:
    return fresh(made)
