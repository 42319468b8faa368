"""Templates in the browser: where a person is asked is set by hand."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from hitl.forms.templates import TemplateForm
from runs import definitions
from runs.models import Template

pytestmark = pytest.mark.django_db


@pytest.fixture
def editor(templates, ana) -> Client:
    ana.user_permissions.add(Permission.objects.get(codename="add_template"))
    client = Client()
    client.force_login(ana)
    return client


def url(slug: str = "repo-tidy") -> str:
    return f"/templates/{slug}/"


def shown(slug: str = "repo-tidy") -> dict[str, str]:
    """What a browser sends when nothing was changed."""
    form = TemplateForm(template=definitions.current(slug))
    values = {field.html_name: field.initial for field in form}
    return {
        name: "on" if value is True else str(value)
        for name, value in values.items()
        if value is not False
    }


def test_the_list_says_where_each_template_asks(editor):
    page = editor.get("/templates/").content.decode()
    row = re.search(r"Tidy a repository</a>.*?</li>", page, re.S)
    assert row
    assert "Pauses after Planning, Execute, Review." in row[0]


def test_a_pause_is_taken_out_in_the_browser_and_the_next_order_runs_on(editor, make_order):
    """S4-4, S4-12: the old version stays for what was ordered with it."""
    before = make_order("writing")
    given = shown("writing")
    asked = [name for name in given if name.endswith(".pause_after")]
    assert asked
    answer = editor.post(
        url("writing"), {name: value for name, value in given.items() if name not in asked}
    )
    assert answer.status_code == 302
    assert "Saved as version 2" in editor.get(url("writing")).content.decode()
    assert [
        step.get("pause_after") for step in Template.objects.get(slug="writing", version=1).steps
    ] != [False] * 2
    after = make_order("writing")
    assert not any(step["pause_after"] for step in after.definition.steps)
    assert any(step["pause_after"] for step in before.definition.steps)


@pytest.mark.parametrize("slug", ["repo-tidy", "smart-booking", "writing", "repo-tidy-quick"])
def test_saving_what_is_shown_makes_no_version(editor, slug):
    assert editor.post(url(slug), shown(slug)).status_code == 302
    assert definitions.current(slug).version == 1


def test_rules_of_a_step_are_written_and_others_stay(editor, ben):
    """S4-12: who answers, how many, by when; what the form does not know is kept."""
    current = definitions.current("repo-tidy")
    steps = [
        {**step, "review": {"undo": 30, "reminders": ["PT1H"]}}
        if step["step_type"] == "planning"
        else step
        for step in current.steps
    ]
    definitions.edit_template("repo-tidy", steps=steps)
    page = editor.get(url()).content.decode()
    assert "review.reminders, review.undo" in page
    given = {
        **shown(),
        "0.reviewers.users": "ben, ana, ben",
        "0.quorum": "2",
        "0.deadline.after": "P2D",
        "0.deadline.outcome": "cancel",
        "0.deadline.calendar": "business",
        "0.risk": "high",
    }
    del given["0.self_approval"]
    assert editor.post(url(), given).status_code == 302
    saved = definitions.current("repo-tidy")
    assert saved.steps[0]["review"] == {
        "undo": 30,
        "reminders": ["PT1H"],
        "reviewers": {"users": ["ben", "ana"]},
        "quorum": 2,
        "self_approval": False,
        "risk": "high",
        "deadline": {"after": "P2D", "outcome": "cancel", "calendar": "business"},
    }
    assert saved.steps[1:] == steps[1:]
    assert saved.created_by is not None


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("0.quorum", "0", "greater than or equal to 1"),
        ("0.deadline.after", "soon", "soon"),
        ("0.deadline.outcome", "escalate", "nobody to escalate to"),
        ("0.reviewers.users", "ben", "Only 1 may answer"),
        ("title", "", "required"),
        ("0.risk", "reckless", "Select a valid choice"),
        ("0.max_revisions", "11", "less than or equal to 10"),
    ],
)
def test_what_cannot_be_is_said_beside_its_field_and_nothing_is_saved(editor, field, value, words):
    given = {**shown(), "0.quorum": "2", "0.deadline.after": "PT2H", field: value}
    answer = editor.post(url(), given)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert definitions.current("repo-tidy").version == 1


def test_two_who_edit_at_once_lose_nothing(editor):
    """F7: the second is told, and keeps what was entered."""
    given = {**shown(), "title": "Mine"}
    definitions.edit_template("repo-tidy", title="Theirs")
    answer = editor.post(url(), given)
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "Somebody saved this template at the same moment" in page
    assert 'value="Mine"' in page
    assert definitions.current("repo-tidy").title == "Theirs"


def test_who_may_not_sees_it_and_changes_nothing(templates, page):
    seen = page.get(url()).content.decode()
    assert "Save as version" not in seen
    assert "disabled" in seen
    refused = page.post(url(), {**shown(), "title": "Mine"})
    assert refused.status_code == 403
    assert "You may not change templates" in refused.content.decode()
    assert definitions.current("repo-tidy").version == 1


def test_there_is_no_page_of_a_template_that_is_none(editor):
    assert editor.get(url("nothing")).status_code == 404


@given(value=st.text(max_size=60))
def test_whatever_is_typed_is_kept_or_refused_but_never_an_error(value):
    template = Template(
        slug="x",
        version=3,
        title="X",
        steps=[{"step_type": "planning", "step_template_slug": "p", "pause_after": True}],
    )
    names = (
        "title",
        "0.quorum",
        "0.reviewers.users",
        "0.deadline.after",
        "0.deadline.outcome",
        "0.pause_phase",
        "version",
    )
    form = TemplateForm({**dict.fromkeys(names, value)}, template=template)
    if form.is_valid():
        assert form.fields_to_save()["steps"][0]["step_template_slug"] == "p"
