"""`WAYSTATION_WORKFLOWS`: modules of one's own bring steps and templates along, as ours do
(`runs.definitions.shipped`).
"""

from __future__ import annotations

import os
import sys

import pytest
from django.core.exceptions import ImproperlyConfigured

from runs import services
from runs.definitions import shipped
from runs.models import Template
from runs.workflows import registry
from tests.conftest import drive
from tests.programs.begun import Begun

OURS = """
from runs.workflows.base import Done
from runs.workflows.registry import step

@step("shop.greet", needs_request=True, reducers={"seen": "add"})
def greet(state, context):
    return Done(update={"output": f"Hello, {context.order.request}"})

STEP_TEMPLATES = {"shop-greet": {"title": "Greet", "function": "shop.greet"}}
TEMPLATES = {"shop": {"title": "Shop", "needs_repository": False, "steps": [{"step_type": "greet", "step_template_slug": "shop-greet"}]}}
"""


@pytest.fixture
def shop(tmp_path, monkeypatch, settings):
    (tmp_path / "shop_of_tests.py").write_text(OURS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_STEPS", dict(registry._STEPS))
    monkeypatch.setattr(registry, "_TRAITS", dict(registry._TRAITS))
    monkeypatch.delitem(sys.modules, "shop_of_tests", raising=False)
    settings.WAYSTATION_WORKFLOWS = ["shop_of_tests"]


@pytest.mark.django_db
@pytest.mark.usefixtures("shop")
def test_a_module_of_ones_own_brings_its_steps_and_templates(ana):
    """What it says of its step holds for its orders, as it does for what we ship: the core knows
    neither.
    """
    assert [template.slug for template in shipped.load()] == ["shop"]
    assert Template.objects.get(slug="shop").reducers == {"seen": "add"}
    with pytest.raises(services.InputInvalid):
        services.submit("shop", by=ana)
    order = drive(services.submit("shop", request="Ana", by=ana))
    assert order.latest_run.status == "completed" and shipped.load() == [
        Template.objects.get(slug="shop")
    ]


@pytest.mark.usefixtures("shop")
def test_a_module_that_cannot_be_imported_stops_the_start_and_is_named(settings, tmp_path):
    settings.WAYSTATION_WORKFLOWS = ["shop_of_tests", "shop_that_is_not_there"]
    with pytest.raises(
        ImproperlyConfigured,
        match="'shop_that_is_not_there' cannot be imported: ModuleNotFoundError",
    ):
        shipped.register()
    environment = {
        **os.environ,
        "WAYSTATION_WORKFLOWS": "shop_that_is_not_there",
        "WAYSTATION_DATA": str(tmp_path / "data"),
    }
    ended = Begun("manage.py", "check", environment=environment).ended()
    assert (
        ended.returncode == 1
        and "WAYSTATION_WORKFLOWS: 'shop_that_is_not_there'" in ended.stderr
        and "Traceback" not in ended.stderr
    )
