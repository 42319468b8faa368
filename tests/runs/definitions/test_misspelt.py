"""A template that names a rule or a person that is not there is refused at every door, naming what
is there.
"""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse

from runs import definitions, services
from runs.definitions import shipped
from runs.models import Template
from tests.hitl.forms.controls import form_of
from tests.worlds.ruled_order import browser, rest

pytestmark = [pytest.mark.django_db, pytest.mark.one_database, pytest.mark.usefixtures("templates")]

PLAN = {
    "step_type": "planning",
    "step_template_slug": "test-plan",
    "pause_after": True,
    "pause_phase": "awaiting_plan_approval",
}
FINISH = {"step_type": "deliver", "step_template_slug": "test-finish"}


def wrong(**said):
    """The steps of a template whose first says this."""
    return [{**PLAN, **said}, FINISH]


MISSPELT = {key: value for key, value in PLAN.items() if key != "pause_after"} | {
    "pause_afterr": True
}
REFUSED = [
    ([MISSPELT, FINISH], "steps.0.pause_afterr", '"pause_afterr". Did you mean pause_after'),
    (wrong(nonsense=1), "steps.0.nonsense", "There are choices, interrupt_after,"),
    (wrong(review={"quorumm": 2}), "steps.0.review", '"quorumm". Did you mean quorum?'),
    (
        wrong(review={"reviewers": {"user": ["ben"]}}),
        "steps.0.review.reviewers",
        '"user". Did you mean users?',
    ),
    (
        wrong(review={"deadline": {"after": "P1D", "outcom": "cancel"}}),
        "steps.0.review.deadline",
        "Did you mean outcome?",
    ),
    (wrong(retry={"attempts": 2, "bas": 1}), "steps.0.retry", "Did you mean base?"),
    (
        wrong(review={"reviewers": {"users": ["benn"]}}),
        "steps.0.review.reviewers.users",
        '"benn". Did you mean ben?',
    ),
    (
        wrong(review={"reviewers": {"groups": ["platfrom"]}}),
        "steps.0.review.reviewers.groups",
        "Did you mean platform?",
    ),
    (
        wrong(review={"escalation": [{"after": "P1D", "users": ["nobody"]}]}),
        "steps.0.review.escalation.0.users",
        '"nobody". There are',
    ),
    (
        wrong(choices=[{"name": "skip", "label": "Skip", "to": "deliver", "too": "deliver"}]),
        "steps.0.choices",
        "A list of objects with name",
    ),
]


@pytest.fixture
def author(ana, ben, zoe):
    """Ana, who may edit templates by every door."""
    names = ["add_template", "change_template", "view_template", "add_steptemplate"]
    ana.user_permissions.add(*Permission.objects.filter(codename__in=names))
    ana.is_staff = True
    ana.save()
    return ana


@pytest.mark.parametrize(("steps", "field", "words"), REFUSED)
def test_over_rest_what_is_not_known_is_refused(author, steps, field, words):
    """Before, `pause_afterr` was saved with 200 and the order was completed with nobody asked; so
    was a reviewer who does not exist.
    """
    answer = rest(author).put("/api/v1/templates/workflows/new", {"steps": steps}, format="json")
    assert answer.status_code == 422
    assert answer.json()["code"] == "template_invalid"
    assert words in " ".join(answer.json()["errors"][field])
    assert not Template.objects.filter(slug="new").exists()


def test_a_key_beside_the_steps_is_refused_as_well(author):
    """Before, `input_shema` was dropped without a word, and with it every check of an order's
    input.
    """
    for slug, body, close in (
        ("workflows/new", {"steps": [FINISH], "input_shema": {}}, "Did you mean input_schema"),
        (
            "steps/new",
            {"title": "New", "function": "test.plan", "confg": {}},
            "Did you mean config?",
        ),
        (
            "steps/new",
            {"title": "New", "sub_steps": wrong(review={"reviewers": {"users": ["benn"]}})},
            "Did you mean ben?",
        ),
        ("steps/new", {"title": "New", "sub_steps": [MISSPELT]}, "Did you mean pause_after"),
    ):
        answer = rest(author).put(f"/api/v1/templates/{slug}", body, format="json")
        assert answer.status_code == (422 if "sub_steps" in body else 400), body
        assert close in json.dumps(answer.json()["errors"])


def test_what_was_read_may_be_sent_back(author):
    read = rest(author).get("/api/v1/templates/workflows/writing").json()
    answer = rest(author).put("/api/v1/templates/workflows/writing", read, format="json")
    assert (answer.status_code, answer.json()["version"]) == (200, read["version"])


def test_the_page_names_who_is_near(author):
    """Before, a misspelt reviewer was saved, and nobody was ever asked."""
    sent = form_of(browser(author).get("/templates/writing/").content.decode())
    sent["0.review.reviewers.users.count"], sent["0.review.reviewers.users.0"] = "1", "benn"
    answer = browser(author).post("/templates/writing/", sent)
    assert answer.status_code == 422
    assert "Did you mean ben?" in answer.content.decode()
    assert definitions.current("writing").version == 1


def test_the_admin_shows_it_at_the_field(author):
    template = definitions.current("writing")
    url = reverse("admin:runs_template_change", args=[template.pk])
    steps = [MISSPELT, *template.steps[1:]]
    answer = browser(author).post(
        url,
        {
            "title": template.title,
            "steps": json.dumps(steps),
            "frequency": "",
            "input_schema": "{}",
        },
    )
    assert answer.status_code == 200
    assert "Did you mean pause_after" in answer.content.decode()
    assert definitions.current("writing").version == 1


def test_the_loader_of_declared_workflows_refuses_too(monkeypatch, settings):
    declaring: Any = ModuleType("misspelt_flows")
    declaring.__file__ = "misspelt_flows.py"
    declaring.TEMPLATES = {"wrong": {"title": "Wrong", "steps": [MISSPELT, FINISH]}}
    monkeypatch.setitem(sys.modules, "misspelt_flows", declaring)
    settings.WAYSTATION_WORKFLOWS = ["misspelt_flows"]
    with pytest.raises(shipped.TemplatesRefused, match="Did you mean pause_after"):
        shipped.load()


def test_an_order_of_a_template_that_was_saved_before_is_refused_instead_of_running_unasked(ana):
    """Templates that were saved by an earlier version may still hold a misspelt key: nothing begins
    by them.
    """
    Template.objects.create(
        slug="old", title="Old", steps=[MISSPELT, FINISH], needs_repository=False
    )
    with pytest.raises(definitions.TemplateInvalid, match="pause_afterr"):
        services.submit("old", by=ana)
    answer = browser(ana).post("/work-orders/new", {"template": "old"})
    assert (answer.status_code, browser(ana).get("/templates/").status_code) == (422, 200)
    assert "pause_afterr" in answer.content.decode()
