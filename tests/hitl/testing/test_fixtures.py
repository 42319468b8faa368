"""The fixtures of the kit, as an author's tests use them."""

from __future__ import annotations

import os

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from hitl.testing import fixtures, play
from hitl.testing.fixtures import waystation as waystation
from hitl.testing.fixtures import waystation_anywhere as waystation_anywhere
from hitl.testing.fixtures import waystation_postgresql as waystation_postgresql
from runs.models import WorkOrder
from tests.hitl.testing.shop import REFUND


@pytest.fixture(autouse=True)
def server(monkeypatch):
    url = os.environ.get("DATABASE_URL", "")
    monkeypatch.setenv(fixtures.SERVER, url if url.startswith("postgresql") else "")


def test_within_the_fixture_the_database_is_the_engines_on_each(waystation_anywhere):
    """17-3: models, pages and REST see what the engine does."""
    run = play(REFUND, engine=waystation_anywhere)
    assert connection.vendor == waystation_anywhere.database.vendor
    order = WorkOrder.objects.get()
    browser = Client()
    browser.force_login(User.objects.get(username="author"))
    assert "100 EUR" in browser.get(f"/work-orders/{order.shown_id}/").content.decode()
    run.approve()
    answer = browser.get(f"/api/v1/work-orders/{order.shown_id}").json()
    assert (answer["status"], run.done) == ("completed", True)


def test_each_test_begins_with_an_empty_database(waystation):
    assert not WorkOrder.objects.exists()
