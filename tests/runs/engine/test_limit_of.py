"""How long a step may take, and what people are told of it while it works."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from runs.engine.time_limit import limit_of
from runs.workflows.base import Go
from tests.conftest import drive
from tests.worlds.scripted_step import order_that as order_that


def frozen(function="test.nothing", config=None, **more):
    return {"name": "x", "function": function, "config": config or {}, **more}


@pytest.mark.parametrize(
    ("step", "seconds"),
    [
        (frozen(timeout=5), 5),
        (frozen(), 1800),
        (frozen(timeout=None), 1800),
        (frozen("agent"), 1800),
        (frozen("agent", {"limits": {"seconds": 7200}}), 7200),
        (frozen("agent", {"limits": {"seconds": 60}}), 1800),
        (frozen("command", {"command": ["x"]}), 2100),
        (frozen("command", {"command": ["x"], "seconds": 7200}), 8400),
        (frozen("coding.execute", {"executor": "agent", "limits": {"seconds": 9000}}), 10_200),
        (frozen("coding.execute", {"seconds": 7200}, timeout=60), 60),
    ],
)
def test_a_step_has_the_time_that_somebody_gave_it(settings, step, seconds):
    settings.WAYSTATION_STEP_TIMEOUT = 1800.0
    settings.WAYSTATION_CLONE_SECONDS, settings.WAYSTATION_COMMAND_SECONDS = 300.0, 900.0
    assert limit_of(step) == seconds


@pytest.mark.django_db(transaction=True)
def test_the_page_of_an_order_says_when_its_step_ends(order_that, ana):
    pages: dict[str, str] = {}
    client = Client()
    client.force_login(ana)

    def look(state, context):
        pages["during"] = client.get(f"/work-orders/{order.shown_id}/").content.decode()
        return Go()

    order = order_that(look, timeout=7200)
    drive(order)
    after = client.get(f"/work-orders/{order.shown_id}/").content.decode()
    words = re.sub(r"\s+", " ", unescape(re.sub("<[^>]*>", "", pages["during"])))
    assert re.search(r"This step began just now and ends at .*, \d\d:\d\d at the latest\.", words)
    assert "This step began" not in after
