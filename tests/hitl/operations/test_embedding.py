"""The apps in a project of somebody else's, which knows no more of them than
docs/how-to/embedding.md says.
"""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.conf import settings as django_settings
from django.urls import clear_url_caches

from hitl import checks
from hitl.http import rest
from runs import defaults
from tests.programs import settings as walking
from tests.programs.settings import ROOT

SETTINGS = """
SECRET_KEY = "a key of the shop's own"
INSTALLED_APPS = [
    "django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "rest_framework", "channels", "axes",
    "checkpoints", "runs", "hitl",
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}}
ROOT_URLCONF = "shop.urls"
WAYSTATION_WORKFLOWS = ["shop.workflows"]
"""
WORKFLOWS = """
from pydantic import BaseModel
from runs.workflows import Done, read, step, workflow

class Greeting(BaseModel):
    name: str

@step("shop.greet")
def greet(state, context):
    return Done(update={"said": f"Hello, {read(Greeting, context.order.input).name}"})

greet_all = workflow("greet", title="Greet", input=Greeting, steps=[greet])
"""
URLS = """
from django.urls import include, path

urlpatterns = [
    path("desk/", include("hitl.urls")),
    path("desk/api/v1/", include("runs.urls")),
    path("desk/api/v1/", include("hitl.api.urls")),
]
"""
WALK = """
import django
django.setup()
from celery import current_app
from django.core.management import CommandError
from django.test import Client
from django.test.utils import setup_test_environment
from checkpoints.database.people import User
from tests.databases import cleaning as quick
from tests.programs.settings import Api, drive, said

setup_test_environment()
current_app.conf.broker_url = "memory://"
said("check")
said("migrate", "--verbosity", "0")
said("makemigrations", "--check", "--dry-run")
User.objects.create_superuser("ada", "ada@example.org", "a long and odd one")
quick.load_templates()
api = Api("/desk/api/v1/", said("api_token", "ada").split()[-1])
assert Client().get("/desk/api/v1/work-orders").status_code == 401
status, order = api.call("POST", "work-orders", {"template": "writing"})
assert status == 201, order
assert api.approved(order["id"]) == "completed"
status, refused = api.call("POST", f"work-orders/{order['id']}/resume", {"decision": "approve"})
assert (status, refused["code"]) == (409, "pause_closed"), refused
order = said("workorder", "--user", "ada", "create", "--template", "writing").strip()
assert drive(order) == "paused"
said("workorder", "--user", "ada", "approve", order)
assert "greet v1" in said("load_templates")
try:
    said("workorder", "--user", "ada", "create", "--template", "greet")
except CommandError as error:
    assert "name: This is needed." in str(error), error
else:
    raise AssertionError("an order without its input was made")
order = said("workorder", "--user", "ada", "create", "--template", "greet", "--input", '{"name": "Bo"}')
assert drive(order.strip()) == "completed"
print("whole")
"""


@pytest.fixture
def shop(tmp_path):
    """A project of four settings."""
    (tmp_path / "shop").mkdir()
    for name, text in (
        ("__init__", ""),
        ("settings", SETTINGS),
        ("urls", URLS),
        ("walk", WALK),
        ("workflows", WORKFLOWS),
    ):
        (tmp_path / "shop" / f"{name}.py").write_text(text)

    return tmp_path


def test_a_project_of_four_settings_migrates_orders_and_answers(shop):
    """Before, some fifty settings were missing, one after the other, each as an AttributeError."""
    done = walking.run(
        "shop.walk", {"DJANGO_SETTINGS_MODULE": "shop.settings"}, cwd=shop, search=str(shop)
    )
    assert done.stdout == "whole\n", done.stdout + done.stderr
    assert (shop / "shop.sqlite3").exists()


def test_settings_of_a_project_stay_and_the_rest_is_filled_in():
    class Given:
        WAYSTATION_CLAIM_SECONDS = 5
        WAYSTATION_DATA = "/srv/shop"

    defaults.fill(Given)
    given = vars(Given)
    assert (given["WAYSTATION_CLAIM_SECONDS"], given["WAYSTATION_GIT_SCHEMES"]) == (5, ["https"])
    assert (
        str(given["WAYSTATION_SHARED"]) == "/srv/shop/shared"
        and str(given["WAYSTATION_FILES"][-1]) == "/srv/shop/inbox"
    )


def test_every_setting_that_the_apps_read_has_a_default():
    """A new one without a default would be missed in other projects only."""
    read = {
        name
        for app in ("checkpoints", "runs", "hitl", "extensions")
        for path in (ROOT / app).rglob("*.py")
        for name in re.findall(
            r"(?<!\w)settings\.(WAYSTATION_[A-Z_]+[A-Z]|REDIS_URL|NUM_PROXIES)", path.read_text()
        )
    }

    class Given:
        pass

    defaults.fill(Given)
    assert len(read) > 60
    assert {name for name in read if not hasattr(Given, name)} == set()


def _missing():
    return " ".join(str(one.msg) for one in checks.nothing_is_missing())


def test_what_a_project_lacks_is_named_each_with_what_is_so_without_it(settings, monkeypatch):
    """Issue 37, 3: the first sign of it was a server error."""
    assert _missing() == ""  # the shipped project has all
    engine = settings.TEMPLATES[0]
    changes = {
        "MIDDLEWARE": ["django.middleware.common.CommonMiddleware"],
        "TEMPLATES": [{**engine, "OPTIONS": {}}],
        "STATICFILES_DIRS": [],
        "LOCALE_PATHS": [],
        "FORMAT_MODULE_PATH": None,
        "CHANNEL_LAYERS": {},
        "REST_FRAMEWORK": {
            name: value for name, value in rest.FRAMEWORK.items() if name != "EXCEPTION_HANDLER"
        },
        "ROOT_URLCONF": "tests.programs.no_addresses",
    }
    for name, value in changes.items():
        setattr(settings, name, value)
    clear_url_caches()
    bare = SimpleNamespace(conf=SimpleNamespace(beat_schedule={}, task_routes=None))
    monkeypatch.setattr("hitl.checks.current_app", bare)
    monkeypatch.setattr(apps, "is_installed", lambda name: name != "csp")
    said = _missing()
    for name in (
        *checks.MIDDLEWARE,
        *checks.ADDRESSES,
        *checks.PROCESSORS,
        "csp in INSTALLED_APPS",
        "builtins",
        "STATICFILES_DIRS",
        "LOCALE_PATHS",
        "FORMAT_MODULE_PATH",
        "CHANNEL_LAYERS",
        "EXCEPTION_HANDLER",
        "beat_schedule",
        "task_routes",
    ):
        assert name in said
    settings.TEMPLATES = []
    said = _missing()
    assert "in the DIRS of TEMPLATES" in said and "hitl.views.common.navigation" in said


def test_an_api_that_a_project_leaves_unguarded_is_an_error(settings):
    """Django REST framework by itself lets in everybody."""
    assert checks.api_is_guarded() == []
    settings.REST_FRAMEWORK = {
        **rest.FRAMEWORK,
        "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    }
    [error] = checks.api_is_guarded()
    assert "hitl.http.authentication.WithinScope" in error.msg and error.is_serious()
    settings.REST_FRAMEWORK = {}
    assert "IsAuthenticated" in checks.api_is_guarded()[0].msg
    assert django_settings.REST_FRAMEWORK == {}
