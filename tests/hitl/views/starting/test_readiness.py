"""Templates that cannot run on this server: offered nowhere as if they could, refused at every
door, and the reason in words.
"""

from __future__ import annotations

import sys

import pytest
from django.core.management import CommandError, call_command

from runs import definitions, services
from runs.agents.model import ModelEndpoint
from runs.definitions import readiness
from runs.models import Credential, StepTemplate, Template, WorkOrder
from runs.threads import turns as turns
from tests.worlds.ruled_order import browser, rest

pytestmark = [pytest.mark.django_db, pytest.mark.one_database, pytest.mark.usefixtures("templates")]

OURS = "http://127.0.0.1:9/v1"


def template(slug, config, *, function="agent", needs_repository=False):
    definitions.edit_step_template(slug, title=slug, function=function, config=config)
    steps = [{"step_type": "work", "step_template_slug": slug}]
    return definitions.edit_template(
        slug, steps=steps, title=slug.capitalize(), needs_repository=needs_repository
    )


def rows(user):
    return {
        row["slug"]: row
        for row in rest(user).get("/api/v1/templates/workflows?limit=200").json()["results"]
    }


def test_what_cannot_run_is_shown_with_its_reason_and_refused_at_every_door(ana, transactional_db):
    """Before, such a template looked like any other, and its order failed at the first step."""
    template("keyed", {"model": "openai:a", "base_url": OURS, "credential": "shop-key"})
    words = 'There is no credential "shop-key"'
    shown = rows(ana)
    assert (shown["keyed"]["can_run"], shown["writing"]["can_run"], shown["writing"]["lacks"]) == (
        False,
        True,
        "",
    )
    assert words in shown["keyed"]["lacks"]
    api, pages = rest(ana), browser(ana)
    assert words in api.get("/api/v1/templates/workflows/keyed").json()["lacks"]
    thread = turns.open_thread(by=ana)
    for door, body in (
        ("work-orders", {"template": "keyed"}),
        (f"threads/{thread.shown_id}/runs", {"template": "keyed", "input": {}}),
    ):
        refused = api.post(f"/api/v1/{door}", body, format="json")
        assert (refused.status_code, refused.json()["code"]) == (422, "credential_missing")
        assert words in refused.json()["detail"] and "nothing was begun" in refused.json()["detail"]
    with pytest.raises(CommandError, match="There is no credential"):
        call_command("workorder", "--user", "ana", "create", "--template", "keyed")
    asked = api.post("/api/v1/work-orders", {"user_request": "x"}, format="json").json()["detail"]
    assert "writing-quick" in asked and "keyed" not in asked
    for url in ("/templates/", "/templates/keyed/", "/work-orders/new"):
        assert "There is no credential &quot;shop-key&quot;" in pages.get(url).content.decode(), url
    offered = pages.get("/work-orders/new").content.decode()
    assert "?template=writing" in offered and "?template=keyed" not in offered
    talk = pages.get(f"/threads/{thread.shown_id}/").content.decode()
    assert 'value="writing"' in talk and 'value="keyed"' not in talk
    said = pages.post(f"/threads/{thread.shown_id}/say", {"text": "Hello", "template": "keyed"})
    assert said.status_code == 422
    assert not WorkOrder.objects.exists()
    Credential.objects.create(name="shop-key", value="x" * 20)
    assert rows(ana)["keyed"]["can_run"]
    assert api.post("/api/v1/work-orders", {"template": "keyed"}, format="json").status_code == 201


def test_a_key_of_a_team_is_there_for_its_members_orders_alone(ana, zoe, team):
    template("keyed", {"model": "openai:a", "base_url": OURS, "credential": "shop-key"})
    Credential.objects.create(name="shop-key", value="x" * 20, team=team)
    assert [rows(user)["keyed"]["can_run"] for user in (ana, zoe)] == [True, False]
    with pytest.raises(readiness.CannotRun):
        services.submit("keyed", by=ana)
    assert services.submit("keyed", by=ana, team=team).pk


def test_each_thing_that_may_be_missing_has_its_code(ana, settings, monkeypatch, tmp_path):
    """A vendor without a key, a library, a tool, a step, a step template, a program's key,
    any repository, and who writes code.
    """
    monkeypatch.setitem(sys.modules, "anthropic", None)
    settings.WAYSTATION_CREDENTIALS_FROM_ENV = ["THE_WORKERS"]
    settings.WAYSTATION_COMMANDS = ["true"]
    settings.WAYSTATION_REPOSITORIES, settings.WAYSTATION_GIT_HOSTS = [tmp_path / "absent"], []
    template("vendor", {"model": "openai:a"})
    template("library", {"model": "anthropic:a", "credential": "THE_WORKERS"})
    template("tool", {"tools": ["clock"]})
    template("step", {}, function="deliver")
    template("gone", {})
    template(
        "program",
        {"command": ["true"], "stdin": True, "credentials": {"TOKEN": "forge"}},
        function="command",
    )
    template(
        "workers",
        {"command": ["true"], "stdin": True, "credentials": {"TOKEN": "THE_WORKERS"}},
        function="command",
    )
    StepTemplate.objects.filter(slug="tool").update(config={"tools": ["crystal_ball"]})
    StepTemplate.objects.filter(slug="step").update(function="shop.closed")
    StepTemplate.objects.filter(slug="gone").delete()
    found = {
        slug: refusal.code
        for slug, refusal in readiness.lacking(Template.objects.current(), by=ana).items()
    }
    assert found["quick-fix-workflow"] == "no_repository_allowed"
    settings.WAYSTATION_GIT_HOSTS = ["github.com"]
    found = {
        slug: refusal.code
        for slug, refusal in readiness.lacking(Template.objects.current(), by=ana).items()
    }
    assert found == {
        "vendor": "credential_missing",
        "library": "not_installed",
        "tool": "unknown_tool",
        "step": "step_unknown",
        "gone": "template_invalid",
        "program": "credential_missing",
        "quick-fix-workflow": "no_coder",
        "advanced-dev-workflow": "no_coder",
    }
    settings.WAYSTATION_MODEL = ModelEndpoint(model="openai:a")
    assert (
        readiness.as_seen_by(ana).why_not(definitions.current("chat-agent")).code
        == "credential_missing"
    )


def test_a_list_asks_the_database_no_more_for_more_templates(ana, django_assert_max_num_queries):
    for number in range(10):
        template(f"more-{number}", {"model": "openai:a", "credential": "shop-key"})
    found = list(Template.objects.current())
    with django_assert_max_num_queries(3):
        assert len(readiness.lacking(found, by=ana)) >= 10
