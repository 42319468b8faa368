"""The apps in a project of somebody else's, which knows no more of them than
docs/how-to/embedding.md says.
"""

from __future__ import annotations

import re
import shutil
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from django.apps import apps
from django.conf import settings as django_settings
from django.core.management import call_command
from django.urls import clear_url_caches

from hitl import checks
from hitl.host import settings as host
from hitl.http import rest
from runs import defaults
from tests.databases import copies
from tests.documents.blocks import blocks
from tests.programs.begun import Begun, plain
from tests.servers.private import answers, free_port
from tests.servers.stack import ROOT, until

WORKFLOWS = """
from pydantic import BaseModel
from runs.workflows import Context, Done, Go, Outcome, Report, Review, State, read, step, use, workflow

class Greeting(BaseModel):
    name: str

@step("shop.greet")
def greet(state: State, context: Context) -> Outcome:
    words = f"Hello, {read(Greeting, context.order.input).name}"
    return Go(update={"said": words}, report=Report(content=words))

@step("shop.send")
def send(state: State, context: Context) -> Outcome:
    return Done(update={"sent": state["said"]})

greet_all = workflow("greet", title="Greet", input=Greeting, steps=[use(greet, pause_after=True), send])
"""
OWN = """
WAYSTATION_WORKFLOWS = ["shop.workflows"]
INSTALLED_APPS += ["shop"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
"""
PAGES = """
from django.shortcuts import render
urlpatterns = [*urlpatterns, path("shop", lambda request: render(request, "shop/home.html"))]
"""
LOOK = """
import shop.asgi
from celery import current_app
from django.core.management import call_command
from checkpoints.database.people import User
call_command("check", fail_level="WARNING")
call_command("makemigrations", "--check", "--dry-run", verbosity=0)
assert type(shop.asgi.application).__name__ == "Served"
assert "runs.tasks.advance_run" in current_app.tasks, current_app
User.objects.create_superuser("ada", "ada@example.org", "a long and odd one")
call_command("api_token", "ada")
"""


@pytest.fixture
def shop(tmp_path):
    """What `django-admin startproject` makes, with the lines of the guide and a page of its own."""
    call_command("startproject", "shop", tmp_path)
    for block in blocks("docs/how-to/embedding.md"):
        if block.language == "python":
            file = tmp_path / block.text.split(None, 2)[1].rstrip(":,")
            own = OWN if file.name == "settings.py" else PAGES if file.name == "urls.py" else ""
            file.write_text(f"{file.read_text()}{own}\n{block.text}")
    (tmp_path / "shop/workflows.py").write_text(WORKFLOWS)
    pages = tmp_path / "shop/templates"
    (pages / "shop").mkdir(parents=True)
    (pages / "base.html").write_text("The shop: {% block main %}{% endblock %}")
    (pages / "shop/home.html").write_text(
        "{% extends 'base.html' %}{% block main %}cakes{% endblock %}"
    )
    shutil.copyfile(copies.sqlite_tables(), tmp_path / "db.sqlite3")  # making them takes its time
    return tmp_path


@pytest.mark.stack
def test_a_new_project_with_the_lines_of_the_guide_orders_asks_and_answers(shop):
    """Issue 37, 3: the guide was a list of all that was still in the shipped project."""
    port = free_port()

    def manage(*words: str) -> Begun:
        place: dict[str, Any] = {"root": shop, "search": str(ROOT), "of_product": False}
        return Begun("manage.py", *words, environment=plain(), **place)

    looked = manage("shell", "-c", LOOK).ended()
    assert looked.returncode == 0, looked.stdout + looked.stderr
    token = looked.stdout.split()[-1]
    server = manage("standalone", "--port", str(port))
    try:
        until(lambda: answers(port), what="an open port", seconds=120)
        bearer = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:

            def call(method, path, body=None):
                told = client.request(method, f"/api/v1/{path}", json=body, headers=bearer)
                assert told.status_code < 300, told.text
                return told.json()

            assert client.get("/api/v1/work-orders").status_code == 401
            refused = client.post("/api/v1/work-orders", json={"template": "greet"}, headers=bearer)
            assert (refused.status_code, refused.json()["code"]) == (422, "input_invalid")
            body = {"template": "greet", "input": {"name": "Bo"}}
            order = call("POST", "work-orders", body)["id"]
            asked = until(lambda: call("GET", "pauses?open=true")["results"], what="the question")
            assert asked[0]["pause_content"] == "Hello, Bo"
            log_in(client)
            page = client.get(f"/work-orders/{order}/")
            assert "Hello, Bo" in page.text and "content-security-policy" in page.headers
            form = {"action": "approve", "revision": 1, **forged(client)}
            assert client.post(f"/pauses/{asked[0]['id']}/decide", data=form).status_code == 302
            place = f"/api/v1/work-orders/{order}/resume"
            second = client.post(place, json={"decision": "approve"}, headers=bearer)
            assert (second.status_code, second.json()["code"]) == (409, "pause_closed")
            until(
                lambda: call("GET", f"work-orders/{order}")["status"] == "completed",
                what="its end",
            )
            events = client.get(f"/api/v1/work-orders/{order}/logs/stream", headers=bearer)
            assert "run_completed" in events.text, "the stream of an order that is over ends"
            own = client.get("/shop")
            assert own.text == "The shop: cakes" and "content-security-policy" not in own.headers
            for path in (
                "/admin/",
                "/admin/runs/workorder/",
                "/admin/auth/user/",
                "/static/css/app.css",
            ):
                assert client.get(path).status_code == 200, path
            for path in ("/livez", "/api/schema/", "/api/reference/", "/manifest.webmanifest"):
                assert client.get(path).status_code == 200, path
            assert client.get("/nowhere").status_code == 404
    finally:
        server.process.terminate()
        server.ended(within=60)


def log_in(client):
    page = client.get("/login", headers={"Accept-Language": "de"})
    assert "Anmelden" in page.text
    fields = {"username": "ada", "password": "a long and odd one", **forged(client)}
    assert client.post("/login", data=fields).status_code == 302


def forged(client):
    return {"csrfmiddlewaretoken": client.cookies["csrftoken"]}


def test_a_projects_own_middlewares_keep_their_places():
    own = ["one.First", "django.middleware.security.SecurityMiddleware", "two.Second"]
    found = host.merged([*own, "django.middleware.common.CommonMiddleware", "three.Third"])
    assert [name for name in found if name not in own and "three" not in name] == [
        name for name in host.MIDDLEWARE if name != own[1]
    ]
    assert found[0] == "one.First"
    assert found[found.index("two.Second") - 1] == own[1]
    assert found[found.index("three.Third") - 1].endswith("CommonMiddleware")


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
