"""What is switched on beside the core says of itself what it brings along."""

from __future__ import annotations

from io import StringIO

import pytest

from checkpoints import extension
from hitl.management.commands import standalone
from runs.models import WorkOrder
from runs.workflows import registry
from runs.workflows.code.fingerprint import fingerprint
from tests.programs import settings as walking
from tests.worlds.people import person

pytestmark = pytest.mark.one_database


def test_the_core_alone_starts_shows_its_pages_and_takes_an_order_to_its_question(tmp_path):
    """Before, the demo's command imported the samples of booking, and without what ships nothing
    was tried.
    """
    done = walking.run(
        "tests.programs.core_alone",
        {
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "WAYSTATION_EXTENSIONS": "",
            "WAYSTATION_DATA": str(tmp_path / "data"),
            "DATABASE_URL": f"sqlite:///{tmp_path / 'alone.sqlite3'}",
        },
    )
    assert done.stdout.endswith("whole\n"), done.stdout + done.stderr


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
