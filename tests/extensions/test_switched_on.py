"""What is switched on beside the core says of itself what it brings along."""

from __future__ import annotations

from io import StringIO

import pytest

from checkpoints import extension
from hitl.management.commands import standalone
from runs.models import WorkOrder
from runs.workflows import registry
from runs.workflows.code.fingerprint import fingerprint
from tests.worlds.people import person

pytestmark = pytest.mark.one_database


@pytest.mark.django_db
@pytest.mark.parametrize("named", [["+"], ["extensions.chat.templates"]])
def test_a_demo_begins_with_what_is_switched_on_and_loaded(named, settings, tmp_path, templates):
    settings.WAYSTATION_WORKFLOWS = named
    settings.WAYSTATION_DATA = tmp_path
    settings.WAYSTATION_SHARED, settings.WAYSTATION_FILES = (
        tmp_path / "shared",
        [tmp_path / "inbox"],
    )
    settings.WAYSTATION_REPOSITORIES = [tmp_path / "sample"]
    person(standalone.DEMO_USER, is_superuser=True)
    command = standalone.Command(stdout=(out := StringIO()))
    for _ in range(2):  # a later start makes none again
        command._demo("http://here", quiet=False)
    made = [order.template.slug for order in WorkOrder.objects.order_by("pk")]
    assert made == (["smart-booking"] * 3 + ["repo-tidy"] if named == ["+"] else [])
    assert "Open          http://here/" in out.getvalue()


def test_each_is_an_app_that_names_modules_of_its_own():
    for one in extension.installed():
        assert all(module.startswith(f"{one.name}.") for module in one.workflows), one.name
    assert {"booking", "chat", "coding", "repo_tidy"} <= {
        one.label for one in extension.installed()
    }


def test_the_shipped_steps_differ():
    names = [name for name in registry.known() if name.startswith(("booking", "coding", "repo_"))]
    assert len({fingerprint(registry.find(name)) for name in names} - {""}) == len(names) > 12
