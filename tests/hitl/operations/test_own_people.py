"""A model of people of a project's own, named by AUTH_USER_MODEL."""

from __future__ import annotations

from django.contrib.auth.models import Group

from checkpoints import checks
from checkpoints.database import people
from tests.programs.begun import Begun, plain
from tests.programs.warm import ROOT


def test_people_who_log_in_by_mail_address_order_and_answer_like_all_others(tmp_path):
    """Before, seventy modules took Django's own model: with another one the product did not
    start.
    """
    environment = {
        **plain(),
        "DJANGO_SETTINGS_MODULE": "tests.own_people.settings",
        "WAYSTATION_DATA": str(tmp_path / "data"),
        "DATABASE_URL": f"sqlite:///{tmp_path / 'own.sqlite3'}",
    }
    program = ("-m", "tests.own_people.walk")
    done = Begun(*program, environment=environment, of_product=False).ended()
    assert done.stdout.endswith("whole\n"), done.stdout + done.stderr


def test_a_model_that_lacks_what_is_needed_is_named_by_the_check(monkeypatch):
    assert checks.people_have_what_it_takes() == []
    monkeypatch.setattr(people, "User", Group)
    [error] = checks.people_have_what_it_takes()
    assert (
        "is_active, is_staff, is_superuser, email" in error.msg and "get_full_name()" in error.msg
    )
    assert error.is_serious()


def test_only_one_module_takes_djangos_own_people():
    """Else a project with people of its own finds out when that line is reached."""
    found = [
        str(path.relative_to(ROOT))
        for app in ("checkpoints", "runs", "hitl", "project", "extensions")
        for path in (ROOT / app).rglob("*.py")
        for line in path.read_text().splitlines()
        if "django.contrib.auth.models import" in line
        and "User" in line.split("import")[1].replace("AnonymousUser", "").replace("BaseUser", "")
    ]
    assert found == ["checkpoints/database/people.py"]
